"""`cdc resync` while nothing runs: the request, and what it says of batches that are decided."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.errors import SourceError, TableUnknown
from cdc.job.resync import request_resync
from cdc.offsets import numbered
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.source import Snapshots
from cdc.spec.model import PipelineOptions, RouteRule
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, snapshots_requested
from cdc.tables.states import SinkState
from cdc.testing import ListSource

PLAIN = TableSchema((Column("v", DataType.parse("INT")),))


class Copying(ListSource):
    """Captures `shop`, whose tables it can re-snapshot."""

    def captures(self, table: TableId) -> bool:
        return table.database == "shop"

    def snapshots(self, table: TableId) -> Snapshots:
        return Snapshots.ALWAYS if self.captures(table) else Snapshots.NEVER


class Everything(Copying):
    """Captures all databases."""

    def captures(self, table: TableId) -> bool:
        return True


@pytest.fixture
def spec() -> Any:
    source = SimpleNamespace(type="mysql", build=lambda context: Copying(()))
    rules = [RouteRule(source_table="shop.orders", sink_table="lake.orders")]
    return SimpleNamespace(
        name="p", file="p.yaml", source=source, sink=None, route=rules, rules=(), pipeline=PipelineOptions(), rivals={}
    )


@pytest.fixture
def log(tmp_path: Path) -> CommitLog:
    """That of a pipeline that has decided batch 7."""
    state = StateDir(tmp_path / "state")
    state.open(name="p", source="mysql")
    state.store_initial_offset(numbered({}, 0))
    log = CommitLog(state.commits)
    log.decide(Decision(7, {}, {}, ()))
    known = dict.fromkeys((TableId("shop", "orders"), TableId("other", "orders")), PLAIN)
    TableLog(state.store).write(7, TableViews(source=known, rules=known))
    return log


def requested(folder: Path) -> set[TableId]:
    return {*snapshots_requested(Mailbox(StateDir(folder / "state").store))}


def merged(folder: Path, table: TableId, schema: TableSchema) -> None:
    """Several source tables go to a table of the sink, which has this schema."""
    log = TableLog(StateDir(folder / "state").store)
    log.write(7, replace(log.at(7), sink={table: schema}, sinks={table: SinkState(merged=True)}))


def test_the_request_waits_for_a_batch(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    request_resync(spec, "shop.orders", tmp_path / "state")
    assert requested(tmp_path) == {TableId("shop", "orders")}


def test_a_database_with_a_dot_is_part_of_the_name(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    """The request is of the table that the pipeline has, not of `b.orders` in the database `a`."""
    dotted = TableId("shop.eu", "orders")
    spec.source.build = lambda context: Everything(())
    TableLog(StateDir(tmp_path / "state").store).write(7, TableViews(source={dotted: PLAIN}, rules={dotted: PLAIN}))
    request_resync(spec, "shop.eu.orders", tmp_path / "state")
    assert requested(tmp_path) == {dotted}


def test_one_of_several_that_have_a_key_is_snapshotted_alone(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    keyed = TableSchema((Column("v", DataType.parse("INT"), False),), ("v",))
    merged(tmp_path, TableId("lake", "orders"), keyed)
    request_resync(spec, "shop.orders", tmp_path / "state")
    assert requested(tmp_path) == {TableId("shop", "orders")}


def test_one_of_several_tables_without_a_key_has_no_re_snapshot(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    table = TableId("lake", "orders")
    merged(tmp_path, table, PLAIN)
    with pytest.raises(SourceError, match=r"shop\.orders: its rows in lake\.orders cannot be told from those of other"):
        request_resync(spec, "shop.orders", tmp_path / "state")
    assert requested(tmp_path) == set()


def test_a_table_that_is_not_captured_keeps_its_rows(spec: Any, log: CommitLog, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not capture"):
        request_resync(spec, "other.orders", tmp_path / "state")
    assert requested(tmp_path) == set()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("shop.order", r"did you mean shop\.orders or other\.orders\?"),
        ("Shop.Orders", r"did you mean shop\.orders\?"),
        ("shop.zzz", "name one as `cdc status` does"),
        ("lake.orders", r"did you mean other\.orders or shop\.orders\?"),
    ],
)
def test_a_name_that_the_pipeline_does_not_have_is_refused(
    spec: Any, log: CommitLog, tmp_path: Path, name: str, hint: str
) -> None:
    """A copy would never come, and rows that wait for it would be let go."""
    with pytest.raises(TableUnknown, match="the pipeline has no such table") as caught:
        request_resync(spec, name, tmp_path / "state")
    assert re.search(hint, caught.value.hint)
    assert requested(tmp_path) == set()
