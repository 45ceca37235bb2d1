"""The behaviours of a sink, over Paimon: read by its Rust package."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypaimon")
pytest.importorskip("pypaimon_rust")

from paimon_harness import PaimonHarness

from cdc.errors import SinkError
from cdc.testing import SinkConformance
from cdc.testing.sink_conformance import keyless, prepare, row

pytestmark = pytest.mark.slow  # a few hundred snapshots


class TestPaimonSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> PaimonHarness:
        return PaimonHarness(tmp_path)

    def test_a_delete_takes_one_of_equal_rows(self, harness: PaimonHarness) -> None:
        """A table without a key only grows: it is an error that says so, and nothing is lost silently."""
        sink = harness.sink()
        sink.commit(0, prepare(sink, 0, [keyless("+I", row(1))], create=True))
        with pytest.raises(SinkError, match="without a key"):
            prepare(sink, 1, [keyless("-D", row(1))])
