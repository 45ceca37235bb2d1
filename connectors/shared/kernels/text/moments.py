"""Dates, timestamps and time spans as text at an address.

The caller has made room and checked that years are 0..9999.
"""

from __future__ import annotations

import numpy as np

from connectors.shared.kernels.kernel_types import Int, Word
from connectors.shared.kernels.memory import poke8
from connectors.shared.kernels.text import kernel
from connectors.shared.kernels.text.integers import digits_of, digits_text

DATE_BYTES = 10
MOMENT_BYTES = 26
SPAN_BYTES = 24
"""The longest span that Arrow can hold in microseconds: hours have ten digits."""

_DAY_US = np.uint64(86_400_000_000)
_SECOND_US = np.uint64(1_000_000)
_MICROS = np.array([10**n for n in range(7)], np.uint64)
_U1, _U2, _U4, _U5, _U9, _U10 = (np.uint64(n) for n in (1, 2, 4, 5, 9, 10))
_U60, _U100, _U153, _U365, _U400 = (np.uint64(n) for n in (60, 100, 153, 365, 400))
_ERA, _CENTURY, _LEAP_CYCLE = np.uint64(146_097), np.uint64(36_524), np.uint64(1460)
_SHIFT_DAYS = 719_468 + 146_097
"""Days from 1 March of the year -400 to 1970. Counting from there keeps numbers unsigned, and those divide faster."""
_SHIFT_US = _SHIFT_DAYS * 86_400_000_000


@kernel
def date_text(days: Int, to: Int) -> Int:
    """Write `yyyy-mm-dd` of days since 1970-01-01, in the Gregorian calendar also for dates before its introduction."""
    return _day_text(np.uint64(days + _SHIFT_DAYS), to)


@kernel
def _day_text(z: Word, to: Int) -> Int:
    """Write `yyyy-mm-dd` of days since 1 March of the year -400.

    Counts in eras of 400 years, with years that begin in March, so that a leap day is the last day of its year.
    """
    era = z // _ERA
    doe = z - era * _ERA
    yoe = (doe - doe // _LEAP_CYCLE + doe // _CENTURY - doe // (_ERA - _U1)) // _U365
    doy = doe - (_U365 * yoe + yoe // _U4 - yoe // _U100)
    mp = (_U5 * doy + _U2) // _U153
    day = doy - (_U153 * mp + _U2) // _U5 + _U1
    month = mp + _U2 + _U1 if mp < _U10 else mp - _U9
    year = yoe + era * _U400 - _U400 + (_U1 if month <= _U2 else np.uint64(0))
    digits_text(year, 4, to)
    poke8(to + 4, 45)
    digits_text(month, 2, to + 5)
    poke8(to + 7, 45)
    return digits_text(day, 2, to + 8)


@kernel
def moment_text(us: Int, digits: Int, to: Int) -> Int:
    """Write `yyyy-mm-dd hh:mm:ss[.ffffff]` of microseconds since 1970-01-01, with `digits` fractional digits."""
    shifted = np.uint64(us + _SHIFT_US)
    days = shifted // _DAY_US
    to = _day_text(days, to)
    poke8(to, 32)
    return _clock_text(shifted - days * _DAY_US, digits, to + 1)


@kernel
def span_text(us: Int, digits: Int, to: Int) -> Int:
    """Write `[-]hh:mm:ss[.ffffff]` of a span in microseconds; hours have two digits or more."""
    if us < 0:
        poke8(to, 45)
        to += 1
        us = -us
    return _clock_text(np.uint64(us), digits, to)


@kernel
def _clock_text(us: Word, digits: Int, to: Int) -> Int:
    seconds = us // _SECOND_US
    micros = us - seconds * _SECOND_US
    minutes = seconds // _U60
    hours = minutes // _U60
    to = digits_text(hours, 2 if hours < _U100 else digits_of(hours), to)
    poke8(to, 58)
    digits_text(minutes - hours * _U60, 2, to + 1)
    poke8(to + 3, 58)
    to = digits_text(seconds - minutes * _U60, 2, to + 4)
    if digits == 0:
        return to
    poke8(to, 46)
    return digits_text(micros // _MICROS[6 - digits], digits, to + 1)
