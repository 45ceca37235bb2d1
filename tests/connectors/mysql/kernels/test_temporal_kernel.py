"""Calendar of the row kernels against Python's."""

from __future__ import annotations

import datetime

import pytest
from together import together

from connectors.mysql.kernels.temporal import INVALID, days

_EPOCH = datetime.date(1970, 1, 1).toordinal()


@pytest.mark.slow
def test_every_day_of_the_calendar() -> None:
    first, last = datetime.date.min.toordinal(), datetime.date.max.toordinal()
    for number in range(first, last + 1):
        day = datetime.date.fromordinal(number)
        assert days(day.year, day.month, day.day) == number - _EPOCH


@together("year", [1, 1600, 1900, 1999, 2000, 2023, 2024, 2100, 9999])
def test_days_that_do_not_exist(year: int) -> None:
    for month in range(14):
        for day in range(33):
            try:
                datetime.date(year, month, day)
            except ValueError:
                assert days(year, month, day) == INVALID, (year, month, day)


@together("year", [0, 10_000, 16_383])
def test_years_that_sinks_cannot_show(year: int) -> None:
    assert days(year, 1, 1) == INVALID
