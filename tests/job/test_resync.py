"""`cdc resync` while nothing runs: the request, and what it says of batches that are decided."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.errors import SourceError
from cdc.flow.offsets import numbered
from cdc.flow.sink_schemas import Marks, SinkSchemas
from cdc.job.resync import request_resync
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.spec.model import PipelineOptions, RouteRule
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.testing import ListSource


class Copying(ListSource):
    """Captures `shop`, whose tables it can copy anew."""

    def resync(self, table: TableId) -> None:
        if table.database != "shop":
            raise SourceError("the pipeline does not capture this table", where=str(table))


@pytest.fixture
def spec() -> Any:
    source = SimpleNamespace(type="mysql", build=lambda context: Copying(()))
    rules = [RouteRule(source_table="shop.orders", sink_table="lake.orders")]
    return SimpleNamespace(name="p", source=source, sink=None, route=rules, pipeline=PipelineOptions())


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    """That of a pipeline that has decided batch 7."""
    state = StateDir(tmp_path / "state")
    state.open(name="p", source="mysql")
    state.store_initial_offset(numbered({}, 0))
    log = CommitLog(state.commits)
    log.decide(Decision(7, {}, {}, ()))
    return log


def test_the_rows_of_decided_batches_may_be_let_go_for_the_sink_table(
    spec: Any, log: CommitLog, tmp_path: Path
) -> None:
    request_resync(spec, "shop.orders", tmp_path / "state")
    assert log.resyncs(7) == {"lake.orders": {""}}
    assert log.resyncs(8) == {}


def test_one_of_several_that_is_copied_alone_lets_go_of_no_rows_of_the_others(
    spec: Any, log: CommitLog, tmp_path: Path
) -> None:
    table, keyed = TableId("lake", "orders"), TableSchema((Column("v", DataType.parse("INT"), False),), ("v",))
    SinkSchemas(StateDir(tmp_path / "state").store).record(7, {table: keyed}, Marks(frozenset({table})))
    request_resync(spec, "shop.orders", tmp_path / "state")
    assert log.resyncs(7) == {"lake.orders": {"shop.orders"}}


def test_one_of_several_tables_without_a_key_cannot_be_copied_anew(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    table, plain = TableId("lake", "orders"), TableSchema((Column("v", DataType.parse("INT")),))
    SinkSchemas(StateDir(tmp_path / "state").store).record(7, {table: plain}, Marks(frozenset({table})))
    with pytest.raises(SourceError, match=r"shop\.orders: its rows in lake\.orders cannot be told from those of other"):
        request_resync(spec, "shop.orders", tmp_path / "state")
    assert log.resyncs(0) == {}


def test_a_table_that_is_not_captured_keeps_its_rows(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not capture"):
        request_resync(spec, "other.orders", tmp_path / "state")
    assert log.resyncs(0) == {}
