"""Decodes dates and times in row images to days and microseconds.

Formats: MySQL `sql-common/my_time.cc` (my_time_packed_from_binary and the like) for types with the suffix 2,
`sql/field.cc` for the types of servers before 5.6. A date that is zero or not in the calendar gives INVALID.

at: address of the value; fraction: bytes of fractional seconds.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek24, peek32, peek32b, peek64, peekb

INVALID = -(1 << 62)
_DAYS_BEFORE = np.array([0, 306, 337, 0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 0, 0, 0], np.int64)
"""Days before each month of a year that begins in March: so the 29th of February is a year's last day."""
_DAYS_IN = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0], np.int64)
_EPOCH = 719_469
"""Days from 1 March of year 0 to 1970-01-01, plus one, because days of a month count from 1."""
_SECOND = 1_000_000


@kernel
def _micros(at: Int, fraction: Int) -> Int:
    """Return fractional seconds in microseconds. One byte holds hundredths, two 1/10,000, three microseconds."""
    if fraction == 0:
        return np.int64(0)
    value = peekb(at, fraction)
    if fraction == 1:
        return value * 10_000
    return value * 100 if fraction == 2 else value


@kernel
def _quotient(value: Int, divisor: Int) -> Int:
    """Return value // divisor of numbers that are not negative; this needs fewer machine instructions."""
    return np.int64(np.uint64(value) // np.uint64(divisor))


@kernel
def _exists(year: Int, month: Int, day: Int) -> bool:
    """Return whether a month has a 29th, 30th or 31st."""
    leap = (year & 3) == 0 and (year % 100 != 0 or year % 400 == 0)
    return bool(day <= _DAYS_IN[month & 15] + (1 if leap and month == 2 else 0))


@kernel.entry
def days(year: Int, month: Int, day: Int) -> Int:
    """Return days since 1970-01-01, INVALID when there is no such day. Year 0 is invalid: sinks cannot show it."""
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1:
        return INVALID
    if day > 28 and not _exists(year, month, day):
        return INVALID
    years = year - (1 if month < 3 else 0)
    centuries = _quotient(years, 100)
    return years * 365 + (years >> 2) - centuries + (centuries >> 2) + _DAYS_BEFORE[month & 15] + day - _EPOCH


@kernel
def _instant(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int, micros: Int) -> Int:
    number = days(year, month, day)
    if number == INVALID or hour > 23 or minute > 59 or second > 59 or micros >= _SECOND:
        return INVALID
    return (number * 86_400 + hour * 3_600 + minute * 60 + second) * _SECOND + micros


@kernel
def date3(at: Int) -> Int:
    """Decode DATE, 3 bytes little-endian, year << 9 | month << 5 | day, to days since the epoch or INVALID."""
    value = peek24(at)
    return days(value >> 9, value >> 5 & 15, value & 31)


@kernel
def datetime2(at: Int, fraction: Int) -> Int:
    """Decode DATETIME(0-6), 5 bytes and 0-3 of fraction, to microseconds since the epoch, as if in UTC, or INVALID."""
    value = (peek32b(at) << 8 | peek8(at + 4)) - 0x8000000000
    if value < 0:
        return INVALID
    months = value >> 22
    year = _quotient(months, 13)
    return _instant(
        year,
        months - 13 * year,
        value >> 17 & 31,
        value >> 12 & 31,
        value >> 6 & 63,
        value & 63,
        _micros(at + 5, fraction),
    )


@kernel
def timestamp2(at: Int, fraction: Int) -> Int:
    """Decode TIMESTAMP(0-6), 4 bytes of seconds, unsigned (MariaDB 11.5 goes to 2106). Zero is MySQL's 0000-00-00."""
    seconds = peek32b(at)
    micros = _micros(at + 4, fraction)
    if (seconds == 0 and micros == 0) or micros >= _SECOND:
        return INVALID
    return seconds * _SECOND + micros


@kernel
def time2(at: Int, fraction: Int) -> Int:
    """Decode TIME(0-6), 3 bytes and 0-3 of fraction, offset binary over both, to signed microseconds or INVALID."""
    shift = 8 * fraction
    packed = (peekb(at, 3) << shift | peekb(at + 3, fraction)) - (np.int64(1) << (shift + 23))
    negative = packed < 0
    if negative:
        packed = -packed
    whole = packed >> shift
    micros = packed & ((np.int64(1) << shift) - 1)
    if fraction == 1:
        micros *= 10_000
    elif fraction == 2:
        micros *= 100
    minute = whole >> 6 & 63
    second = whole & 63
    if minute > 59 or second > 59 or micros >= _SECOND:
        return INVALID
    span = ((whole >> 12 & 1023) * 3_600 + minute * 60 + second) * _SECOND + micros
    return -span if negative else span


@kernel
def time_old(at: Int) -> Int:
    """Decode TIME of servers before 5.6: 3 bytes little-endian, signed decimal HHMMSS."""
    value = peek24(at)
    if value >= 0x800000:
        value -= 0x1000000
    negative = value < 0
    if negative:
        value = -value
    minute = value // 100 % 100
    second = value % 100
    if minute > 59 or second > 59:
        return INVALID
    span = (value // 10_000 * 3_600 + minute * 60 + second) * _SECOND
    return -span if negative else span


@kernel
def datetime_old(at: Int) -> Int:
    """Decode DATETIME of servers before 5.6: 8 bytes little-endian, decimal YYYYMMDDhhmmss."""
    value = peek64(at)
    if value <= 0:
        return INVALID
    date = value // 1_000_000
    time = value % 1_000_000
    return _instant(
        date // 10_000, date // 100 % 100, date % 100, time // 10_000, time // 100 % 100, time % 100, np.int64(0)
    )


@kernel
def timestamp_old(at: Int) -> Int:
    """Decode TIMESTAMP of servers before 5.6: 4 bytes little-endian."""
    value = peek32(at)
    return value * _SECOND if value != 0 else INVALID
