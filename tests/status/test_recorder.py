"""The status document: what batches, copies, notices and errors make of it, and what becomes of it over runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.errors import ChangeRefused, SinkUnavailable
from cdc.progress import BatchReport, ChangeCounts, ProgressTotals, TableTotals
from cdc.schema import TableId
from cdc.source import TableProgress
from cdc.status.model import Batch, SchemaTotals, StatusDocument
from cdc.status.recorder import BATCHES, Recorder

ORDERS, USERS = TableId("shop", "orders"), TableId("shop", "users")
FIRST = StatusDocument(
    "shop-1", "shop", "mysql", "duckdb", "starting", 1, "here", 1000.0, 1000.0, schema=SchemaTotals("evolve")
)


class Clock:
    """The time, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    return Recorder(FIRST, clock)


def report(batch: int = 0, committed_s: float = 1000.0, lag_s: float | None = 0.5, **fields: Any) -> BatchReport:
    tables = {ORDERS: TableTotals(inserts=3, updates=2, deletes=1, schema_changes=1)}
    given = {"read": {"shop.orders": 8}, "phases": {"read": 0.2, "commit": 0.1}, "position": {"file": "b.1"}, **fields}
    return BatchReport(batch, tables, given.pop("counts", {}), 1.25, committed_s, lag_s, **given)


def test_a_batch_is_in_the_totals_in_its_tables_and_in_the_ring(recorder: Recorder) -> None:
    recorder.batch(report(0))
    recorder.batch(report(1))
    status = recorder.status(ProgressTotals(lag_s=0.5), None)
    assert (status.totals, status.read, status.batches_total) == (ChangeCounts(6, 4, 2), 16, 2)
    (orders,) = status.tables
    assert (orders.table, orders.written, orders.read) == ("shop.orders", ChangeCounts(6, 4, 2), 16)
    assert orders.last_change_s == 1000.0
    assert status.phases == {"read": 0.4, "commit": 0.2}
    assert [batch.batch for batch in status.batches] == [0, 1]
    assert status.batches[0] == Batch(0, 1000.0, 1.25, 6, 1, 0.5, {"read": 0.2, "commit": 0.1})
    assert status.position == {"file": "b.1"}


def test_the_ring_of_batches_keeps_the_last_ones(recorder: Recorder) -> None:
    for batch in range(BATCHES + 7):
        recorder.batch(report(batch))
    batches = recorder.status(ProgressTotals(), None).batches
    assert [batches[0].batch, batches[-1].batch, len(batches)] == [7, BATCHES + 6, BATCHES]


def test_a_source_table_that_goes_elsewhere_is_a_table_of_its_own(recorder: Recorder) -> None:
    recorder.batch(report(read={"shop.users": 5}))
    assert [
        (table.table, table.read, table.written.rows) for table in recorder.status(ProgressTotals(), None).tables
    ] == [
        ("shop.orders", 0, 6),
        ("shop.users", 5, 0),
    ]


def test_the_lag_is_none_before_anything_is_known_and_nothing_when_nothing_waits(
    recorder: Recorder, clock: Clock
) -> None:
    assert recorder.status(ProgressTotals(), None).lag.seconds is None
    assert recorder.status(ProgressTotals(lag_bytes=0), None).lag.seconds == 0.0
    recorder.batch(report())
    clock.now = 2000.0
    lag = recorder.status(ProgressTotals(lag_s=0.5, lag_bytes=0), None).lag
    assert (lag.seconds, lag.last_batch_s, lag.bytes) == (0.0, 0.5, 0)


def test_the_lag_grows_while_changes_wait_from_the_last_moment_when_none_did(recorder: Recorder, clock: Clock) -> None:
    recorder.batch(report())
    clock.now = 5000.0
    recorder.status(ProgressTotals(lag_bytes=0), None)
    clock.now = 5003.0
    assert recorder.status(ProgressTotals(lag_bytes=70, lag_transactions=3), 1).lag.seconds == 3.0, (
        "idle time does not count"
    )
    recorder.batch(report(1, committed_s=5004.0, lag_s=0.5))
    clock.now = 5010.0
    lag = recorder.status(ProgressTotals(lag_bytes=9, lag_transactions=1), 2).lag
    assert (lag.seconds, lag.bytes, lag.transactions) == (6.5, 9, 1), "from the newest change in the sink on"


