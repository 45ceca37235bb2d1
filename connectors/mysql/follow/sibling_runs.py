"""Coordinates a run with others that read the same log. Stream reader process.

It takes batches that another run has planned, and follows the log itself only when it is ahead of all others.

| this run is | it |
|---|---|
| behind another | takes the batches planned by that run, or the rest of one that it is inside of |
| level with a run that follows the log | waits for that run's next batch, as long as that run waits for the log too |
| ahead, or alone | follows the log, and publishes its plans |

A batch with a schema change or a change of server is planned by each run itself; so is everything after a prepared XA
transaction, whose meaning depends on earlier log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cdc.source import Siblings
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import Cut
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.sharing.plans import Plans, SharedPlan
from connectors.mysql.sharing.runs import Runs, SharingRun

_LOOK_S = 0.05


class Next(Enum):
    """The next step of a run without a plan by another run."""

    FOLLOW = "follow"
    """Read the log itself."""
    NOTHING = "nothing"
    """The run that follows the log has nothing either."""


@dataclass(frozen=True, slots=True)
class ReaderState:
    """The state of this run's log reader: whether it exists, and whether it has read all of the log in vain."""

    follows: bool
    clear: bool = False


class SiblingRuns:
    """The other runs, for the planner of one run. `digest` identifies the tables after a number of history entries."""

    def __init__(
        self,
        siblings: Siblings,
        digest: Callable[[int], str],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plans, self._runs, self._digest = Plans(siblings), Runs(siblings), digest
        self._clock, self._sleep = clock, sleep
        self.clear = False
        """Whether the run that follows has read all of the log and no captured table has changes waiting."""

    def next(self, start: MySqlOffset, until: LogPosition | None, wait_s: float, own: ReaderState) -> SharedPlan | Next:
        """Return the next batch, or how to get one. A run with an `until` position never gets NOTHING."""
        deadline = self._clock() + wait_s
        self.clear = False
        self._runs.report(SharingRun(start.sequence, own.follows, own.clear))
        while True:
            found = self._plans.at(start, self._digest(start.schemas))
            if found is not None and (until is None or found.end.position <= until):
                return found
            leader = None if own.follows else self._leader(start)
            if leader is None or (until is not None and start.position >= until):
                self._runs.report(SharingRun(start.sequence, True, own.clear))
                return Next.FOLLOW
            self.clear = leader.clear
            if until is None and self._clock() >= deadline:
                return Next.NOTHING
            self._sleep(_LOOK_S)

    def _leader(self, start: MySqlOffset) -> SharingRun | None:
        """Return a following run at the same position. One further ahead did not plan the way there for us."""
        return next((run for run in self._runs.live_runs() if run.follows and run.at == start.sequence), None)

    def publish_plan(self, start: MySqlOffset, end: MySqlOffset, cuts: list[Cut], opened_s: int | None) -> None:
        """Publish a batch to the other runs, unless each must plan it itself."""
        if start.schemas == end.schemas and not start.moved_to(end) and start.position != end.position:
            self._plans.publish(SharedPlan(start, end, tuple(cuts), self._digest(start.schemas), opened_s))
