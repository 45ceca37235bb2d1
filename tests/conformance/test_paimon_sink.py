"""The behaviours of a sink, over Paimon in a folder and behind a REST catalog: read by its Rust package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import PaimonHarness, rest_options
from paimon_rest import rest_catalog
from tiers import in_turn

from cdc.testing import SinkConformance

pytestmark = pytest.mark.slow  # a few hundred snapshots


class TestPaimonSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> PaimonHarness:
        return PaimonHarness(tmp_path)


@in_turn(0, 6)
class TestPaimonRestSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Iterator[PaimonHarness]:
        with rest_catalog(tmp_path / "lake") as (_, address):
            yield PaimonHarness(tmp_path, rest_options(address))
