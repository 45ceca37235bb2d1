"""The behaviours of a sink, over Doris: the stand-in, or a server that the environment names."""

import itertools
import os
from pathlib import Path

import pytest
from doris_harness import Harness
from doris_servers import DorisServer

from cdc.errors import SinkError
from cdc.testing import SinkConformance
from cdc.testing.sink_conformance import keyless, prepare, row

pytestmark = pytest.mark.slow  # a stand-in at work

NUMBER = itertools.count()


class TestDorisSink(SinkConformance):
    @pytest.fixture
    def harness(self, doris: DorisServer, tmp_path: Path) -> Harness:
        doris.query("DROP DATABASE IF EXISTS shop FORCE")
        return Harness(doris, tmp_path / "sink", f"pipeline-{os.getpid()}-{next(NUMBER)}")

    def test_a_delete_takes_one_of_equal_rows(self, harness: Harness) -> None:
        """Doris cannot do that: it is an error that says so, and nothing is lost silently."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
        with pytest.raises(SinkError, match="without a key"):
            prepare(sink, 1, [keyless("-D", row(1))])
