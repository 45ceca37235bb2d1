"""Parse dates, times and spans of time from text."""

from __future__ import annotations

from connectors.kafka.kernels import kernel
from connectors.shared.kernels.kernel_types import Int, Ints

FINE, IMPOSSIBLE, UNREADABLE, ZONED = 0, 1, 2, 3
"""The verdicts on a text: a date or time, an impossible date (month 0, 30 February), anything else, or a time with a
zone."""


MOST, OUT_OF_RANGE = 2**63 - 1, -(2**63)
"""The last number of all, which is the time infinity; its negative is -infinity, as in DuckDB."""
OF_DEBEZIUM = (9223372036825200000, -9223372036832400000)
"""Debezium's numbers for PostgreSQL's infinity and -infinity."""


@kernel
def _number(texts: Ints, at: Int, stop: Int, digits: Int) -> Int:
    """The number at `at` with exactly that many digits; -1 when there is none."""
    if at + digits > stop:
        return -1
    value = 0
    for place in range(at, at + digits):
        digit = texts[place] - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@kernel
def _days(year: Int, month: Int, day: Int) -> Int:
    """The days from 1970-01-01 to a date of the Gregorian calendar."""
    if month <= 2:
        year -= 1
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@kernel
def _month_days(year: Int, month: Int) -> Int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@kernel
def _clock(texts: Ints, at: Int, stop: Int) -> Int:
    """Twice the microseconds of `HH:MM[:SS[.ffffff...]]`, times 64, plus its length; -1 for anything else."""
    hours, minutes, seconds, micros = _number(texts, at, stop, 2), -1, 0, 0
    end = at + 5
    if hours >= 0 and at + 2 < stop and texts[at + 2] == 58:
        minutes = _number(texts, at + 3, stop, 2)
    if hours > 24 or minutes < 0 or minutes > 59:
        return -1
    if end < stop and texts[end] == 58:
        seconds = _number(texts, end + 1, stop, 2)
        if seconds < 0 or seconds > 59:
            return -1
        end += 3
        if end < stop and texts[end] == 46:
            end += 1
            scale = 100000
            while end < stop and 48 <= texts[end] <= 57:
                micros += (texts[end] - 48) * scale
                scale //= 10
                end += 1
    return (((hours * 60 + minutes) * 60 + seconds) * 1000000 + micros) * 64 + end - at


@kernel
def _offset(texts: Ints, at: Int, stop: Int) -> Int:
    """The microseconds of a zone's offset `HH`, `HHMM` or `HH:MM`; -1 for anything else."""
    hours, minutes = _number(texts, at, stop, 2), 0
    if stop - at == 4:
        minutes = _number(texts, at + 2, stop, 2)
    elif stop - at == 5 and texts[at + 2] == 58:
        minutes = _number(texts, at + 3, stop, 2)
    elif stop - at != 2:
        return -1
    if hours < 0 or hours > 24 or minutes < 0 or minutes > 59:
        return -1
    return (hours * 60 + minutes) * 60000000


@kernel
def _infinity(texts: Ints, at: Int, stop: Int) -> Int:
    """1 for `infinity`, -1 for `-infinity`, as PostgreSQL writes them; 0 for anything else."""
    sign = 1
    if at < stop and texts[at] == 45:
        at, sign = at + 1, -1
    if stop - at != 8:
        return 0
    for place, letter in enumerate((105, 110, 102, 105, 110, 105, 116, 121)):
        if texts[at + place] != letter:
            return 0
    return sign


@kernel
def _micros(days: Int, micros: Int) -> Int:
    """The microseconds of days and microseconds together; the lowest number of all where 64 bits do not hold them."""
    seconds, rest = days * 86400 + micros // 1000000, micros % 1000000
    if seconds > 9223372036854 or (seconds == 9223372036854 and rest > 775807):
        return OUT_OF_RANGE
    if seconds < -9223372036855 or (seconds == -9223372036855 and rest < 224193):
        return OUT_OF_RANGE
    return seconds * 1000000 + rest


