"""A sink of Python lists: the simplest correct sink, used as the model for others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from cdc.block import ChangeBlock
from cdc.errors import ChangeRefused, SinkError
from cdc.evolution.apply import apply_change
from cdc.evolution.merge import find, merge_schemas, same_key
from cdc.schema import (
    AddColumn,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropShadow,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
    shadow_of,
)
from cdc.sink import Delivery, KeylessRows, Prepared, Sink, TaskAttempt
from cdc.testing.blocks import Row, images

_ALL: WeakValueDictionary[int, ListSink] = WeakValueDictionary()


class ListSink(Sink):
    """Stores tables as lists of rows. Lives in one process: unpickling returns the same object.

    Rows and changes have to fit the table's columns, as in a database.
    """

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.EQUAL
    shadows: ClassVar[bool] = True

    def __init__(self) -> None:
        _ALL[id(self)] = self
        self._rows: dict[TableId, list[Row]] = {}
        self._schemas: dict[TableId, TableSchema] = {}
        self._prepared: dict[str, list[tuple[str, Row]]] = {}
        self._applied: Sequence[SchemaChange] = ()
        self._fence = -1

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (id(self),)

    def rows(self, table: TableId) -> list[Row]:
        """Return the table's rows in insertion order. Raises KeyError when there is no such table."""
        return list(self._rows[table])

    def fill(self, table: TableId, schema: TableSchema, rows: list[Row]) -> None:
        """Create a table with rows, as if it had existed before any pipeline."""
        self._set_table(table, schema, list(rows))

    @property
    def tables(self) -> set[TableId]:
        """The tables that exist."""
        return set(self._rows)

    def holds_rows(self, table: TableId) -> bool:
        """Whether a table has rows."""
        return bool(self._rows.get(table))

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """Return those of the tables that do not exist."""
        return [table for table in tables if table not in self._rows]

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply the changes, unless they are the last applied ones and no batch was committed since."""
        if list(changes) == list(self._applied):
            return
        for change in changes:
            self._apply(change)
        self._applied = tuple(changes)

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Store the images of each table under a name."""
        prepared_rows: dict[TableId, list[tuple[str, Row]]] = {}
        for item in blocks:
            self._check(item.table, item.schema)
            prepared_rows.setdefault(item.table, []).extend(images([item]))
        return [self._keep(task, table, changes) for table, changes in prepared_rows.items()]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Apply every image in order; a batch up to the last one is already applied."""
        if batch <= self._fence:
            return
        for handle in prepared:
            for symbol, row in self._prepared.pop(handle.handle):
                self.change(handle.table, symbol, row)
        self._fence, self._applied = batch, ()

    def abort(self, batch: int, noted: Sequence[Any] = ()) -> None:
        """Drop what was prepared for the batch."""
        for name in [name for name in self._prepared if name.startswith(f"{batch}/")]:
            del self._prepared[name]

    def change(self, table: TableId, symbol: str, row: Row) -> None:
        """Apply an image: an insert of an existing key replaces the row; a delete of a missing row does nothing."""
        rows, own = self._rows[table], self._schemas[table].primary_key
        key = own or tuple(row)
        at = next((index for index, existing in enumerate(rows) if _same_key(existing, row, key)), None)
        if at is not None and (own or symbol in ("-U", "-D")):
            del rows[at]
        if symbol in ("+I", "+U"):
            rows.append(row)

    def _keep(self, task: TaskAttempt, table: TableId, changes: list[tuple[str, Row]]) -> Prepared:
        name = f"{task.batch}/{task.partition}/{task.attempt}/{table}"
        self._prepared[name] = changes
        symbols = [symbol for symbol, _ in changes]
        inserts, updates, deletes = (symbols.count(symbol) for symbol in ("+I", "+U", "-D"))
        return Prepared(table, task.partition, name, inserts, updates, deletes)

    def _check(self, table: TableId, rows: TableSchema) -> None:
        """Raise SinkError for rows that do not fit the table."""
        existing = self._schemas.get(table)
        if existing is None:
            raise SinkError("the table does not exist", where=str(table))
        if unknown := [name for name in rows.names if find(existing, name) is None]:
            raise SinkError(f"the table has no column {', '.join(unknown)}", where=str(table))
        if not same_key(existing, rows):
            raise SinkError(f"the table has the key {existing.primary_key}, rows {rows.primary_key}", where=str(table))

    def _apply(self, change: SchemaChange) -> None:
        rows, existing = self._rows.get(change.table), self._schemas.get(change.table)
        match change:
            case CreateTable(table=table, schema=schema) if existing and existing.primary_key != schema.primary_key:
                raise ChangeRefused(f"the table is there, with the key {existing.primary_key}", where=str(table))
            case CreateTable(table=table, schema=schema) if existing is None:
                self._set_table(table, schema, [])
            case DropShadow(table=table):
                self._drop(shadow_of(table))
            case _ if rows is None or existing is None:
                raise ChangeRefused("the table does not exist", where=str(change.table))
            case CreateTable(table=table, schema=schema):
                merged = merge_schemas(existing, schema)
                self._set_table(table, merged, [dict.fromkeys(merged.names) | row for row in rows])
            case CreateShadow(table=table, schema=schema):
                self._set_table(shadow_of(table), schema or existing, [])
            case SwapShadow(table=table):
                self._set_table(table, self._schemas.pop(shadow_of(table)), self._rows.pop(shadow_of(table)))
            case RenameTable(table=table, new_table=new_table):
                self._drop(shadow_of(table))
                self._drop(table)
                self._set_table(new_table, existing, rows)
            case DropTable(table=table):
                self._drop(shadow_of(table))
                self._drop(table)
            case TruncateTable(table=table):
                self._drop(shadow_of(table))
                rows.clear()
            case _ if not _shows(existing, change):
                after = apply_change(existing, change)
                assert after is not None, "only DropTable leads to no table"
                self._set_table(change.table, after, [_changed(row, change) for row in rows])

    def _set_table(self, table: TableId, schema: TableSchema, rows: list[Row]) -> None:
        self._schemas[table], self._rows[table] = schema, rows

    def _drop(self, table: TableId) -> None:
        self._schemas.pop(table, None)
        self._rows.pop(table, None)


def _shows(existing: TableSchema, change: SchemaChange) -> bool:
    """Whether the table's columns show that the change was applied, for a repeated batch with other changes."""
    match change:
        case AddColumn(column=column):
            return find(existing, column.name) is not None
        case DropColumn(name=name):
            return find(existing, name) is None
        case RenameColumn(old_name=old_name, new_name=new_name):
            return find(existing, old_name) is None and find(existing, new_name) is not None
        case _:
            return False


def _unpickled(number: int) -> ListSink:
    return _ALL[number]


def _same_key(existing: Row, row: Row, names: tuple[str, ...]) -> bool:
    return all(existing.get(name) == row.get(name) for name in names)


def _changed(row: Row, change: SchemaChange) -> Row:
    match change:
        case AddColumn(column=column):
            return {**row, column.name: _default(column.default)}
        case DropColumn(name=name):
            return {column: value for column, value in row.items() if column != name}
        case RenameColumn(old_name=old_name, new_name=new_name):
            return {new_name if column == old_name else column: value for column, value in row.items()}
        case RenameColumns(names=names):
            new_names = dict(names)
            return {new_names.get(column, column): value for column, value in row.items()}
        case _:
            return row


def _default(text: str | None) -> Any:
    return int(text) if text is not None and text.lstrip("-").isdigit() else text
