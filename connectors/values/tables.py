"""Table schemas after a run of schema changes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CopyTable,
    CreateTable,
    DropColumn,
    DropTable,
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableCopied,
    TableId,
    TableSchema,
    TruncateTable,
)

Tables = Mapping[TableId, TableSchema]


def changed(tables: Tables, change: SchemaChange) -> Tables:
    """The tables after the change. Raises ValueError when it does not fit them."""
    rest = {table: schema for table, schema in tables.items() if table != change.table}
    if isinstance(change, CreateTable):
        return {**rest, change.table: change.schema}
    if change.table not in tables:
        raise ValueError(f"there is no table {change.table} at this point; create it first")
    schema = tables[change.table]
    match change:
        case DropTable():
            return rest
        case RenameTable(new_table=new_table):
            return {**rest, new_table: schema}
        case TruncateTable() | TableCopied():
            return tables
        case CopyTable(schema=new):
            return tables if new is None else {**rest, change.table: new}
        case AlterTableComment(comment=comment):
            return {**rest, change.table: replace(schema, comment=comment)}
        case AlterPrimaryKey(primary_key=key):
            for name in key:
                _place(schema, name)
            return {**rest, change.table: replace(schema, primary_key=key)}
        case _:
            return {**rest, change.table: _with_columns(schema, change)}


def _with_columns(schema: TableSchema, change: AddColumn | AlterColumnType | RenameColumn | DropColumn) -> TableSchema:
    columns = list(schema.columns)
    match change:
        case AddColumn(column=column, position=position):
            if column.name in schema.names:
                raise ValueError(f"column {column.name} exists")
            columns.insert(_new_place(schema, position), column)
        case AlterColumnType(column=column):
            columns[_place(schema, column.name)] = column
        case DropColumn(name=name):
            del columns[_place(schema, name)]
        case RenameColumn(old_name=old_name, new_name=new_name):
            return _renamed(schema, columns, old_name, new_name)
    key = tuple(name for name in schema.primary_key if any(column.name == name for column in columns))
    return replace(schema, columns=tuple(columns), primary_key=key)


def _renamed(schema: TableSchema, columns: list[Column], old_name: str, new_name: str) -> TableSchema:
    place = _place(schema, old_name)
    columns[place] = replace(columns[place], name=new_name)
    key = tuple(new_name if name == old_name else name for name in schema.primary_key)
    return replace(schema, columns=tuple(columns), primary_key=key)


def _new_place(schema: TableSchema, position: Position) -> int:
    if position.first:
        return 0
    return len(schema.columns) if position.after is None else _place(schema, position.after) + 1


def _place(schema: TableSchema, name: str) -> int:
    if name not in schema.names:
        raise ValueError(f"there is no column {name}; there are {', '.join(schema.names)}")
    return schema.names.index(name)
