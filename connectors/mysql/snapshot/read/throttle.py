"""Limits the rows per second of a reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

BURST_S: Final = 0.2
"""Burst allowance in seconds, for a reader held up by a slow sink for instance."""


class Throttle:
    """A token bucket that begins empty.

    Over any time it allows no more rows than the rate, plus `BURST_S` of them. One for everything that a task reads;
    not thread-safe.

    Args:
        rows_per_second: None or 0 for no limit.
        clock, sleep: monotonic seconds; for tests.
    """

    def __init__(
        self,
        rows_per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = rows_per_second or 0.0, clock, sleep
        self._tokens, self._at = 0.0, clock()

    def acquire(self, rows: int) -> None:
        """Count `rows` returned rows; blocks until the rate allows the next ones."""
        if not self._rate:
            return
        now = self._clock()
        self._tokens = min(BURST_S * self._rate, self._tokens + (now - self._at) * self._rate) - rows
        self._at = now
        if self._tokens < 0:
            self._sleep(-self._tokens / self._rate)
