"""The driver's part: it keeps the positions at which chunks were read, once the batch that holds them is decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from connectors.mysql.snapshot.chunk import Watermark
from connectors.mysql.snapshot.chunk_plan import Watermarks


class DriverSide:
    """Writes the watermarks."""

    def __init__(self, directory: Path) -> None:
        self._marks = Watermarks(directory)

    def decided(self, reports: Sequence[dict[str, Any]]) -> None:
        """Keep what tasks reported. Repeatable."""
        found = [Watermark(**report["chunk"]) for report in reports if "chunk" in report]
        if found:
            self._marks.add(found)
