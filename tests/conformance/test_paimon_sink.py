"""The behaviours of a sink, over Paimon: read by its Rust package."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import PaimonHarness

from cdc.testing import SinkConformance

pytestmark = pytest.mark.slow  # a few hundred snapshots


class TestPaimonSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> PaimonHarness:
        return PaimonHarness(tmp_path)
