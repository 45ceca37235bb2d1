"""Batches that one run has planned, and whether another may take them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc.source import Siblings
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.sharing.plans import MOST_PLANS, Plans, SharedPlan

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(position: int, gtids: str | None = "", file: int = 3) -> MySqlOffset:
    done = f"{UUID}:1-{position}" if gtids == "" else gtids
    return MySqlOffset(LogPosition(f"binlog.{file:06}", position), done, 5, "server", 2)


def plan(first: int, last: int) -> SharedPlan:
    middle = (first + last) // 2
    cuts = tuple((at(position).position, at(position).gtids) for position in (first, middle, last))
    return SharedPlan(at(first), at(last), cuts, "tables", 17)


@pytest.fixture
def plans(tmp_path: Path) -> Plans:
    made = Plans(Siblings(tmp_path, "one", 2))
    made.publish(plan(100, 200))
    made.publish(plan(200, 400))
    return made


def test_a_plan_is_taken_as_it_is_by_a_run_with_entries_of_its_own(plans: Plans) -> None:
    start = replace(at(200), schemas=9, chunks=4)
    found = plans.at(start, "tables")
    assert found is not None
    assert (found.start, found.end) == (start, replace(at(400), schemas=9, chunks=4))
    assert (found.bounds, found.opened_s) == (plan(200, 400).bounds, 17)


def test_a_run_inside_of_a_batch_takes_the_rest_of_it(plans: Plans) -> None:
    found = plans.at(at(350), "tables")
    assert found is not None
    there = at(350)
    assert (found.end, found.bounds) == (at(400), ((there.position, there.gtids), *plan(200, 400).bounds[2:]))


@pytest.mark.parametrize(
    "start",
    [
        at(400), at(50), at(300, file=4), at(200, gtids=None), at(200, gtids=f"{UUID}:1-7"),
        replace(at(200), server="another"), replace(at(200), files_ahead=3),
    ],
)  # fmt: skip
def test_no_plan_goes_on_at_another_place(plans: Plans, start: MySqlOffset) -> None:
    assert plans.at(start, "tables") is None


def test_no_plan_is_taken_under_other_definitions(plans: Plans) -> None:
    assert plans.at(at(200), "other tables") is None


def test_the_oldest_plans_go(plans: Plans, tmp_path: Path) -> None:
    for number in range(MOST_PLANS):
        plans.publish(plan(1000 + number, 1001 + number))
    assert plans.at(at(200), "tables") is None
    assert plans.at(at(1000), "tables") is not None
    assert len(list((tmp_path / "plans").iterdir())) == MOST_PLANS


def test_what_cannot_be_read_is_not_there(plans: Plans, tmp_path: Path) -> None:
    for path in (tmp_path / "plans").iterdir():
        path.write_text('{"start": {}}')
    assert plans.at(at(200), "tables") is None
