"""Write dates and moments of any year to an address: `-0001-12-31`, `+10000-01-01`, as Java does outside of 0..9999.

The calendar repeats itself every 400 years, so such a date is written as one of the years 2000 to 2399, and its year
is replaced.
"""

from __future__ import annotations

import numpy as np

from connectors.kafka.encoding.kernels import kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, poke8
from connectors.shared.kernels.text.integers import digits_of, digits_text
from connectors.shared.kernels.text.moments import date_text, moment_text

_DAY_US = 86_400_000_000
_FIRST, _END = -719_528, 2_932_897  # the days since 1970 of 0000-01-01 and 10000-01-01
_FIRST_US, _END_US = _FIRST * _DAY_US, _END * _DAY_US
_DAY_2000, _CYCLE = 10_957, 146_097
_CYCLE_US = _CYCLE * _DAY_US
_YEAR_DIGITS = 4


@kernel
def any_date_text(days: Int, to: Int) -> Int:
    """Write `yyyy-mm-dd` of days since 1970-01-01; return the address after it."""
    if _FIRST <= days < _END:
        return date_text(days, to)
    cycles = (days - _DAY_2000) // _CYCLE
    date_text(days - cycles * _CYCLE, to)
    year = _year(cycles, to)
    end = date_text(days - cycles * _CYCLE, to + _shift(year))
    return _with_year(year, to, end)


@kernel
def any_moment_text(us: Int, digits: Int, to: Int) -> Int:
    """Write `yyyy-mm-dd hh:mm:ss[.ffffff]` of microseconds since 1970-01-01; return the address after it."""
    if _FIRST_US <= us < _END_US:
        return moment_text(us, digits, to)
    cycles = (us // _DAY_US - _DAY_2000) // _CYCLE
    moment_text(us - cycles * _CYCLE_US, digits, to)
    year = _year(cycles, to)
    end = moment_text(us - cycles * _CYCLE_US, digits, to + _shift(year))
    return _with_year(year, to, end)


@kernel
def _year(cycles: Int, at: Int) -> Int:
    """The year whose place in its cycle is written there."""
    year = 0
    for i in range(_YEAR_DIGITS):
        year = 10 * year + peek8(at + i) - 48
    return year + 400 * cycles


@kernel
def _shift(year: Int) -> Int:
    """How much longer the year is with its sign than four digits."""
    return 1 + max(digits_of(np.uint64(abs(year))) - _YEAR_DIGITS, 0)


@kernel
def _with_year(year: Int, to: Int, end: Int) -> Int:
    poke8(to, 45 if year < 0 else 43)
    digits_text(np.uint64(abs(year)), _YEAR_DIGITS - 1 + _shift(year), to + 1)
    return end
