"""Simulates crashes at a step of a batch by an exception that no code handles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from cdc.process import faults


class FailAt(Enum):
    """A crash in the input: `run_in_memory` dies at this step of the batch, then restarts.

    PREPARED: rows are prepared, no decision is written. DECIDED: the decision is written, nothing is committed.
    COMMITTED: everything is committed, but not recorded as such. The values are points of `cdc.process.faults`.
    """

    PREPARED = "after-prepare"
    DECIDED = "after-decide"
    COMMITTED = "after-commit"


class Crash(BaseException):
    """The death of the process."""


class CrashPoint:
    """A hook of `cdc.process.faults` that dies at one point of one batch, and from then on at every point.

    `happened`: whether the batch reached that point.
    """

    def __init__(self, point: str, batch: int) -> None:
        self._point, self._batch, self.happened = point, batch, False

    def __call__(self, point: str, batch: int) -> None:
        """Raise Crash if this is the point, or the crash has happened."""
        if self.happened or (point, batch) == (self._point, self._batch):
            self.happened = True
            raise Crash(point)


@contextmanager
def crash_at(failure: FailAt, batch: int) -> Iterator[CrashPoint]:
    """While the block runs, raise a `Crash` at a step of a batch, in any thread."""
    crash, before = CrashPoint(failure.value, batch), faults.hook
    faults.hook = crash
    try:
        yield crash
    finally:
        faults.hook = before
