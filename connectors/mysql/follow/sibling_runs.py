"""A run beside others that read the same log: it takes the batches that another has planned, and follows the log itself
only where it is ahead of all of them. Stream reader process.

| this run is | it |
|---|---|
| behind another | takes the batches that one has planned, as they are, and the rest of one that it is inside of |
| where another is that follows | waits for that one's next batch, as long as that one waits for the log too |
| ahead, or alone | follows the log, and tells the others what it plans |

A batch that brings a schema change, or goes to another server, is planned by each run for itself; so is all after the
log had a prepared XA transaction, whose meaning lies in what came before.
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
    """The next step of a run for which no other has planned."""

    FOLLOW = "follow"
    """Read the log itself."""
    NOTHING = "nothing"
    """The run that follows has nothing either."""


@dataclass(frozen=True, slots=True)
class Own:
    """The reader of this run: whether it has one, and whether that has read all of the log without finding anything."""

    follows: bool
    clear: bool = False


class SiblingRuns:
    """The other runs, for the planner of one. `digest` stands for the tables after so many entries of the history."""

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
        """Whether the run that follows has read all of the log, and nothing of a captured table waits."""

    def next(self, start: MySqlOffset, until: LogPosition | None, wait_s: float, own: Own) -> SharedPlan | Next:
        """The next batch, or how to come by one. A run that goes `until` a place never gets NOTHING."""
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
        """A run that follows and is at the same place. One that is further has not planned the way there for us."""
        return next((run for run in self._runs.live_runs() if run.follows and run.at == start.sequence), None)

    def publish_plan(self, start: MySqlOffset, end: MySqlOffset, cuts: list[Cut], opened_s: int | None) -> None:
        """Tell the others of a batch, unless each has to plan it for itself."""
        if start.schemas == end.schemas and not start.moved_to(end) and start.position != end.position:
            self._plans.publish(SharedPlan(start, end, tuple(cuts), self._digest(start.schemas), opened_s))
