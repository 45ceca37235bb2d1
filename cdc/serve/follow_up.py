"""Decides whether and when another run follows one that ended on its own. Pure, except for the count of failures."""

from __future__ import annotations

import time
from dataclasses import dataclass

from cdc.errors import CdcError
from cdc.restarts import Restarts
from cdc.serve.control import State
from cdc.spec.life import LifeOptions, restart_policy
from cdc.spec.schedule import Schedule


class Times:
    """The schedule of one pipeline, None for one that runs continuously. Times are since the epoch."""

    def __init__(self, options: LifeOptions) -> None:
        zone, text = options.schedule_time_zone, options.schedule
        self.schedule = None if text is None else Schedule(text, zone)
        self._skips = options.schedule_catch_up == "skip"

    def first_s(self, now_s: float, last_begun_s: float | None) -> float | None:
        """Return when a server that starts now begins a run; None: at once, as there is no schedule.

        A time missed since the last run began leads to a run at once, unless such times are skipped.
        """
        if self.schedule is None:
            return None
        if last_begun_s is None or self._skips:
            return self.schedule.next_s(now_s)
        due_s = self.schedule.next_s(_begun_s(last_begun_s, now_s))
        return due_s if due_s is None else max(due_s, now_s)

    def next_s(self, begun_s: float, now_s: float) -> tuple[float | None, float | None]:
        """Return when the next run after one from `begun_s` until now begins, None for none; and the time that passed
        meanwhile and is skipped, None for none."""
        if self.schedule is None:
            return None, None
        due_s = self.schedule.next_s(_begun_s(begun_s, now_s))
        if due_s is None or due_s > now_s:
            return due_s, None
        if self._skips:
            return self.schedule.next_s(now_s), due_s
        return now_s, None

    def earlier_s(self, planned_s: float, last_begun_s: float | None, now_s: float) -> float:
        """Return when a run that was planned for a time begins now that the clock may have been set back since."""
        after_s = max(now_s, _begun_s(now_s if last_begun_s is None else last_begun_s, now_s))
        due_s = None if self.schedule is None else self.schedule.next_s(after_s)
        return planned_s if due_s is None else min(planned_s, due_s)


_CORRECTION_S = 60.0
"""The most by which a clock is corrected now and then: no scheduled time comes twice for that."""


def _begun_s(begun_s: float, now_s: float) -> float:
    """Return when a run began, or now if the clock was set back since."""
    return now_s if begun_s > now_s + _CORRECTION_S else begun_s


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