def test_schema_changes_are_told_with_what_became_of_them(recorder: Recorder) -> None:
    counts = {"held-back drop.column shop.orders": 1, "refused-by-sink add.column shop.users": 2, "other shop.x": 4}
    recorder.batch(report(counts=counts, changes=(("shop.orders", "add.column note STRING"),)))
    recorder.error(ChangeRefused("cannot narrow", where="shop.orders.qty", hint="resync it"))
    status = recorder.status(ProgressTotals(), None)
    assert status.schema == SchemaTotals("evolve", applied=1, held_back=1, refused=2, failed=1)
    assert [(change.table, change.change, change.outcome) for change in status.schema_changes] == [
        ("shop.orders", "add.column note STRING", "applied"),
        ("shop.orders", "drop.column", "held-back"),
        ("shop.users", "add.column", "refused"),
        ("shop.orders.qty", "cannot narrow", "failed"),
    ]


def test_rows_in_dead_letters_are_summed_over_all_reasons(recorder: Recorder) -> None:
    counts = {
        "too-long-dead-letter shop.orders.note": 3,
        "out-of-range-dead-letter shop.orders.qty": 1,
        "unreadable-message-dead-letter orders": 2,
        "too-large-dead-letter shop.orders": 5,
        "x dead-letter": 9,
    }
    recorder.batch(report(counts=counts))
    assert recorder.status(ProgressTotals(), None).dead_letters == 11


def test_an_error_keeps_its_hint_and_whether_a_retry_helps(recorder: Recorder) -> None:
    recorder.error(SinkUnavailable("no connection", where="fe:9030", hint="start it"))
    recorder.error(ZeroDivisionError("division by zero"))
    known, unknown = recorder.status(ProgressTotals(), None).errors
    assert (known.kind, known.message, known.where, known.hint, known.retryable) == (
        "SinkUnavailable", "no connection", "fe:9030", "start it", True,
    )  # fmt: skip
    assert (unknown.kind, unknown.message) == ("ZeroDivisionError", "division by zero")


def test_copies_are_in_their_tables(recorder: Recorder) -> None:
    recorder.set_snapshots([TableProgress(USERS, "copying", 10, 40, 1, 4, 990.0, 999.0, 5.0, why="it was asked for")])
    (users,) = recorder.status(ProgressTotals(), None).tables
    assert users.copy is not None
    assert (users.copy.state, users.copy.rows, users.copy.eta_s, users.copy.why) == (
        "copying",
        10,
        6,
        "it was asked for",
    )


def test_rates_are_over_a_window_and_go_back_to_nothing(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    for rates in (recorder._read, recorder._written):
        monkeypatch.setattr(rates, "_clock", lambda: now[0])
    recorder.batch(report())
    status = recorder.status(ProgressTotals(), None)
    assert (status.read_per_s, status.written_per_s, status.tables[0].written_per_s) == (0.8, 0.6, 0.6)
    assert recorder.busy
    now[0] = 61.0
    status = recorder.status(ProgressTotals(), None)
    assert (status.read_per_s, status.written_per_s, status.tables[0].written_per_s) == (0.0, 0.0, 0.0)
    assert not recorder.busy


def test_points_are_some_seconds_apart_and_an_idle_stretch_is_its_two_ends(recorder: Recorder, clock: Clock) -> None:
    for second in range(100):
        clock.now = 1000.0 + second
        status = recorder.status(ProgressTotals(lag_bytes=0), None)
    assert [point.at_s for point in status.points] == [1000.0, 1095.0]
    assert {point.lag_s for point in status.points} == {0.0}


def test_nothing_new_gives_an_equal_document(recorder: Recorder, clock: Clock) -> None:
    before = recorder.status(ProgressTotals(lag_bytes=0), None)
    clock.now += 1
    assert replace(recorder.status(ProgressTotals(lag_bytes=0), None), updated_s=before.updated_s) == before


def test_the_end_of_a_run_is_a_point_however_short_it_was(recorder: Recorder, clock: Clock) -> None:
    recorder.status(ProgressTotals(), None)
    recorder.batch(report())
    clock.now += 1
    recorder.status(ProgressTotals(), None)
    recorder.state("ended")
    clock.now += 1
    points = recorder.status(ProgressTotals(), None).points
    assert [(point.at_s, point.lag_s) for point in points] == [(1000.0, None), (1002.0, 0.0)]
