"""A sink that stores the lines that the values sink would write, and the schemas of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from cdc.block import ChangeBlock, RowKind
from cdc.errors import ChangeRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.merge import find
from cdc.lines.format import block_lines, change_line
from cdc.schema import CreateTable, SchemaChange, TableId, TableSchema
from cdc.sink import Delivery, KeylessRows, Prepared, Sink, TaskAttempt
from cdc.sink_columns import Coercion
from cdc.types.common import common_type

_COERCION = Coercion()


class LineSink(Sink):
    """Sink and state live in one process. `tables` are tables that already exist.

    Attributes:
        lines: lines written so far: schema changes and row images of committed batches, in order, without line ends.
        tables: the current schemas of all tables.
    """

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.CHANGES

    def __init__(self, tables: Mapping[TableId, TableSchema] | None = None) -> None:
        self.lines: list[str] = []
        self.tables: dict[TableId, TableSchema] = dict(tables or {})
        self._before = frozenset(self.tables)
        self._prepared: dict[str, list[str]] = {}

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Write a line for each change, or nothing: raises ChangeRefused when one does not fit the tables."""
        tables = self.tables
        for change in changes:
            tables = _after(tables, change)
        self.tables = tables
        self.lines += [change_line(change).rstrip("\n") for change in changes]

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Store the lines of the task under a name; returns one handle, as rows of several tables stay in order."""
        name, lines, kinds = f"{task.batch}/{task.partition}/{task.attempt}", list[str](), list[int]()
        table = None
        for found in blocks:
            block = self._coerced(found)
            table = block.table
            lines += [line.rstrip("\n") for line in block_lines(block)]
            kinds += block.kinds.to_pylist()
        if table is None:
            return []
        self._prepared[name] = lines
        inserts, updates, deletes = map(kinds.count, (RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE))
        return [Prepared(table, task.partition, name, inserts, updates, deletes)]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Add the lines, unless they were already added."""
        for handle in prepared:
            self.lines += self._prepared.pop(handle.handle, [])

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Drop what was prepared for the batch."""
        for name in [name for name in list(self._prepared) if name.startswith(f"{batch}/")]:
            del self._prepared[name]

    def describe(self, table: TableId) -> TableSchema | None:
        """Return the table's current schema."""
        return self.tables.get(table)

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """Return nothing: there are no statements."""
        return ()

    def _coerced(self, block: ChangeBlock) -> ChangeBlock:
        """Convert the values of a block to the types of a table that existed before."""
        schema = self.tables.get(block.table)
        if block.table not in self._before or schema is None:
            return block
        columns = tuple(find(schema, column.name) or column for column in block.schema.columns)
        return _COERCION(block, replace(block.schema, columns=columns), lambda reason, number: None)


def _after(tables: Mapping[TableId, TableSchema], change: SchemaChange) -> dict[TableId, TableSchema]:
    schema = tables.get(change.table)
    if isinstance(change, CreateTable) and schema is not None:
        return {**tables, change.table: _reconciled(change, schema)}
    try:
        return apply_changes(tables, [change])
    except EngineError as error:
        raise ChangeRefused(error.message, where=error.where, hint="the table differs from the log") from error


def _reconciled(change: CreateTable, existing: TableSchema) -> TableSchema:
    """Add missing columns to an existing table, as in every SQL sink; its own columns stay."""
    if existing.primary_key != change.schema.primary_key:
        reason = f"exists with the key ({', '.join(existing.primary_key)}), it should be "
        hint = "drop the table, or route to another"
        raise ChangeRefused(f"{reason}({', '.join(change.schema.primary_key)})", where=str(change.table), hint=hint)
    for column in change.schema.columns:
        found = find(existing, column.name)
        if found is not None and common_type(found.type, column.type) != found.type:
            reason = f"column {found.name} is {found.type} there, which cannot hold {column.type}"
            raise ChangeRefused(reason, where=str(change.table), hint="widen it, or route to another table")
    missing = tuple(column for column in change.schema.columns if find(existing, column.name) is None)
    return replace(existing, columns=(*existing.columns, *missing))
