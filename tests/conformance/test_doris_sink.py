"""The behaviours of a sink, over Doris: the stand-in, or a server that the environment names."""

import itertools
import os
from pathlib import Path

import pytest
from doris_harness import Harness
from doris_servers import DorisServer
from tiers import in_turn

from cdc.testing import SinkConformance

pytestmark = pytest.mark.slow  # a stand-in at work

NUMBER = itertools.count()


@in_turn(0, 2)
class TestDorisSink(SinkConformance):
    @pytest.fixture
    def harness(self, doris: DorisServer, tmp_path: Path) -> Harness:
        doris.query("DROP DATABASE IF EXISTS shop FORCE")
        return Harness(doris, tmp_path / "sink", f"pipeline-{os.getpid()}-{next(NUMBER)}")
