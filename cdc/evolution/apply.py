"""Applies schema changes to schemas. Pure; names are case-sensitive.

schema --change--> schema          one table: `apply_change`
{table: schema} --changes--> ...   all tables, renames included: `apply_changes`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cdc.errors import EngineError
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropShadow,
    DropTable,
    Position,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TableSchema,
    TruncateTable,
)


def apply_change(schema: TableSchema | None, change: SchemaChange) -> TableSchema | None:
    """Return the table's schema after the change; None means that there is no such table.

    A schema has no table name, so a renamed table keeps its schema. Creating an existing table gives it the new schema;
    dropping a missing table or a shadow table changes nothing. Raises EngineError when the change does not fit: the
    table or a column of it is missing, or the new column name exists.
    """
    match change:
        case CreateTable(schema=new):
            return new
        case DropTable():
            return None
        case DropShadow():
            return schema
        case _ if schema is None:
            raise _unfit(change.table, "the table is not known")
        case RenameTable() | TruncateTable() | CreateShadow():
            return schema
        case SwapShadow(schema=new):
            return schema if new is None else new
        case AlterTableComment(comment=comment):
            return replace(schema, comment=comment)
        case AlterPrimaryKey(primary_key=key):
            for name in key:
                _index(change.table, schema, name)
            return replace(schema, primary_key=key)
        case AddColumn(column=column, position=position):
            return _insert_column(change.table, schema, column, position)
        case AlterColumnType(column=column):
            return _with(schema, _index(change.table, schema, column.name), column)
        case RenameColumn():
            return _renamed(schema, change.table, ((change.old_name, change.new_name),))
        case RenameColumns():
            return _renamed(schema, change.table, change.names)
        case DropColumn(name=name):
            columns = list(schema.columns)
            del columns[_index(change.table, schema, name)]
            key = tuple(part for part in schema.primary_key if part != name)
            return replace(schema, columns=tuple(columns), primary_key=key)


def apply_changes(
    schemas: Mapping[TableId, TableSchema], changes: Iterable[SchemaChange]
) -> dict[TableId, TableSchema]:
    """Return all tables' schemas after the changes, in order; does not modify `schemas`.

    Raises EngineError as `apply_change` does, and when a table is renamed to an existing one.
    """
    after = dict(schemas)
    for change in changes:
        new = apply_change(after.pop(change.table, None), change)
        table = change.new_table if isinstance(change, RenameTable) else change.table
        if table in after:
            raise _unfit(change.table, f"cannot be renamed to {table}, which exists")
        if new is not None:
            after[table] = new
    return after


def _insert_column(table: TableId, schema: TableSchema, column: Column, position: Position) -> TableSchema:
    if column.name in schema.names:
        raise _unfit(table, f"column {column.name} cannot be added, it exists")
    if position.first:
        at = 0
    elif position.after is not None:
        at = _index(table, schema, position.after) + 1
    else:
        at = len(schema.columns)
    return replace(schema, columns=(*schema.columns[:at], column, *schema.columns[at:]))


def _renamed(schema: TableSchema, table: TableId, names: tuple[tuple[str, str], ...]) -> TableSchema:
    """Rename all columns at once."""
    for old_name, _ in names:
        _index(table, schema, old_name)
    new_names = dict(names)
    columns = tuple(replace(column, name=new_names.get(column.name, column.name)) for column in schema.columns)
    after = replace(schema, columns=columns, primary_key=tuple(new_names.get(p, p) for p in schema.primary_key))
    for old_name, new_name in names:
        if after.names.count(new_name) > 1:
            raise _unfit(table, f"column {old_name} cannot be renamed to {new_name}, which exists")
    return after


def _with(schema: TableSchema, at: int, column: Column) -> TableSchema:
    return replace(schema, columns=(*schema.columns[:at], column, *schema.columns[at + 1 :]))


def _index(table: TableId, schema: TableSchema, name: str) -> int:
    try:
        return schema.names.index(name)
    except ValueError:
        raise _unfit(table, f"there is no column {name}") from None


def _unfit(table: TableId, reason: str) -> EngineError:
    hint = "the schemas kept for this pipeline do not fit its log; restore the state directory, or start over"
    return EngineError(f"a schema change does not fit the table: {reason}", where=str(table), hint=hint)


def tables_after(tables: Iterable[TableId], changes: Iterable[SchemaChange]) -> set[TableId]:
    """Return the tables that exist after the changes, given those that exist before."""
    existing = set(tables)
    for change in changes:
        if isinstance(change, CreateTable):
            existing.add(change.table)
        elif isinstance(change, DropTable):
            existing.discard(change.table)
        elif isinstance(change, RenameTable):
            existing.discard(change.table)
            existing.add(change.new_table)
    return existing
