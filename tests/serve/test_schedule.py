"""When runs begin: cron's own meaning of its fields, time zones, intervals, and times that have passed."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from together import together

import cdc
from cdc.options import OptionError
from cdc.serve.follow_up import Times
from cdc.spec.life import LifeOptions
from cdc.spec.schedule import Schedule, check_schedule


def times(text: str, begin: str, number: int, zone: str = "UTC") -> list[str]:
    """The next times as `Mon 01-31 12:00`."""
    schedule, place = Schedule(text, zone), ZoneInfo(zone)
    at_s, found = datetime.fromisoformat(begin).replace(tzinfo=place).timestamp(), []
    for _ in range(number):
        at_s = schedule.next_s(at_s) or 0.0
        found.append(datetime.fromtimestamp(at_s, place).strftime("%a %m-%d %H:%M"))
    return found


@together(
    "text, expected",
    [
        ("30 2 * * *", ["Thu 01-01 02:30", "Fri 01-02 02:30"]),
        ("@daily", ["Fri 01-02 00:00", "Sat 01-03 00:00"]),
        ("*/20 * * * *", ["Thu 01-01 00:20", "Thu 01-01 00:40"]),
        ("0 6 * * 0", ["Sun 01-04 06:00", "Sun 01-11 06:00"]),
        ("0 6 * * 7", ["Sun 01-04 06:00", "Sun 01-11 06:00"]),
        ("0 6 * * 1-5", ["Thu 01-01 06:00", "Fri 01-02 06:00", "Mon 01-05 06:00"]),
        ("0 6 * * fri-sun", ["Fri 01-02 06:00", "Sat 01-03 06:00", "Sun 01-04 06:00", "Fri 01-09 06:00"]),
        ("0 6 * * */3", ["Sat 01-03 06:00", "Sun 01-04 06:00", "Wed 01-07 06:00"]),
        ("0 0 13 * 5", ["Fri 01-02 00:00", "Fri 01-09 00:00", "Tue 01-13 00:00", "Fri 01-16 00:00"]),
        ("every 8 h", ["Thu 01-01 08:00", "Thu 01-01 16:00", "Fri 01-02 00:00"]),
    ],
)
def test_the_next_times(text: str, expected: list[str]) -> None:
    assert times(text, "2026-01-01T00:00", len(expected)) == expected


def test_an_hour_that_a_zone_leaves_out_or_has_twice() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00", 2, "Europe/Berlin") == ["Sun 03-29 03:30", "Mon 03-30 02:30"]
    assert times("0 12 * * *", "2026-10-24T13:00", 2, "Europe/Berlin") == ["Sun 10-25 12:00", "Mon 10-26 12:00"]
    assert times("0 0 * * *", "2026-01-01T00:00", 1, "Asia/Tokyo") == ["Fri 01-02 00:00"]


@together(
    "text, zone, begin, hours",
    [
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+00:00", [12.5, 37.5, 61.5]),
        ("0 * * * *", "Europe/Berlin", "2026-10-24T22:30+00:00", [0.5, 1.5, 2.5, 3.5, 4.5]),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10+00:00", [1 / 3, 5 / 6, 4 / 3, 11 / 6]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+00:00", [13.5, 36.5]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T12:00+00:00", [2.75, 26.75, 51.25]),
        ("0 0 * * *", "America/Havana", "2024-11-02T12:00+00:00", [16.0, 41.0]),
    ],
)
def test_clocks_that_are_changed_let_no_time_come_again_and_none_be_lost(
    text: str, zone: str, begin: str, hours: list[float]
) -> None:
    begin_s = at_s = datetime.fromisoformat(begin).timestamp()
    schedule, found = Schedule(text, zone), list[float]()
    for _ in hours:
        at_s = schedule.next_s(at_s) or 0.0
        found.append((at_s - begin_s) / 3600)
    assert found == pytest.approx(hours)


def test_from_every_moment_around_a_change_of_clocks_the_next_time_is_later() -> None:
    schedule, begin_s = Schedule("30 2 * * *", "Europe/Berlin"), datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp()
    later = [schedule.next_s(begin_s + 60 * minute + 0.5) for minute in range(360)]
    assert all(time is not None and time > begin_s + 60 * minute for minute, time in enumerate(later))
    assert len(set(later)) == 2, "once on that day, and on the day after it"


@together("text", ["", "daily", "* * * *", "61 * * * *", "0 0 * * 8", "every", "every x", "every 10 ms"])
def test_what_is_no_schedule(text: str) -> None:
    with pytest.raises(OptionError):
        check_schedule(text)


def test_a_time_that_never_comes_is_refused() -> None:
    with pytest.raises(OptionError, match="never occurs"):
        check_schedule("0 0 30 2 *")


def test_the_file_is_checked() -> None:
    text = "source:\n  type: values\n  rows: []\nsink:\n  type: values\npipeline:\n  schedule: 0 0 * * 8\n"
    found = cdc.validate("p.yaml", text=text)
    assert [str(problem).partition("(")[0].strip() for problem in found.problems] == [
        "p.yaml:7:13: pipeline.schedule: is not a cron expression: 8 is not a day of the week"
    ]


HOUR = 3600.0


def planned(catch_up: str) -> Times:
    return Times(LifeOptions.model_validate({"schedule": "every 1 h", "schedule.catch-up": catch_up}))


def test_the_first_run_of_all_waits_for_its_time_and_a_missed_one_begins_at_once_unless_such_are_skipped() -> None:
    assert planned("once").first_s(10.5 * HOUR, None) == 11 * HOUR
    assert planned("once").first_s(10.5 * HOUR, 10 * HOUR) == 11 * HOUR
    assert planned("once").first_s(10.5 * HOUR, 7 * HOUR) == 10.5 * HOUR
    assert planned("skip").first_s(10.5 * HOUR, 7 * HOUR) == 11 * HOUR
    assert Times(LifeOptions()).first_s(10.5 * HOUR, None) is None


def test_a_clock_that_is_set_back_does_not_delay_the_next_run() -> None:
    assert planned("once").first_s(10.5 * HOUR, 99 * HOUR) == 11 * HOUR
    assert planned("once").next_s(99 * HOUR, 10.1 * HOUR) == (11 * HOUR, None)
    assert planned("once").earlier_s(99 * HOUR, 10 * HOUR, 10.1 * HOUR) == 11 * HOUR
    assert planned("once").earlier_s(12 * HOUR, 11 * HOUR, 11 * HOUR - 2) == 12 * HOUR, (
        "by a correction, none runs twice"
    )


def test_times_that_pass_during_a_run_become_one_run_or_none() -> None:
    assert planned("once").next_s(10 * HOUR, 10.1 * HOUR) == (11 * HOUR, None)
    assert planned("once").next_s(10 * HOUR, 13.5 * HOUR) == (13.5 * HOUR, None)
    assert planned("skip").next_s(10 * HOUR, 13.5 * HOUR) == (14 * HOUR, 11 * HOUR)
