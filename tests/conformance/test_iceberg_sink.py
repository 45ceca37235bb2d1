"""The behaviours of a sink, over Iceberg: read by the library's scan."""

from __future__ import annotations

from pathlib import Path

import pytest
from iceberg_harness import IcebergHarness

from cdc.testing import SinkConformance

pytestmark = pytest.mark.slow  # a few hundred snapshots


class TestIcebergSink(SinkConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> IcebergHarness:
        return IcebergHarness(tmp_path)
