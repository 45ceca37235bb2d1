"""Where the time of a batch goes: measured in the task and on the driver."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.flow.finish import batch_report
from cdc.flow.task_result import TaskResult
from cdc.process.stopwatch import Phases, in_phase


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_phase_has_its_own_time_without_that_of_phases_inside() -> None:
    clock = Clock()
    phases = Phases(clock)

    def decoded() -> Iterator[int]:
        for number in range(2):
            clock.now += 4
            yield number

    def read() -> Iterator[int]:
        clock.now += 1
        yield from in_phase("decode", decoded())
        clock.now += 2

    with phases.phase("prepare"):
        clock.now += 10
        for _ in phases.of("transform", phases.of("read", read())):
            clock.now += 100
    assert phases.seconds == {"prepare": 210.0, "transform": 0.0, "read": 3.0, "decode": 8.0}


def test_what_runs_in_no_task_is_not_measured() -> None:
    assert list(in_phase("decode", iter([1, 2]))) == [1, 2]


def test_a_report_has_the_drivers_phases_and_those_of_the_slowest_task() -> None:
    results = [
        TaskResult(read_s=1.0, phases={"read": 0.75, "prepare": 0.25}, read={"shop.a": 2}),
        TaskResult(read_s=3.0, phases={"read": 1.0, "prepare": 2.0}, read={"shop.a": 1, "shop.b": 4}),
    ]
    driver = {"schema": 0.5, "tasks": 3.5, "decide": 0.25, "commit": 1.5}
    report = batch_report(0, [], [], results, 6.0, phases=driver)
    assert report.phases == {
        "schema": 0.5, "dispatch": 0.5, "read": 1.0, "prepare": 2.0, "decide": 0.25, "commit": 1.5,
    }  # fmt: skip
    assert report.read == {"shop.a": 3, "shop.b": 4}
