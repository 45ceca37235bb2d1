"""Start times of a pipeline's runs, including missed ones (`schedule.catch-up`). Pure."""

from __future__ import annotations

from cdc.spec.life import LifeOptions
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
        due_s = self.schedule.next_s(last_begun_s)
        return due_s if due_s is None else max(due_s, now_s)

    def next_s(self, begun_s: float, now_s: float) -> tuple[float | None, float | None]:
        """Return when the next run after one from `begun_s` until now begins, None for none; and the time that passed
        meanwhile and is skipped, None for none."""
        if self.schedule is None:
            return None, None
        due_s = self.schedule.next_s(begun_s)
        if due_s is None or due_s > now_s:
            return due_s, None
        if self._skips:
            return self.schedule.next_s(now_s), due_s
        return now_s, None
