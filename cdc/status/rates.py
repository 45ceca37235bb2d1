"""Changes per second over the last seconds, of many tables. Driver."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping

WINDOW_S = 10.0


class Rates:
    """Adds up what came in a window of time. Cheap where little comes: a step per batch and table."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[tuple[float, Mapping[str, int]]] = deque()
        self._sums: Counter[str] = Counter()

    def add(self, rows: Mapping[str, int]) -> None:
        """So many rows of these tables came now."""
        if rows:
            self._recent.append((self._clock(), rows))
            self._sums.update(rows)

    def clear(self) -> None:
        """Nothing comes any more."""
        self._recent.clear()
        self._sums.clear()

    def now(self) -> dict[str, float]:
        """Rows per second of the tables that had any in the window."""
        cutoff = self._clock() - WINDOW_S
        while self._recent and self._recent[0][0] < cutoff:
            for table, number in self._recent.popleft()[1].items():
                self._sums[table] -= number
                if not self._sums[table]:
                    del self._sums[table]
        return {table: round(number / WINDOW_S, 1) for table, number in self._sums.items()}
