"""When a run takes another's batches, waits for them, or follows the log itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.source import Siblings
from connectors.mysql.follow.sibling_runs import Next, ReaderState, SiblingRuns
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.sharing.plans import SharedPlan
from connectors.mysql.sharing.runs import FRESH_S, Runs, SharingRun

IDLE, FOLLOWING = ReaderState(follows=False), ReaderState(follows=True)


def at(position: int) -> MySqlOffset:
    return MySqlOffset(LogPosition("binlog.000003", position), None, 5, "server")


class Pair:
    """Two runs. `now_s` goes on while the second one waits, and `while_waiting` happens then."""

    def __init__(self, folder: Path) -> None:
        self.now_s, self.while_waiting = 0.0, list[Callable[[], None]]()
        self.leader = self._beside(folder, "leader", "tables")
        self.other = self._beside(folder, "other", "tables")
        self.stranger = self._beside(folder, "stranger", "other tables")

    def _beside(self, folder: Path, name: str, tables: str) -> SiblingRuns:
        made = SiblingRuns(Siblings(folder, name, 3), lambda count: tables, lambda: self.now_s, self._sleep)
        made._runs = Runs(Siblings(folder, name, 3), lambda: 1e9 + self.now_s)
        return made

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for happens in self.while_waiting:
            happens()
        self.while_waiting.clear()

    def leader_plans(self, first: int, last: int) -> None:
        end = at(last)
        self.leader.publish_plan(at(first), end, [(at(first).position, None), (end.position, None)], None)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path)
    assert made.leader.next(at(100), None, 0.5, IDLE) is Next.FOLLOW  # nobody else is there
    return made


def test_a_run_behind_takes_what_was_planned(pair: Pair) -> None:
    pair.leader_plans(100, 200)
    for own in (IDLE, FOLLOWING):
        found = pair.other.next(at(100), None, 0.5, own)
        assert isinstance(found, SharedPlan)
        assert found.end == at(200)


def test_a_run_at_the_same_place_waits_for_the_one_that_follows(pair: Pair) -> None:
    pair.while_waiting.append(lambda: pair.leader_plans(100, 200))
    assert isinstance(pair.other.next(at(100), None, 0.5, IDLE), SharedPlan)
    assert pair.leader.next(at(200), None, 0.5, FOLLOWING) is Next.FOLLOW


def test_one_that_reported_before_the_clock_was_set_back_is_not_waited_for(pair: Pair) -> None:
    pair.now_s -= 7200
    assert pair.other.next(at(100), None, 0.5, IDLE) is Next.FOLLOW


def test_it_has_nothing_where_that_one_has_nothing(pair: Pair) -> None:
    pair.leader.next(at(100), None, 0.5, ReaderState(follows=True, clear=True))
    assert pair.other.next(at(100), None, 0.5, IDLE) is Next.NOTHING
    assert pair.other.clear


def test_it_follows_itself_when_that_one_is_busy_or_gone(pair: Pair) -> None:
    pair.now_s += 2 * FRESH_S
    assert pair.other.next(at(100), None, 0.5, IDLE) is Next.FOLLOW


def test_a_bounded_run_does_not_end_for_want_of_a_plan(pair: Pair) -> None:
    assert pair.other.next(at(100), at(900).position, 0.5, IDLE) is Next.FOLLOW
    assert pair.now_s >= FRESH_S
    assert pair.other.next(at(900), at(900).position, 0.5, IDLE) is Next.FOLLOW  # the end, at once


def test_a_bounded_run_goes_no_further_than_its_end(pair: Pair) -> None:
    pair.leader_plans(100, 200)
    assert pair.other.next(at(100), at(150).position, 0.5, FOLLOWING) is Next.FOLLOW


def test_a_run_that_nobody_can_plan_for_follows_itself(pair: Pair) -> None:
    """Nothing is waited for that does not come: the leader is further on, and its plan is not for this run."""
    pair.leader_plans(100, 200)
    pair.leader.next(at(200), None, 0.5, FOLLOWING)
    assert pair.stranger.next(at(100), None, 0.5, IDLE) is Next.FOLLOW


def test_two_that_follow_do_not_wait_for_each_other(pair: Pair) -> None:
    assert pair.other.next(at(100), None, 0.5, FOLLOWING) is Next.FOLLOW
    assert pair.leader.next(at(100), None, 0.5, FOLLOWING) is Next.FOLLOW
    assert pair.now_s == 0.0


@pytest.mark.parametrize("end", [replace(at(200), schemas=6), replace(at(200), server="another"), at(100)])
def test_schema_changes_and_other_servers_are_planned_by_each(pair: Pair, end: MySqlOffset) -> None:
    pair.leader.publish_plan(at(100), end, [(at(100).position, None), (end.position, None)], None)
    assert pair.other.next(at(100), None, 0.0, FOLLOWING) is Next.FOLLOW


def test_runs_that_cannot_tell_are_alone(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("no folder")
    runs = Runs(Siblings(tmp_path, "one", 2))
    runs.report(SharingRun(4))
    assert runs.live_runs() == []
    assert not runs.has_slower_run(100, 100)
