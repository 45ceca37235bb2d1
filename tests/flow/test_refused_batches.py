"""Schema changes that the sink refuses, with others of the same table in their batch: no row stands between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from live_source import LiveSource
from test_refused import AFTER, BEFORE, ID, INT, KEY, KEYED, REFUSED, TEXT, A, B, FirmKeys, Stubborn, how
from together import together

from cdc import events as on
from cdc.errors import ChangeRefused
from cdc.schema import (
    AlterColumnType,
    Column,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.source import Snapshots
from cdc.state.directory import StateDir
from cdc.tables.requests import Mailbox, RequestKind
from cdc.testing import ListSink, block, run_in_memory

FIRST = [CreateTable(A, BEFORE), block(A, BEFORE, [("+I", {"id": 1, "v": 1}), ("+I", {"id": 2, "v": 2})])]
WITH_KEY = [AlterColumnType(A, Column("v", INT, nullable=False), Column("v", INT)), KEY]
C = TableId("shop", "c")
WHY = on.Uncertain("nobody knows")


def after(script: list[Any], sink: ListSink, table: TableId, schema: TableSchema, behavior: str) -> dict[TableId, Any]:
    """The sink's tables with their rows; a snapshot of the table finds one row."""
    now = block(table, schema, [("+I", {"id": 1, **dict.fromkeys(schema.names[1:])})], sequence=9)
    run_in_memory(LiveSource(script, {table: now}), sink, middle=how(behavior))
    return {each: sink.rows(each) for each in sorted(sink.tables)}


@together(
    "change, columns",
    [(RenameColumn(A, "v", "w"), (ID, Column("w", TEXT))), (DropColumn(A, "v"), (ID,))],
)
@together("begun", [[], [on.SnapshotBegun(A)]])
def test_a_column_that_is_renamed_or_dropped_by_a_change_held_back_behind_it(
    change: Any, columns: Any, begun: list[Any]
) -> None:
    schema = TableSchema(columns, ("id",))
    script = [*FIRST, REFUSED, on.TableChanged(A, change, WHY), *begun]
    assert after(script, Stubborn(), A, schema, "evolve") == {A: [{"id": 1, **dict.fromkeys(schema.names[1:])}]}


@together("behavior", ["evolve", "try_evolve"])
@together(
    "script",
    [
        [CreateTable(A, BEFORE), *WITH_KEY],
        [*FIRST, DropTable(A), CreateTable(A, BEFORE), *WITH_KEY],
        [*FIRST, *WITH_KEY, TruncateTable(A)],
    ],
)
def test_a_table_that_the_batch_creates_or_empties_is_copied(script: list[Any], behavior: str) -> None:
    assert after(script, FirmKeys(), A, KEYED, behavior) == {A: [{"id": 1, "v": None}]}


def test_a_type_of_a_table_that_the_batch_creates() -> None:
    assert after([CreateTable(A, BEFORE), REFUSED], Stubborn(), A, AFTER, "evolve") == {A: [{"id": 1, "v": None}]}


@pytest.mark.parametrize("behavior", ["evolve", "try_evolve"])
def test_a_table_that_is_dropped_or_renamed_behind_it(behavior: str) -> None:
    assert after([*FIRST, *WITH_KEY, DropTable(A)], FirmKeys(), A, KEYED, behavior) == {}
    renamed = after([*FIRST, *WITH_KEY, RenameTable(A, B)], FirmKeys(), B, KEYED, behavior)
    assert renamed == {B: [{"id": 1, "v": None}]}


class FirmNames(FirmKeys):
    """Does not drop or rename a column of the key either."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        for change in changes:
            if isinstance(change, DropColumn | RenameColumn):
                raise ChangeRefused("not in place", where=str(change.table), resnapshot_helps=True)
        super().apply(batch, changes)


@pytest.mark.parametrize(
    ("change", "schema", "row"),
    [
        (DropColumn(A, "id"), TableSchema((Column("v", INT),)), {"v": 7}),
        (
            RenameColumn(A, "id", "key"),
            TableSchema((replace(ID, name="key"), Column("v", INT)), ("key",)),
            {"key": 7, "v": 7},
        ),
    ],
)
def test_a_column_of_the_key_that_the_sink_keeps_has_the_table_copied_whatever_the_behavior(
    change: SchemaChange, schema: TableSchema, row: dict[str, int]
) -> None:
    """Rows would not fit the sink's table: their key is another one."""
    now = block(A, schema, [("+I", row)], sequence=9)
    sink = FirmNames()
    later = block(A, schema, [("+I", row)], sequence=2)
    run_in_memory(LiveSource([*FIRST, change, later], {A: now}), sink, middle=how("try_evolve"))
    assert sink.rows(A) == [row]


@pytest.mark.parametrize(
    "come", [(DropTable(A), CreateTable(A, BEFORE)), (RenameTable(A, C), RenameTable(B, A), RenameTable(C, B))]
)
def test_a_requested_copy_is_also_of_a_table_that_comes_under_the_name_in_the_batch(
    tmp_path: Path, come: tuple[Any, ...]
) -> None:
    """The error names the table as it is called after its change."""
    now = {A: block(A, KEYED, [("+I", {"id": 1, "v": 5})], sequence=9), B: block(B, BEFORE, [], sequence=9)}
    sink, source = FirmKeys(), LiveSource([*FIRST, CreateTable(B, BEFORE)], now)
    source.snapshots = lambda table: Snapshots.ON_REQUEST  # type: ignore[method-assign]
    begun = run_in_memory(source, sink, middle=how(), state=tmp_path)
    source.add(*come, *WITH_KEY)
    again = {"middle": how(), "state": tmp_path, "start": begun.offset, "first_batch": begun.batches}
    with pytest.raises(ChangeRefused, match="a row has no such key"):
        run_in_memory(source, sink, **again)
    Mailbox(StateDir(tmp_path).store).add(A, RequestKind.SNAPSHOT)
    run_in_memory(source, sink, **again)
    assert sink.rows(A) == [{"id": 1, "v": 5}]
