"""What follows a batch: its figures, and the words for what stopped it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdc.errors import SinkError, SinkUnavailable
from cdc.flow.finish import FinishStep, batch_report
from cdc.flow.task_result import TaskResult
from cdc.progress import Progress
from cdc.schema import Column, DataType, TableId, TableSchema, shadow_of
from cdc.state.directory import StateDir
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.testing.list_sink import ListSink

ORDERS = TableId("shop", "orders")
SCHEMA = TableSchema((Column("id", DataType.parse("INT")),), ("id",))


@pytest.fixture
def step(tmp_path: Path) -> FinishStep:
    state = StateDir(tmp_path)
    TableLog(state.store).write(0, TableViews(sink={ORDERS: SCHEMA, TableId("shop", "users"): SCHEMA}))
    return FinishStep(ListSink(), state, Progress())


def test_an_error_that_names_a_shadow_table_says_whose_it_is(step: FinishStep) -> None:
    name = shadow_of(ORDERS).table
    found = step.explain(SinkUnavailable("NOT NULL constraint failed", where=f'"shop"."{name}".id', hint="look there"))
    assert str(found) == (
        f'"shop"."{name}".id: NOT NULL constraint failed '
        f"({name} is the shadow table of shop.orders, which is re-snapshotted; look there)"
    )
    assert found.retryable


def test_other_errors_stay_as_they_are(step: FinishStep) -> None:
    error = SinkError("no room left", where="shop.orders")
    assert step.explain(error) is error


def test_the_lag_is_not_negative_where_the_clock_is_behind_the_server_s() -> None:
    ahead_ms = int((time.time() + 3600) * 1000)
    assert batch_report(0, [], [], [TaskResult(newest_ms=ahead_ms)], 1.0).lag_s == 0.0
