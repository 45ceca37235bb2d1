"""Formats numbers and times for people."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from cdc.status.text import moment


def count(number: float) -> str:
    """Format a number: `950`, `12.3 k`, `4.5 M`, with a non-breaking space."""
    for unit, least, factor in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3)):
        if abs(number) >= least:
            return f"{number / factor:,.1f}\u00a0{unit}"
    return f"{number:,.0f}"


def rate(per_s: float) -> str:
    """Format a rate: `1,200 rows/s`."""
    return f"{count(per_s)} rows/s"


def seconds(length_s: float) -> str:
    """Format a duration: `12 ms`, `1.2 s`, `3 min`, `2.5 h`, `4 d`."""
    if length_s < 0.995:
        return f"{length_s * 1000:.0f} ms"
    if length_s < 100:
        return f"{length_s:.1f} s"
    if length_s < 5400:
        return f"{length_s / 60:.0f} min"
    return f"{length_s / 3600:.1f} h" if length_s < 172_800 else f"{length_s / 86_400:.0f} d"


def about(length_s: float) -> str:
    """Format a duration without fractions of a second: `12 s`, `3 min`."""
    return f"{length_s:.0f} s" if length_s < 99.5 else seconds(length_s)


def lag(lag_s: float | None) -> str:
    """Format a lag; a dash where unknown."""
    return "–" if lag_s is None else seconds(lag_s) if lag_s else "0 s"


def percent(part: float, total: float) -> int:
    """Return a percentage from 0 to 100."""
    return 0 if total <= 0 else int(min(100.0, 100 * part / total))


def ago(at_s: float | None) -> str:
    """Format a time relative to now: `3 s ago`, `in 5 min`; a dash for never."""
    if not at_s:
        return "–"
    passed = time.time() - at_s
    length = about(max(1.0, abs(passed)))
    return f"in {length}" if passed < -1 else f"{length} ago"


def clock(at_s: float, now_s: float | None = None) -> str:
    """Format a time in UTC: `08:15:03`, with the day if it is not today: `Nov 25 08:15:03`."""
    at, now = (datetime.fromtimestamp(s, UTC) for s in (at_s, time.time() if now_s is None else now_s))
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%b %-d %H:%M:%S")


def iso(at_s: float) -> str:
    """Format a time for programs."""
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")


FILTERS = (about, ago, clock, count, iso, lag, moment, rate, seconds)
"""The functions that templates use as filters."""
