"""A step that takes long is told of, where nothing else is."""

from __future__ import annotations

import io

from cdc.job.long_steps import LongSteps
from cdc.job.report import Reporter


class Run:
    """A run at times of a clock of its own."""

    def __init__(self) -> None:
        self.now_s, self.err = 0.0, io.StringIO()
        self.reporter = Reporter("text", err=self.err)
        self.reporter.written_s = 0.0
        self.steps = LongSteps(self.reporter, lambda: self.now_s)

    def at(self, second: float, what: str) -> None:
        self.now_s = second
        before = self.err.getvalue()
        self.steps.note(what)
        if self.err.getvalue() != before:
            self.reporter.written_s = second

    @property
    def lines(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self.err.getvalue().splitlines()]


def test_a_long_step_is_told_after_ten_seconds_and_then_less_and_less_often() -> None:
    run = Run()
    for second in range(200):
        run.at(second, "batch 0 reads and writes rows")
    assert run.lines == [f"batch 0 reads and writes rows: {second} s so far" for second in (10, 30, 70, 130, 190)]


def test_a_step_begins_anew_and_a_wait_for_changes_is_none() -> None:
    run = Run()
    for second, what in ((0, "Spark starts"), (9, "Spark starts"), (10, ""), (100, ""), (101, "batch 1 begins"),
                         (110, "batch 1 begins"), (111, "batch 1 begins")):  # fmt: skip
        run.at(second, what)
    assert run.lines == ["batch 1 begins: 10 s so far"]


def test_other_lines_are_told_instead() -> None:
    run = Run()
    run.at(0, "Spark starts")
    run.reporter.written_s = 8.0
    run.at(12, "Spark starts")
    assert run.lines == []
    run.at(18, "Spark starts")
    assert run.lines == ["Spark starts: 18 s so far"]


def test_a_line_of_the_log_counts_as_one() -> None:
    reporter = Reporter("text", err=io.StringIO())
    reporter.written_s = 0.0
    reporter.line("a line")
    assert reporter.written_s > 0.0
