"""Logs what a run is waiting for, so that it is never silent for long. Driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc.job.report import Reporter
from cdc.process.repeated import repeatedly

FIRST_S, LONGEST_S = 10.0, 60.0
"""Seconds of silence until the current step is logged: at first, doubled each time, and at most."""
_LOOK_S = 1.0


class LongSteps:
    """Logs the current step of a run if no line was written for a while. `note` is called repeatedly."""

    def __init__(self, reporter: Reporter, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter, self._clock = reporter, clock
        self._what, self._begun_s, self._gap_s = "", clock(), FIRST_S

    def note(self, step: str) -> None:
        """Set the current step, empty if the run only waits for changes of the source; log it if it takes long."""
        now_s = self._clock()
        if step != self._what:
            self._what, self._begun_s, self._gap_s = step, now_s, FIRST_S
        elif step and now_s - max(self._begun_s, self._reporter.written_s) >= self._gap_s:
            self._reporter.line(f"{step}: {now_s - self._begun_s:.0f} s so far")
            self._gap_s = min(self._gap_s * 2, LONGEST_S)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Context manager: the block is one step, logged from a thread if it takes long."""
        self.note(name)
        with repeatedly(lambda _: self.note(name), _LOOK_S):
            yield
