"""Where the time of a task goes: seconds by phase, each phase's own, without what it waits for inside.

A task opens one stopwatch, and whoever works for it says in which phase he is. Executor; two clock readings a block.
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
    """A stopwatch that is in one phase at a time. `seconds` is what each has taken so far."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds: dict[str, float] = {}
        self._phase, self._since = "", clock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """The time of the block belongs to this phase, but for that of phases inside."""
        before, outer = self._switch(name), getattr(_at_work, "phases", None)
        _at_work.phases = self
        try:
            yield
        finally:
            _at_work.phases = outer
            self._switch(before)

    def of(self, name: str, items: Iterator[Item]) -> Iterator[Item]:
        """The items; the time that it takes to make each belongs to this phase."""
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
    """The items, made in a phase of the task that runs in this thread; for connectors, with or without a task."""
    phases: Phases | None = getattr(_at_work, "phases", None)
    return items if phases is None else phases.of(name, items)
