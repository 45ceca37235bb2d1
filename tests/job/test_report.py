"""What a run says: log lines as text and JSON, the live line on a terminal, the summary; and the sums after it."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import re
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from cdc.flow.finish import batch_report
from cdc.flow.task_result import TaskResult
from cdc.job.report import Reporter, new_counts
from cdc.progress import BatchReport, Progress, ProgressTotals, TableTotals
from cdc.schema import CreateTable, TableId, TableSchema, TruncateTable
from cdc.sink import Prepared

T, U = TableId("shop", "orders"), TableId("shop", "u")


def report(batch: int = 0) -> BatchReport:
    prepared = [Prepared(T, 0, "a", 3, 2, 1), Prepared(T, 1, "b", 1000, 0, 0), Prepared(U, 1, "c", 0, 0, 5)]
    changes = [CreateTable(U, TableSchema(())), TruncateTable(T), TruncateTable(T)]
    results = [
        TaskResult(counts={"invalid-date-to-null shop.u.d": 2}, newest_ms=5),
        TaskResult(counts={"invalid-date-to-null shop.u.d": 1, "x": 1}, newest_ms=9),
    ]
    return batch_report(batch, prepared, changes, results, 1.5)


class FullDisk(io.StringIO):
    """Text goes in while there is room."""

    room = True

    def write(self, text: str) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(text)


def test_a_full_disk_under_the_log_ends_no_run() -> None:
    """It ended the run, with an error that named the state directory."""
    err, out = FullDisk(), FullDisk()
    reporter = Reporter("text", out, err)
    err.room = out.room = False
    reporter.line("one")
    reporter.batch(report())
    reporter.summary(ProgressTotals())
    err.room = True
    reporter.line("two")
    reporter.line("three")
    told = [line[9:] for line in err.getvalue().splitlines()]
    missing = "lines before this one may be missing: the log could not be written (No space left on device)"
    assert told == ["two", f"warning: {missing}", "three"]
    reporter.summary(ProgressTotals(batches=1))
    assert err.getvalue().endswith("warning: the summary cannot be written: No space left on device\n")


def test_what_the_sink_counts_is_added_to_what_the_source_counts() -> None:
    prepared = [Prepared(T, 0, "a", counts={"x": 2}), Prepared(T, 1, "b", counts={"x": 1, "y": 4})]
    results = [TaskResult(counts={"x": 5})]
    assert batch_report(0, prepared, [], results, 1.5).counts == {"x": 8, "y": 4}
    assert batch_report(0, prepared, [], results, 1.5, {"y": 1, "z": 2}).counts == {"x": 8, "y": 5, "z": 2}


def test_a_batch_report_sums_up_its_tasks() -> None:
    found = report()
    assert found.tables == {T: TableTotals(1003, 2, 1, 2), U: TableTotals(0, 0, 5, 1)}
    assert found.rows == 1011
    assert found.counts == {"invalid-date-to-null shop.u.d": 3, "x": 1}
    assert found.lag_s is not None
    assert found.lag_s > 1e9  # the newest change is of 1970
    assert batch_report(0, [], [], [TaskResult()], 0.1).lag_s is None


def test_progress_sums_up_the_batches() -> None:
    progress = Progress()
    progress.begin(0)
    assert progress.running == 0
    progress.end(report(0))
    progress.end(report(1))
    now = progress.totals()
    assert progress.running is None
    assert now.tables == {T: TableTotals(2006, 4, 2, 4), U: TableTotals(0, 0, 10, 2)}
    assert (now.rows, now.batches, now.last_batch, now.last_duration_s) == (2022, 2, 1, 1.5)
    assert now.counts == {"invalid-date-to-null shop.u.d": 6, "x": 2}
    assert now.rate == 2022 / Progress.WINDOW_S
    assert [item.batch for item in progress.reports()] == [0, 1]
    assert list(progress.reports()) == []
    progress.note_lag(77, "waiting")
    assert (progress.totals().lag_bytes, progress.totals().note) == (77, "waiting")


def test_only_what_grew_is_reported_again() -> None:
    assert list(new_counts({"a": 1, "b": 2}, {"a": 1, "b": 5, "c": 1})) == [("b", 3), ("c", 1)]


def written(log_format: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    reporter = Reporter(log_format, out, err)
    progress = Progress()
    progress.end(report())
    reporter.line("pipeline p: mysql -> duckdb", state="/state")
    reporter.line("2 dates", level="warning")
    reporter.batch(report())
    reporter.batch(batch_report(1, [], [], [], 0.1))
    reporter.status(progress.totals(), None)
    reporter.summary(progress.totals())
    return out.getvalue(), err.getvalue()


def test_text() -> None:
    out, err = written("text")
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in err.splitlines()]
    assert lines[:2] == ["pipeline p: mysql -> duckdb state=/state", "warning: 2 dates"]
    assert lines[2].startswith("batch committed batch=0 tables=2 rows=1011 duration_s=1.5 lag_s=")
    assert len(lines) == 3  # an empty batch is not worth a line
    table, total, *counted = out.rsplit("\n", 4)
    assert table.splitlines() == [
        "table        inserts  updates  deletes  schema changes",
        "-----------  -------  -------  -------  --------------",
        "shop.orders    1,003        2        1               2",
        "shop.u             0        0        5               1",
    ]
    assert re.fullmatch(r"1,011 changes in 1 batch, \d+\.\d s", total)
    assert counted == ["counted: invalid-date-to-null shop.u.d: 3", "counted: x: 1", ""]


def test_every_line_of_json_is_json() -> None:
    out, err = written("json")
    records = [json.loads(line) for line in err.splitlines()]
    assert out == ""
    assert [record["message"] for record in records] == [
        "pipeline p: mysql -> duckdb", "2 dates", "batch committed", "summary",
    ]  # fmt: skip
    assert [record["level"] for record in records] == ["info", "warning", "info", "info"]
    assert all(record["time"].endswith("+00:00") for record in records)
    assert (records[2]["rows"], records[2]["tables"]) == (1011, 2)
    assert records[3]["tables"]["shop.orders"] == {"inserts": 1003, "updates": 2, "deletes": 1, "schema_changes": 2}
    assert records[3]["counts"] == {"invalid-date-to-null shop.u.d": 3, "x": 1}


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_run_that_failed_before_its_first_commit_has_no_sums(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    progress, reporter = Progress(), Reporter(kind)
    reporter.summary(progress.totals(), failed=True)
    assert capsys.readouterr() == ("", "")
    progress.end(report())
    reporter.summary(progress.totals(), failed=True)
    assert "".join(capsys.readouterr())


@contextmanager
def terminal(columns: int) -> Iterator[tuple[IO[str], int]]:
    """A pseudo terminal of that width, and the descriptor that reads what is shown on it."""
    shown, inside = pty.openpty()
    termios.tcsetwinsize(inside, (24, columns))
    try:
        with os.fdopen(inside, "w") as err:
            yield err, shown
    finally:
        os.close(shown)


def test_on_a_terminal_one_line_is_redrawn() -> None:
    with terminal(100) as (err, shown):
        reporter = Reporter("text", io.StringIO(), err)
        reporter.status(ProgressTotals(), None)
        progress = Progress()
        progress.end(report())
        progress.note_lag(12_000_000, "waiting for the server: refused")
        reporter.status(progress.totals(), 4)
        reporter.batch(report())  # said by the status line
        reporter.line("stopping")
        text = ""
        while "stopping\r\n" not in text:
            text += os.read(shown, 65_536).decode()
    parts = text.split("\r\x1b[2K")
    assert parts[1] == "0 tables | 0 rows | 0 rows/s | lag - | waiting"
    assert parts[2].startswith("2 tables | 1,011 rows | ")
    assert " | batch 0 (1.50 s) | running 4 | " in parts[2]
    assert re.fullmatch(r"\d\d:\d\d:\d\d stopping\r\n", parts[3])
    assert len(parts[2]) == 99  # one column is left, so that nothing wraps


def test_a_terminal_that_does_not_know_its_width_gets_a_short_line() -> None:
    with terminal(0) as (err, shown):
        progress = Progress()
        progress.note_lag(1, "note " * 100)
        Reporter("text", io.StringIO(), err).status(progress.totals(), None)
        assert len(os.read(shown, 65_536).decode()) == 79 + len("\r\x1b[2K")


def test_json_never_redraws() -> None:
    with terminal(80) as (err, shown):
        reporter = Reporter("json", io.StringIO(), err)
        reporter.status(ProgressTotals(), None)
        reporter.line("x")
        assert os.read(shown, 65_536).decode().startswith('{"time"')


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_keep_to_the_width(columns: int) -> None:
    with terminal(columns) as (err, shown):
        progress = Progress()
        progress.note_lag(5_000_000, "waiting for the server: the connection broke")
        Reporter("text", io.StringIO(), err).status(progress.totals(), 1)
        assert len(os.read(shown, 65_536).decode().removeprefix("\r\x1b[2K")) == columns - 1
