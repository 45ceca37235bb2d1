"""Rows that a sink table has before the first snapshot of a pipeline."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest
from together import together

from cdc import events as on
from cdc.block import ChangeBlock, Stream
from cdc.errors import ChangeRefused
from cdc.flow.middle import Middle
from cdc.schema import Column, CreateTable, DataType, Kind, SourceStatement, TableId, TableSchema
from cdc.sink import Prepared
from cdc.tables.table_map import ExistingRows
from cdc.testing.blocks import block
from cdc.testing.crashes import FailAt
from cdc.testing.list_sink import ListSink
from cdc.testing.list_source import ListSource
from cdc.testing.local_pipeline import MemoryRun
from cdc.testing.memory import run_in_memory

ID, NAME = Column("id", DataType(Kind.BIGINT), nullable=False), Column("name", DataType(Kind.VARCHAR, 64))
KEYED, KEYLESS = TableSchema((ID, NAME), ("id",)), TableSchema((ID, NAME))
ORDERS = TableId("shop", "orders")


class AskedSink(ListSink):
    """Counts how often it is asked for rows."""

    asked = 0

    def holds_rows(self, table: TableId) -> bool:
        self.asked += 1
        return super().holds_rows(table)


def rows(schema: TableSchema, *names: str, snapshot: bool = True) -> ChangeBlock:
    made = block(ORDERS, schema, [("+I", {"id": int(name[0]), "name": name}) for name in names])
    return replace(made, streams=frozenset({Stream.SNAPSHOT_ROWS})) if snapshot else made


def filled(schema: TableSchema) -> AskedSink:
    """A sink with rows of an earlier pipeline: `1 old` and `2 stale`."""
    sink = AskedSink()
    run_in_memory(ListSource([CreateTable(ORDERS, schema), rows(schema, "1 old", "2 stale", snapshot=False)]), sink)
    sink.asked = 0
    return sink


def run(sink: AskedSink, schema: TableSchema, existing: ExistingRows) -> MemoryRun:
    created = on.TableCreated(ORDERS, CreateTable(ORDERS, schema), by_snapshot=True)
    source = ListSource([created, rows(schema, "1 new", "3 new"), on.SnapshotDone(ORDERS)])
    return run_in_memory(source, sink, first_batch=10, middle=Middle(existing_rows=existing))


def names(sink: ListSink) -> list[str]:
    return sorted(str(row["name"]) for row in sink.rows(ORDERS) or ())


@pytest.mark.parametrize("existing", [ExistingRows.UPSERT, ExistingRows.APPEND])
def test_rows_with_a_key_are_written_over_and_the_others_are_told(existing: ExistingRows) -> None:
    sink = filled(KEYED)
    found = run(sink, KEYED, existing)
    assert names(sink) == ["1 new", "2 stale", "3 new"]
    assert found.reasons["rows.kept shop.orders"] == 1


def test_rows_without_a_key_are_not_doubled() -> None:
    sink = filled(KEYLESS)
    with pytest.raises(ChangeRefused, match=r"holds rows already, which would be there twice.*existing-rows: replace"):
        run(sink, KEYLESS, ExistingRows.UPSERT)
    assert names(sink) == ["1 old", "2 stale"]
    found = run(sink, KEYLESS, ExistingRows.APPEND)
    assert names(sink) == ["1 new", "1 old", "2 stale", "3 new"]
    assert found.reasons["rows.kept shop.orders"] == 1


@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["keyed", "keyless"])
def test_the_run_stops_at_any_row(schema: TableSchema) -> None:
    sink = filled(schema)
    with pytest.raises(ChangeRefused, match="holds rows already"):
        run(sink, schema, ExistingRows.FAIL)
    assert names(sink) == ["1 old", "2 stale"]


@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["keyed", "keyless"])
def test_the_snapshot_takes_their_place(schema: TableSchema) -> None:
    sink = filled(schema)
    found = run(sink, schema, ExistingRows.REPLACE)
    assert names(sink) == ["1 new", "3 new"]
    assert found.reasons["rows.replaced shop.orders"] == 1


@together("existing", list(ExistingRows))
def test_an_empty_table_is_as_a_new_one(existing: ExistingRows) -> None:
    sink = AskedSink()
    run_in_memory(ListSource([CreateTable(ORDERS, KEYLESS)]), sink)
    run(sink, KEYLESS, existing)
    assert names(sink) == ["1 new", "3 new"]


@together(
    "schema, existing, found, count",
    [
        (KEYED, ExistingRows.UPSERT, ["1 old", "2 stale", "3 new"], "rows.kept"),
        (KEYLESS, ExistingRows.APPEND, ["1 old", "2 stale", "3 new"], "rows.kept"),
        (KEYED, ExistingRows.REPLACE, ["3 new"], "rows.replaced"),
        (KEYLESS, ExistingRows.REPLACE, ["3 new"], "rows.replaced"),
        (KEYLESS, ExistingRows.UPSERT, ["1 old", "2 stale"], ""),
        (KEYED, ExistingRows.FAIL, ["1 old", "2 stale"], ""),
    ],
)
def test_a_table_that_a_statement_of_the_log_creates_finds_rows_in_the_sink(
    schema: TableSchema, existing: ExistingRows, found: list[str], count: str
) -> None:
    sink, created = filled(schema), CreateTable(ORDERS, schema, statement=SourceStatement("CREATE TABLE orders"))
    source = ListSource([created, FailAt.PREPARED, rows(schema, "3 new", snapshot=False)])
    with nullcontext() if count else pytest.raises(ChangeRefused, match="holds rows already"):
        reasons = run_in_memory(source, sink, first_batch=10, middle=Middle(existing_rows=existing)).reasons
        assert reasons[f"{count} shop.orders"] == (count == "rows.kept")  # what was emptied before the crash is empty
    assert names(sink) == found


def test_a_log_that_is_followed_from_its_middle_asks_for_no_rows() -> None:
    """`latest-offset`, or where another tool was: the rows that are there are those of the source."""
    sink = filled(KEYLESS)
    source = ListSource([CreateTable(ORDERS, KEYLESS), rows(KEYLESS, "3 new", snapshot=False)])
    run_in_memory(source, sink, first_batch=10, middle=Middle(existing_rows=ExistingRows.FAIL))
    assert names(sink) == ["1 old", "2 stale", "3 new"]
    assert not sink.asked


class SlowCommits(AskedSink):
    """A commit goes on until the sink is asked for rows, or is not asked for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = threading.Event()
        self.committing, self.asked_meanwhile = False, False

    def holds_rows(self, table: TableId) -> bool:
        self.asked_meanwhile |= self.committing
        self.looked.set()
        return super().holds_rows(table)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        self.looked.clear()
        self.committing = bool(prepared)
        self.looked.wait(0.3)
        super().commit(batch, prepared)
        self.committing = False


def test_the_sink_is_not_asked_for_rows_while_it_commits() -> None:
    other, statement = TableId("shop", "other"), SourceStatement("CREATE TABLE t")
    first = [CreateTable(ORDERS, KEYED, statement=statement), rows(KEYED, "1 a", snapshot=False)]
    sink = SlowCommits()
    run_in_memory(ListSource([*first, CreateTable(other, KEYED, statement=statement)]), sink)
    assert sink.asked == 2
    assert not sink.asked_meanwhile
