"""Time that a test can move: timeouts of an hour or of three days happen when told."""

from __future__ import annotations

import time
from datetime import datetime

from cdc_standins.journal import Journal


class Clock:
    """Wall-clock time plus what tests added; the addition is durable, so time never goes back after a restart."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._added_s = float(journal.get("clock", "added_s") or 0.0)

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((time.time() + self._added_s) * 1000)

    def advance(self, seconds: float) -> None:
        """Move time forward."""
        self._added_s += seconds
        self._journal.put("clock", "added_s", self._added_s)


def text_of(time_ms: int | None) -> str | None:
    """A time as the servers show it in local time, `2026-01-31 13:00:00`; None stays None."""
    return None if time_ms is None else datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")
