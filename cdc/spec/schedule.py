"""Schedules of pipelines: cron expressions and intervals. Pure.

Triggers are APScheduler's. Its parser of cron expressions is not used: it counts days of the week from Monday, and
requires both the day of the month and the day of the week to match, where cron requires one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cdc.options import OptionError
from cdc.units import parse_duration, tzinfo_of

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = re.compile(r"every\s+(.+)", re.IGNORECASE)
_SHORTEST_S = 1.0
_NEAR = timedelta(hours=3)
"""Upper limit of clock changes."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule:
    """The start times of runs.

    Args:
        text: `every 15 min`, counted from midnight UTC of 1970-01-01, so that restarts do not shift it; or five fields
            of cron: minute, hour, day of the month, month, day of the week (0 and 7 are Sunday); or `@daily` and so on.
        zone: the time zone of the fields, such as `Europe/Berlin`. In an hour that is repeated, in autumn, times of a
            fixed hour occur once, and those of every hour (`*`, `*/2`) twice; a time in a skipped hour, in spring,
            occurs an hour later.

    Raises OptionError for a text that is neither.
    """

    def __init__(self, text: str, zone: str = "UTC") -> None:
        self.text = text
        every, self._twice = _EVERY.fullmatch(text.strip()), False
        self._zone = UTC if every else tzinfo_of(zone)
        if every:
            self._triggers = [_interval(every[1])]
            return
        fields = _fields(text)
        self._triggers = list(_cron(fields))
        self._twice = fields[1].startswith("*")

    def next_s(self, after_s: float) -> float | None:
        """Return the first time after this one, both since the epoch; None when there is none, as for 30 February."""
        found = [time for trigger in self._triggers if (time := self._next_fire_time(trigger, after_s)) is not None]
        return min(found) if found else None

    def _next_fire_time(self, trigger: Any, after_s: float) -> float | None:
        """Return a trigger's next time. Triggers ignore time zones: near a clock change, all times are tried."""
        before, after = (self._clock(after_s + shift * _NEAR.total_seconds()) for shift in (-1, 1))
        here = self._clock(after_s)
        clock_changes = after - before != 2 * _NEAR
        shown, found = (before if clock_changes else here), list[float]()
        while (next_shown := trigger.get_next_fire_time(None, shown + timedelta(microseconds=1))) is not None:
            shown = next_shown
            found += [time for time in self._times(shown) if time > after_s]
            if found and (not clock_changes or shown > after):
                return min(found)
        return min(found, default=None)

    def _clock(self, time_s: float) -> datetime:
        """Return the zone's wall-clock time, as if it were UTC."""
        return datetime.fromtimestamp(time_s, self._zone).replace(tzinfo=UTC, fold=0)

    def _times(self, shown: datetime) -> list[float]:
        """Return the times at which the zone's clocks show that: two in a repeated hour, if both count."""
        folds = (0, 1) if self._twice else (0,)
        return [shown.replace(tzinfo=self._zone, fold=fold).timestamp() for fold in folds]


def check_schedule(text: str) -> str:
    """Return the text if it is a schedule. Raises OptionError for another text or a schedule without any time."""
    if Schedule(text).next_s(datetime.now(UTC).timestamp()) is None:
        raise OptionError("never occurs")
    return text


def _interval(text: str) -> Any:
    from apscheduler.triggers.interval import IntervalTrigger

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise OptionError(f"is not an interval: {error}") from error
    if seconds < _SHORTEST_S:
        raise OptionError("must be one second or more")
    return IntervalTrigger(seconds=round(seconds), start_date=_EPOCH, timezone=UTC)


def _fields(text: str) -> list[str]:
    fields = _NAMES.get(text.strip().lower(), text).split()
    if len(fields) != 5:
        raise OptionError("must be five fields of cron, such as `0 2 * * *`, or an interval, such as `every 15 min`")
    return fields


def _cron(fields: Sequence[str]) -> Iterator[Any]:
    from apscheduler.triggers.cron import CronTrigger

    minute, hour, day, month, weekday = fields
    days = [(day, weekday)] if "*" in (day[0], weekday[0]) else [(day, "*"), ("*", weekday)]  # one match is enough
    for of_month, of_week in days:
        try:
            yield CronTrigger(
                minute=minute, hour=hour, day=of_month, month=month, day_of_week=_weekdays(of_week), timezone=UTC
            )
        except ValueError as error:
            raise OptionError(f"is not a cron expression: {error}") from error


def _weekdays(field: str) -> str:
    """Expand days of the week to a list of names: cron's numbers begin with Sunday."""
    return ",".join(day for part in field.split(",") for day in _days(part))


def _days(part: str) -> Iterator[str]:
    match = re.fullmatch(r"(\*|[a-z]{3}|\d)(?:-([a-z]{3}|\d))?(?:/(\d+))?", part.lower())
    if match is None:
        raise ValueError(f"{part} is not a day of the week")
    first, last, step = match.groups()
    if first == "*":
        yield from (["*"] if step is None else _DAYS[:: int(step) or 1])
        return
    begin = _day(first)
    end = begin if last is None else _day(last)
    end = 6 if step is not None and last is None else end
    for number in range(begin, end + (1 if end >= begin else 8), int(step or 1) or 1):
        yield _DAYS[number % 7]


def _day(text: str) -> int:
    number = int(text) if text.isdigit() else _DAYS.index(text) if text in _DAYS else -1
    if not 0 <= number <= 7:
        raise ValueError(f"{text} is not a day of the week")
    return number
