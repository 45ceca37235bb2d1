"""Dates and times in the server's spelling, as microseconds. Pure."""

from __future__ import annotations

import calendar
import re
from datetime import date

_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?: (.*))?")
_EPOCH = date(1970, 1, 1).toordinal()
DAY_US = 86_400_000_000
BEFORE_ALL = -(1 << 63)
"""Stands for the dates before the year 1."""


def microseconds(kind: str, text: str) -> int:
    """A `time` as its length, a `date`, `datetime` or `timestamp` as the time since 1970.

    A date that no calendar has becomes the last moment before its place: 2024-02-30 the end of 2024-02-29.
    Raises ValueError.
    """
    if kind == "time":
        return _span(text)
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no date")
    year, month, day = (int(match[part]) for part in (1, 2, 3))
    clock = _span(match[4]) if match[4] else 0
    if year == 0:
        return BEFORE_ALL
    if month == 0:
        return (date(year, 1, 1).toordinal() - _EPOCH) * DAY_US - 1
    last = calendar.monthrange(year, month)[1]
    start = (date(year, month, 1).toordinal() - _EPOCH - 1) * DAY_US
    if 1 <= day <= last:
        return start + day * DAY_US + clock
    return start + (min(day, last) + 1) * DAY_US - 1


def _span(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time")
    sign, hours, minutes, seconds, fraction = match.groups()
    total = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -total if sign else total
