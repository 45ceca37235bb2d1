"""Limits how many pipelines start at a time, so that starting many takes no more memory than running them.

Setting up a run takes Spark processes that an active run does not need, and they live for a minute. A turn ends when
the run reads or ends, or after a time limit, so that an unavailable server does not delay others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

LONGEST_S = 10.0
_LOOK_S = 0.5
"""How often it is checked whether a waiting pipeline still wants its turn."""


class RunTurns:
    """Allows at most `most` turns at a time, each at most `longest_s` long. Any thread."""

    def __init__(self, most: int, longest_s: float = LONGEST_S) -> None:
        self._most, self._longest_s = most, longest_s
        self._changed = threading.Condition()
        self._waiting: list[object] = []
        self._first: set[object] = set()
        self._expected: set[object] = set()
        self._ends_s: dict[object, float] = {}

    def wait_turn(self, wanted: Callable[[], bool], *, first: bool = False) -> Callable[[], None]:
        """Wait for a turn, in order of arrival; return the function that ends it, which is idempotent.

        `first` are pipelines that were active until the server ended: they only wait for each other, while the others
        also wait until all of these have arrived.

        Returns without a turn as soon as `wanted` is False.
        """
        ticket = object()
        with self._changed:
            self._waiting.insert(len(self._first) if first else len(self._waiting), ticket)
            if first:
                self._first.add(ticket)
            try:
                while wanted():
                    wait_s = self._wait_s(ticket)
                    if not wait_s:
                        self._ends_s[ticket] = time.monotonic() + self._longest_s
                        break
                    self._changed.wait(wait_s)
            finally:
                self._waiting.remove(ticket)
                self._first.discard(ticket)
                self._changed.notify_all()
        return partial(self._end, ticket)

    def expect(self) -> Callable[[], None]:
        """Announce a `first` pipeline; return the function to call once it had its turn or will not need one."""
        key = object()
        with self._changed:
            self._expected.add(key)
        return partial(self._arrived, key)

    def _arrived(self, key: object) -> None:
        with self._changed:
            self._expected.discard(key)
            self._changed.notify_all()

    def _wait_s(self, ticket: object) -> float:
        """Return the seconds to wait; 0 when it is this one's turn."""
        now = time.monotonic()
        self._ends_s = {other: ends_s for other, ends_s in self._ends_s.items() if ends_s > now}
        if self._expected and ticket not in self._first:
            return _LOOK_S
        free = self._most - len(self._ends_s)
        if self._waiting.index(ticket) < free:
            return 0.0
        return min([_LOOK_S, *(ends_s - now for ends_s in self._ends_s.values())])

    def _end(self, ticket: object) -> None:
        with self._changed:
            self._ends_s.pop(ticket, None)
            self._changed.notify_all()
