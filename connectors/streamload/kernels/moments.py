"""Dates, timestamps and time spans as text at an address. The caller has made room and checked the years 0..9999."""

from __future__ import annotations

import numpy as np

from connectors.streamload.kernels import kernel
from connectors.streamload.kernels.integers import digits_of, digits_text
from connectors.streamload.kernels.kernel_types import Int
from connectors.streamload.kernels.memory import poke8

DATE_BYTES = 10
MOMENT_BYTES = 26
SPAN_BYTES = 24
"""The longest span Arrow can hold in microseconds has ten digits of hours."""

_DAY_US = 86_400_000_000
_MICROS = np.array([10**n for n in range(7)], np.int64)


@kernel
def date_text(days: Int, to: Int) -> Int:
    """`yyyy-mm-dd` of days since 1970-01-01, by the Gregorian calendar also before it was made."""
    # Days from 0000-03-01 in eras of 400 years; years begin in March so that a leap day is the last one.
    z = days + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    digits_text(np.uint64(year), 4, to)
    poke8(to + 4, 45)
    digits_text(np.uint64(month), 2, to + 5)
    poke8(to + 7, 45)
    return digits_text(np.uint64(day), 2, to + 8)


@kernel
def moment_text(us: Int, digits: Int, to: Int) -> Int:
    """`yyyy-mm-dd hh:mm:ss[.ffffff]` of microseconds since 1970-01-01 with that many digits of the fraction."""
    days = us // _DAY_US
    to = date_text(days, to)
    poke8(to, 32)
    return _clock_text(us - days * _DAY_US, digits, to + 1)


@kernel
def span_text(us: Int, digits: Int, to: Int) -> Int:
    """`[-]hh:mm:ss[.ffffff]` of a span in microseconds; hours have two digits or more."""
    if us < 0:
        poke8(to, 45)
        to += 1
        us = -us
    return _clock_text(us, digits, to)


@kernel
def _clock_text(us: Int, digits: Int, to: Int) -> Int:
    seconds = us // 1_000_000
    micros = us - seconds * 1_000_000
    minutes = seconds // 60
    hours = minutes // 60
    to = digits_text(np.uint64(hours), max(np.int64(2), digits_of(np.uint64(hours))), to)
    poke8(to, 58)
    digits_text(np.uint64(minutes - hours * 60), 2, to + 1)
    poke8(to + 3, 58)
    to = digits_text(np.uint64(seconds - minutes * 60), 2, to + 4)
    if digits == 0:
        return to
    poke8(to, 46)
    return digits_text(np.uint64(micros // _MICROS[6 - digits]), digits, to + 1)