@kernel.entry
def moments(texts: Ints, offsets: Ints, nulls: Ints, values: Ints, verdicts: Ints) -> None:
    """Parse `YYYY-MM-DD[ |T]HH:MM:SS[.f][Z|+HH[[:]MM]]`, or a date alone, to UTC microseconds since 1970.

    Years beyond four digits, and those before the year 0, have a sign, as ISO 8601 says. A date alone may have a Z too
    (xs:date). nulls[i] is 1 for a value that is NULL. The value of a text that is IMPOSSIBLE or UNREADABLE is 0.
    """
    for item in range(len(offsets) - 1):
        values[item], verdicts[item] = 0, FINE
        if nulls[item]:
            continue
        at, stop = offsets[item], offsets[item + 1]
        infinity = _infinity(texts, at, stop)
        if infinity != 0:
            values[item], verdicts[item] = infinity * MOST, ZONED
            continue
        first, digits = at, 4
        if at < stop and (texts[at] == 43 or texts[at] == 45):
            first = at + 1
            while digits < 6 and first + digits < stop and texts[first + digits] != 45:
                digits += 1
        year = _number(texts, first, stop, digits)
        month, day = _number(texts, first + digits + 1, stop, 2), _number(texts, first + digits + 4, stop, 2)
        if year < 0 or month < 0 or day < 0 or texts[first + digits] != 45 or texts[first + digits + 3] != 45:
            verdicts[item] = UNREADABLE
            continue
        if texts[at] == 45:
            year = -year
        at = first + digits + 6
        micros, zoned = 0, False
        if at + 1 == stop and texts[at] == 90:
            at, zoned = stop, True
        if at < stop:
            if texts[at] != 32 and texts[at] != 84:
                verdicts[item] = UNREADABLE
                continue
            clock = _clock(texts, at + 1, stop)
            if clock < 0:
                verdicts[item] = UNREADABLE
                continue
            micros = clock >> 6
            at += 1 + (clock & 63)
            zoned = at < stop
            if zoned and texts[at] == 90:
                at += 1
            elif zoned and (texts[at] == 43 or texts[at] == 45):
                shift = _offset(texts, at + 1, stop)
                if shift < 0:
                    verdicts[item] = UNREADABLE
                    continue
                micros += -shift if texts[at] == 43 else shift
                at = stop
            if at != stop:
                verdicts[item] = UNREADABLE
                continue
        if year == 0 or month == 0 or day == 0 or month > 12 or day > _month_days(year, month):
            verdicts[item] = IMPOSSIBLE
            continue
        value = _micros(_days(year, month, day), micros)
        if value == OUT_OF_RANGE:
            verdicts[item] = UNREADABLE
            continue
        verdicts[item] = ZONED if zoned else FINE
        values[item] = value


@kernel.entry
def spans(texts: Ints, offsets: Ints, nulls: Ints, values: Ints, verdicts: Ints) -> None:
    """Parse `[-]H:MM:SS[.f][Z]`, with any number of hours, to microseconds; otherwise as in `moments`."""
    for item in range(len(offsets) - 1):
        values[item], verdicts[item] = 0, FINE
        if nulls[item]:
            continue
        at, stop = offsets[item], offsets[item + 1]
        negative = at < stop and texts[at] == 45
        if negative:
            at += 1
        hours, digits = 0, 0
        while at < stop and 48 <= texts[at] <= 57 and digits < 6:
            hours = hours * 10 + texts[at] - 48
            at += 1
            digits += 1
        minutes = _number(texts, at + 1, stop, 2)
        if digits == 0 or at + 3 > stop or texts[at] != 58 or minutes < 0:
            verdicts[item] = UNREADABLE
            continue
        seconds, micros, end = 0, 0, at + 3
        if end < stop and texts[end] == 58:
            seconds = _number(texts, end + 1, stop, 2)
            end += 3
            if end < stop and texts[end] == 46:
                end += 1
                scale = 100000
                while end < stop and 48 <= texts[end] <= 57:
                    micros += (texts[end] - 48) * scale
                    scale //= 10
                    end += 1
        if end + 1 == stop and texts[end] == 90:
            end = stop
        if end != stop or seconds < 0 or minutes > 59 or seconds > 59:
            verdicts[item] = UNREADABLE
            continue
        span = ((hours * 60 + minutes) * 60 + seconds) * 1000000 + micros
        values[item] = -span if negative else span
