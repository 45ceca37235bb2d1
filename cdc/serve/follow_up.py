"""Decides whether and when another run follows one that ended on its own. Pure, except for the count of failures."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cdc.errors import CdcError
from cdc.restarts import Restarts
from cdc.serve.control import State
from cdc.serve.times import Times
from cdc.spec.life import LifeOptions, restart_policy


@dataclass(frozen=True, slots=True)
class NextRun:
    """The next run: what starts it, and when by the clock. A pause before a restart is independent of the clock."""

    why: str
    at_s: float
    pause_until_s: float | None = None

    def left_s(self) -> float:
        """Return the seconds until then, at most 0 when it is due."""
        return self.at_s - time.time() if self.pause_until_s is None else self.pause_until_s - time.monotonic()


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A run at once, after a pause, at a scheduled time, or none and the resulting state.

    Attributes:
        why: what starts the next run, `schedule` or `restart`; None for no run.
        begins_s: the time of the next run, seconds since 1970; None for at once.
        pause_s: seconds until the next run, instead of a time.
        state: the pipeline's state without a next run.
        skipped_s: the scheduled time that passed during the run and is skipped.
        message, level: a line for the pipeline's log; empty for none.
    """

    why: str | None = None
    begins_s: float | None = None
    pause_s: float | None = None
    state: State = "finished"
    skipped_s: float | None = None
    message: str = ""
    level: str = "warning"


class RunPolicy:
    """The schedule and the restart strategy of a pipeline, with the failures that the strategy counts."""

    def __init__(self, options: LifeOptions) -> None:
        self.times = Times(options)
        self.restarts = Restarts(restart_policy(options, "exponential-delay"))

    def after_success(self, started_s: float, now_s: float) -> FollowUp:
        """Return the next scheduled run, if there is one. Seconds since 1970."""
        begins_s, skipped_s = self.times.next_s(started_s, now_s)
        return FollowUp(None if begins_s is None else "schedule", begins_s, skipped_s=skipped_s)

    def after_failure(self, error: CdcError, *, batch: int | None, committed: bool, now_s: float) -> FollowUp:
        """Restart after a pause if the strategy allows it; else run at the next scheduled time, unless the error would
        recur.

        Args:
            error: the error that ended the run.
            batch: the running batch, None for none.
            committed: whether the run has committed a batch.
            now_s: seconds since 1970.
        """
        pause_s = self.restarts.plan(error, batch=batch, committed=committed, now_s=time.monotonic())
        if pause_s is not None:
            return FollowUp("restart", pause_s=pause_s, message=f"failed, and is restarted in {pause_s:.1f} s: {error}")
        begins_s = None if self.restarts.hopeless else self.times.next_s(now_s, now_s)[0]
        message = f"failed, and is not restarted ({self.restarts.given_up}): {error}"
        return FollowUp(
            None if begins_s is None else "schedule", begins_s, state="failed", message=message, level="error"
        )
