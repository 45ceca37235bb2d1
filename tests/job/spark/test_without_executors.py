"""What is told and ended while Spark has work and no executor."""

from __future__ import annotations

import pytest

from cdc.job.spark.without_executors import NO_EXECUTORS, WAITING, WARNED_AFTER_S, SparkWork, WithoutExecutors

NONE, SOME, IDLE = (
    SparkWork(waits=True, executors=0),
    SparkWork(waits=True, executors=2),
    SparkWork(waits=False, executors=0),
)


class LiveStatus:
    def __init__(self) -> None:
        self.warned: list[str] = []
        self.waiting = ""
        self.cancelled = 0
        self.looking = WithoutExecutors(self.warned.append, self._wait, self._cancel)

    def _wait(self, text: str) -> None:
        self.waiting = text

    def _cancel(self) -> None:
        self.cancelled += 1

    def look(self, *works: SparkWork, stopping: bool = False) -> None:
        for work in works:
            self.looking.look(work, WARNED_AFTER_S / 3, stopping=stopping)


@pytest.fixture
def seen() -> LiveStatus:
    return LiveStatus()


def test_it_is_told_once_and_taken_back_when_executors_come(seen: LiveStatus) -> None:
    seen.look(NONE, NONE)
    assert (seen.warned, seen.waiting) == ([], "")
    seen.look(NONE, NONE, NONE)
    assert (seen.warned, seen.waiting) == ([NO_EXECUTORS], WAITING)
    seen.look(SOME)
    assert (seen.warned, seen.waiting) == ([NO_EXECUTORS], "")
    seen.look(NONE, NONE, NONE)
    assert seen.warned == [NO_EXECUTORS, NO_EXECUTORS]


def test_executors_that_come_in_between_and_idle_times_begin_the_count_anew(seen: LiveStatus) -> None:
    seen.look(NONE, NONE, SOME, NONE, NONE, IDLE, NONE, NONE)
    assert (seen.warned, seen.waiting, seen.cancelled) == ([], "", 0)


def test_a_stop_ends_only_work_that_waits(seen: LiveStatus) -> None:
    seen.look(SOME, IDLE, stopping=True)
    assert seen.cancelled == 0
    seen.look(NONE, stopping=True)
    assert seen.cancelled == 1
