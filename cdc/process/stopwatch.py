"""The time of a task: seconds per phase, excluding nested phases.

A task opens one stopwatch; the code that it calls names its phase. Executor; two clock readings per block.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

_at_work = threading.local()


class Phases:
    """A stopwatch that is in one phase at a time. `seconds` is the time of each phase so far."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}
        self._phase, self._since = "", clock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Context manager: count the time of the block to this phase, except that of nested phases."""
        before, outer = self._switch(name), getattr(_at_work, "phases", None)
        _at_work.phases = self
        try:
            yield
        finally:
            _at_work.phases = outer
            self._switch(before)

    def of(self, name: str, items: Iterator[Item]) -> Iterator[Item]:
        """Yield the items; the time to produce each counts to this phase."""
        while True:
            with self.phase(name):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item

    def _switch(self, name: str) -> str:
        now, before = self._clock(), self._phase
        if before:
            self.seconds[before] = self.seconds.get(before, 0.0) + now - self._since
        self._phase, self._since = name, now
        return before


def in_phase(name: str, items: Iterator[Item]) -> Iterator[Item]:
    """Yield items and count the time to produce them to a phase of this thread's task, if there is one."""
    phases: Phases | None = getattr(_at_work, "phases", None)
    return items if phases is None else phases.of(name, items)
