"""The run after one that nobody asked to end: why and when it begins, or that there is none. Pure but for the policy's
count of failures."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cdc.errors import CdcError
from cdc.restarts import Restarts
from cdc.serve.control import State
from cdc.serve.times import Times


@dataclass(frozen=True, slots=True)
class NextRun:
    """The next run: what begins it, and when by the clock. A pause before a restart is as long whatever that does."""

    why: str
    at_s: float
    pause_until_s: float | None = None

    def left_s(self) -> float:
        """Until then, at most 0 when it is time."""
        return self.at_s - time.time() if self.pause_until_s is None else self.pause_until_s - time.monotonic()


@dataclass(frozen=True, slots=True)
class FollowUp:
    """One of: a run at once, after a pause, at a time of the schedule, or none and the state that is left.

    Attributes:
        why: begins the next run, `schedule` or `restart`; None when there is none.
        begins_s: the time of the next run, seconds since 1970; None for at once.
        pause_s: seconds until the next run, instead of a time.
        state: the pipeline's, where there is no next run.
        skipped_s: the time of the schedule that passed during the run, and is left out.
        message, level: a line of the pipeline's log; empty for none.
    """

    why: str | None = None
    begins_s: float | None = None
    pause_s: float | None = None
    state: State = "finished"
    skipped_s: float | None = None
    message: str = ""
    level: str = "warning"


def after_success(times: Times, started_s: float, now_s: float) -> FollowUp:
    """The next time of the schedule, if there is one. Seconds since 1970."""
    begins_s, skipped_s = times.next_s(started_s, now_s)
    return FollowUp(None if begins_s is None else "schedule", begins_s, skipped_s=skipped_s)


def after_failure(
    error: CdcError, restarts: Restarts, times: Times, *, batch: int | None, committed: bool, now_s: float
) -> FollowUp:
    """Again after a pause, as the policy says; else at the next time of the schedule, unless it would meet the same.

    Args:
        error: ended the run.
        restarts: the policy; the failure is counted.
        times: the schedule.
        batch: was under way, None for none.
        committed: whether the run has committed a batch.
        now_s: seconds since 1970.
    """
    pause_s = restarts.plan(error, batch=batch, committed=committed, now_s=time.monotonic())
    if pause_s is not None:
        return FollowUp("restart", pause_s=pause_s, message=f"failed, and is started again in {pause_s:.1f} s: {error}")
    begins_s = None if restarts.hopeless else times.next_s(now_s, now_s)[0]
    message = f"failed, and is not started again ({restarts.given_up}): {error}"
    return FollowUp(None if begins_s is None else "schedule", begins_s, state="failed", message=message, level="error")
