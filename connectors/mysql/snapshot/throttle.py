"""Keeps a reader at so many rows a second, with at most one second's worth at once."""

from __future__ import annotations

import time
from collections.abc import Callable


class Throttle:
    """A token bucket. Not thread safe.

    Args:
        rows_per_second: None or 0 does not limit.
        clock, sleep: monotonic seconds; for tests.
    """

    def __init__(
        self,
        rows_per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate, self._clock, self._sleep = rows_per_second or 0.0, clock, sleep
        self._tokens, self._at = self._rate, clock()

    def take(self, rows: int) -> None:
        """Count `rows` rows that were handed on; returns when the rate allows the next ones."""
        if not self._rate:
            return
        now = self._clock()
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate) - rows
        self._at = now
        if self._tokens < 0:
            self._sleep(-self._tokens / self._rate)
