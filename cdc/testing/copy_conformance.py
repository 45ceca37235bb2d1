"""Conformance tests of shadow tables and exchanged names for sinks.

`SinkConformance` includes these tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from cdc import events as on
from cdc.block import LOGGED, ChangeBlock, Stream
from cdc.errors import ChangeRefused
from cdc.flow.middle import Middle
from cdc.flow.shadow_tables import changes_for, tables_for
from cdc.process import faults
from cdc.schema import (
    Column,
    CreateShadow,
    CreateTable,
    DataType,
    DropTable,
    Kind,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.sink import Sink, TaskAttempt
from cdc.tables.states import TableState
from cdc.tables.table_map import ExistingRows
from cdc.testing.blocks import Row, block
from cdc.testing.crashes import FailAt
from cdc.testing.list_source import ListSource
from cdc.testing.memory import run_in_memory
from cdc.testing.sink_harness import SinkHarness

ID = Column("id", DataType(Kind.BIGINT), nullable=False)
NAME, TITLE = Column("name", DataType(Kind.VARCHAR, 64)), Column("title", DataType(Kind.VARCHAR, 64))
KEYED, KEYLESS = TableSchema((ID, NAME), ("id",)), TableSchema((ID, NAME))
OTHER = TableSchema((ID, TITLE), ("title",))
ORDERS = TableId("shop", "orders")
_LOG, _ROWS = frozenset({Stream.LOG}), frozenset({Stream.SNAPSHOT_ROWS})
_TABLES = pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["keyed", "keyless"])


class CopyConformance:
    """Conformance tests. A subclass defines a fixture `harness` that returns a `SinkHarness` on a new location."""

    def test_columns_exchange_names_once(self, harness: SinkHarness) -> None:
        """The values stay with their column, also when the batch is applied again."""
        schema, swap = (
            TableSchema((ID, NAME, TITLE), ("id",)),
            [RenameColumns(ORDERS, (("name", "title"), ("title", "name")))],
        )
        sink = harness.sink()
        _batch(
            sink,
            0,
            [CreateTable(ORDERS, schema)],
            block(ORDERS, schema, [("+I", {"id": 1, "name": "a", "title": "b"})]),
        )
        if not in_place(sink, 1, swap):
            return
        _batch(sink, 1, swap)
        assert harness.rows(ORDERS) == [{"id": 1, "name": "b", "title": "a"}]

    @_TABLES
    def test_readers_find_the_old_rows_until_a_copy_is_whole(self, harness: SinkHarness, schema: TableSchema) -> None:
        """The log is applied to existing rows meanwhile; a sink without shadow tables empties the table first."""
        sink = harness.sink()
        _batch(sink, 0, [CreateTable(ORDERS, schema)], _rows(schema, "1 old", "2 stale"))
        _batch(
            sink, 1, [CreateShadow(ORDERS)],
            _rows(schema, "3 new", streams=_LOG), _rows(schema, "1 new", streams=_ROWS),
        )  # fmt: skip
        has_shadows = sink.shadows
        assert _ids_and_names(harness) == (["1 old", "2 stale", "3 new"] if has_shadows else ["1 new"])
        _batch(harness.sink(), 2, [], _rows(schema, "3 new", streams=_ROWS))
        _batch(harness.sink(), 3, [SwapShadow(ORDERS)], _rows(schema, "4 new"))
        assert _ids_and_names(harness) == ["1 new", "3 new", "4 new"]
        _assert_nothing_beside(harness, sink)

    def test_a_copy_may_have_other_columns_and_another_key(self, harness: SinkHarness) -> None:
        """The table does not change until the swap."""
        sink = harness.sink()
        _batch(sink, 0, [CreateTable(ORDERS, KEYED)], _rows(KEYED, "1 old", "2 old"))
        _batch(sink, 1, [CreateShadow(ORDERS, OTHER)], _rows(OTHER, "1 new", streams=_ROWS))
        if sink.shadows:
            assert _ids_and_names(harness) == ["1 old", "2 old"]
        _batch(sink, 2, [SwapShadow(ORDERS)], _rows(OTHER, "5 new", "6 more"))
        assert [f"{row['id']} {row['title']}" for row in _sorted_rows(harness)] == ["5 new", "6 more"]

    def test_a_copy_that_starts_over_is_empty(self, harness: SinkHarness) -> None:
        """Rows of the first shadow table are removed."""
        sink = harness.sink()
        _batch(sink, 0, [CreateTable(ORDERS, KEYLESS)], _rows(KEYLESS, "1 old"))
        for batch, row in enumerate(("2 first", "3 second"), start=1):
            _batch(sink, batch, [CreateShadow(ORDERS)], _rows(KEYLESS, row, streams=_ROWS))
        _batch(sink, 3, [SwapShadow(ORDERS)])
        assert _ids_and_names(harness) == ["3 second"]

    @pytest.mark.parametrize(
        "change",
        [TruncateTable(ORDERS), DropTable(ORDERS), RenameTable(ORDERS, TableId("shop", "invoices"))],
        ids=lambda change: type(change).__name__,
    )
    def test_a_copy_goes_with_its_table(self, harness: SinkHarness, change: SchemaChange) -> None:
        """The copy is dropped when its table is emptied, dropped or renamed."""
        sink = harness.sink()
        _batch(sink, 0, [CreateTable(ORDERS, KEYED)])
        _batch(sink, 1, [CreateShadow(ORDERS)], _rows(KEYED, "1 new", streams=_ROWS))
        _batch(sink, 2, [change])
        _assert_nothing_beside(harness, sink)

    @_TABLES
    def test_a_crash_inside_a_step_of_a_copy(self, harness: SinkHarness, schema: TableSchema) -> None:
        """All changes of the batch are repeated, wherever they were interrupted, and the copy is never swapped back."""
        _batch(harness.sink(), 0, [CreateTable(ORDERS, schema)])
        for batch, step in enumerate(range(4), start=1):
            begin, end = 2 * batch - 1, 2 * batch
            for number, changes in ((begin, [CreateShadow(ORDERS)]), (end, [SwapShadow(ORDERS)])):
                with _dying_at(step):
                    sink = harness.sink()
                    sink.apply(number, changes_for(sink, changes))
                rows = [_rows(schema, f"{step} copied", streams=_ROWS)] if number == begin else []
                _batch(harness.sink(), number, changes, *rows)
            assert _ids_and_names(harness) == [f"{step} copied"]
            _assert_nothing_beside(harness, harness.sink())

    @_TABLES
    @pytest.mark.parametrize("failure", list(FailAt), ids=lambda failure: failure.name.lower())
    def test_a_crash_at_any_point_of_a_copy(self, harness: SinkHarness, schema: TableSchema, failure: FailAt) -> None:
        """A kill at each step of every batch: in the end stale rows are removed, and no row is duplicated."""
        items: list[SchemaChange | on.SourceEvent | ChangeBlock | FailAt] = [
            CreateTable(ORDERS, schema), _rows(schema, "1 old", "2 stale"),
            on.SnapshotBegun(ORDERS), failure,
            _rows(schema, "3 new", streams=_LOG), _rows(schema, "1 new", "3 new", streams=_ROWS),
            on.SnapshotDone(ORDERS), failure, _rows(schema, "4 new"),
        ]  # fmt: skip
        run = run_in_memory(ListSource(items), harness.sink(), restarted=harness.sink, parallelism=2)
        assert run.batches == 3
        assert _ids_and_names(harness) == ["1 new", "3 new", "4 new"]
        _assert_nothing_beside(harness, harness.sink())

    @_TABLES
    def test_a_first_snapshot_takes_the_place_of_rows_that_are_there(
        self, harness: SinkHarness, schema: TableSchema
    ) -> None:
        """With `existing-rows: replace` the old ones are removed, whatever is killed; if the sink can be queried."""
        if type(harness.sink()).holds_rows is Sink.holds_rows:
            return
        _batch(harness.sink(), 0, [CreateTable(ORDERS, schema)])
        assert not harness.sink().holds_rows(ORDERS)
        _batch(harness.sink(), 1, [], _rows(schema, "1 old", "2 stale"))
        assert harness.sink().holds_rows(ORDERS)
        created = on.TableCreated(ORDERS, CreateTable(ORDERS, schema), by_snapshot=True)
        source = ListSource([
            created, FailAt.DECIDED, _rows(schema, "1 new", "3 new", streams=_ROWS),
            on.SnapshotDone(ORDERS), FailAt.COMMITTED, _rows(schema, "4 new"),
        ])  # fmt: skip
        middle = Middle(existing_rows=ExistingRows.REPLACE)
        run_in_memory(source, harness.sink(), restarted=harness.sink, middle=middle, first_batch=2)
        assert _ids_and_names(harness) == ["1 new", "3 new", "4 new"]
        _assert_nothing_beside(harness, harness.sink())


def in_place(sink: Sink, batch: int, changes: Sequence[SchemaChange]) -> bool:
    """Apply changes; return False when the sink requires a re-snapshot into a shadow table and has done nothing."""
    try:
        sink.apply(batch, changes)
    except ChangeRefused as error:
        if error.resnapshot_helps and sink.shadows:
            return False
        raise
    return True


def _batch(sink: Sink, batch: int, changes: Sequence[SchemaChange], *blocks: ChangeBlock) -> None:
    """Run a batch as the engine does."""
    sink.apply(batch, changes_for(sink, changes))
    routed = (found for item in blocks for found in _blocks_for(sink, item))
    sink.commit(batch, sink.prepare(TaskAttempt(batch, 0, 0, noting=[].append), routed))


def _blocks_for(sink: Sink, block: ChangeBlock) -> Iterator[ChangeBlock]:
    """Yield the blocks for a table with its own sink table: rows of a re-snapshot go only to the shadow table."""
    shadowed = sink.shadows and block.streams != LOGGED
    state = TableState.SHADOW if shadowed else TableState.SNAPSHOT
    tables = tables_for(sink, block.table, state, block.streams, shadowed=shadowed)
    return (replace(block, table=table) for table in tables)


def _rows(schema: TableSchema, *rows: str, streams: frozenset[Stream] = LOGGED) -> ChangeBlock:
    """Inserts of rows such as `1 old`."""
    named = schema.names[1]
    pairs = (text.split() for text in rows)
    made: list[tuple[str, Row]] = [("+I", {"id": int(id_), named: name}) for id_, name in pairs]
    return replace(block(ORDERS, schema, made), streams=streams)


def _ids_and_names(harness: SinkHarness) -> list[str]:
    return [f"{row['id']} {row['name']}" for row in _sorted_rows(harness)]


def _sorted_rows(harness: SinkHarness) -> list[Row]:
    rows = harness.rows(ORDERS)
    assert rows is not None
    return sorted(rows, key=lambda row: int(row["id"]))


def _assert_nothing_beside(harness: SinkHarness, sink: Sink) -> None:
    if sink.shadows:
        assert harness.rows(sink.shadow(ORDERS)) is None


class _Died(BaseException):
    """The end of the process."""


@contextmanager
def _dying_at(step: int) -> Iterator[None]:
    """Context manager that interrupts its block after that many statements of a schema change, if there are as many."""
    left, before = step, faults.hook

    def hook(point: str, _batch: int) -> None:
        nonlocal left
        if point == "mid-apply":
            left -= 1
            if left < 0:
                raise _Died

    faults.hook = hook
    try:
        yield
    except _Died:
        pass
    finally:
        faults.hook = before
