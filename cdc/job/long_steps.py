"""Lines about what a run waits for, so that it is never silent for long without a reason. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc.job.report import Reporter
from cdc.process.repeated import repeatedly

FIRST_S, LONGEST_S = 10.0, 60.0
"""Seconds of silence until a step is told of; they double from the one to the other."""
_LOOK_S = 1.0


class LongSteps:
    """The present step of a run, told where no line was written for a while. `look` is called again and again."""

    def __init__(self, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter, self._clock = reporter, clock
        self._what, self._begun_s, self._gap_s = "", clock(), FIRST_S

    def look(self, what: str) -> None:
        """Note the present step, empty where nothing is waited for that is to come; tell of it when it takes long."""
        now_s = self._clock()
        if what != self._what:
            self._what, self._begun_s, self._gap_s = what, now_s, FIRST_S
        elif what and now_s - max(self._begun_s, self._reporter.written_s) >= self._gap_s:
            self._reporter.line(f"{what}: {now_s - self._begun_s:.0f} s so far")
            self._gap_s = min(self._gap_s * 2, LONGEST_S)

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A block that is one step; looked at from a thread of its own."""
        self.look(what)
        with repeatedly(lambda _: self.look(what), _LOOK_S):
            yield
