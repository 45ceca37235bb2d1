"""Crashes at a step of a batch, as an exception that nobody handles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from cdc.process import faults


class FailAt(Enum):
    """A crash written down in the input: `run_in_memory` dies at this step of its batch, then starts again.

    Rows are prepared and no decision is written; the decision is written and nothing is committed; everything is
    committed and nobody noted it. The values are points of `cdc.process.faults`.
    """

    PREPARED = "after-prepare"
    DECIDED = "after-decide"
    COMMITTED = "after-commit"


class Crash(BaseException):
    """The process died here."""


class CrashPoint:
    """The hook of `cdc.process.faults`: dies at one point of one batch, and from then on at every point.

    `happened`: whether the batch came to that point.
    """

    def __init__(self, point: str, batch: int) -> None:
        self._point, self._batch, self.happened = point, batch, False

    def __call__(self, point: str, batch: int) -> None:
        """The process has come to a point of a batch."""
        if self.happened or (point, batch) == (self._point, self._batch):
            self.happened = True
            raise Crash(point)


@contextmanager
def crash_at(failure: FailAt, batch: int) -> Iterator[CrashPoint]:
    """While the block runs, a `Crash` is raised at a step of a batch, in whatever thread."""
    crash, before = CrashPoint(failure.value, batch), faults.hook
    faults.hook = crash
    try:
        yield crash
    finally:
        faults.hook = before
