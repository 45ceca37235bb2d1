"""Definitions for tests: short ways to write them, random ones, and schema changes carried out on plain schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st

from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameColumns,
    RenameTable,
    SchemaChange,
    TableId,
    TableSchema,
    TruncateTable,
)
from connectors.mysql.ddl.catalog import TableDefinitions
from connectors.mysql.table import MySqlColumn, MySqlTable

SCHEMAS = dict[TableId, TableSchema]


def apply_changes(schemas: SCHEMAS, changes: Iterable[SchemaChange]) -> SCHEMAS:
    """What a strict sink does: every name must be there, or be free, exactly when it is needed."""
    schemas = dict(schemas)
    for change in changes:
        if isinstance(change, CreateTable):
            assert change.table not in schemas, f"{change.table} is there already"
            schemas[change.table] = change.schema
        elif isinstance(change, DropTable):
            del schemas[change.table]
        elif isinstance(change, RenameTable):
            assert change.new_table not in schemas, f"{change.new_table} is there already"
            schemas[change.new_table] = schemas.pop(change.table)
        elif isinstance(change, TruncateTable):
            assert change.table in schemas
        else:
            schemas[change.table] = _changed(schemas[change.table], change)
    return schemas


def _changed(schema: TableSchema, change: SchemaChange) -> TableSchema:
    columns = list(schema.columns)
    key = schema.primary_key
    if isinstance(change, AddColumn):
        assert change.column.name not in schema.names
        at = len(columns)
        if change.position.first:
            at = 0
        elif change.position.after is not None:
            at = schema.names.index(change.position.after) + 1
        columns.insert(at, change.column)
    elif isinstance(change, AlterColumnType):
        at = schema.names.index(change.column.name)
        assert change.old == columns[at]
        columns[at] = change.column
    elif isinstance(change, RenameColumn):
        assert change.new_name not in schema.names
        at = schema.names.index(change.old_name)
        columns[at] = replace(columns[at], name=change.new_name)
        key = tuple(change.new_name if name == change.old_name else name for name in key)
    elif isinstance(change, RenameColumns):
        new_names = dict(change.names)
        assert new_names.keys() <= set(schema.names)
        columns = [replace(column, name=new_names.get(column.name, column.name)) for column in columns]
        assert len({column.name for column in columns}) == len(columns)
        key = tuple(new_names.get(name, name) for name in key)
    elif isinstance(change, DropColumn):
        columns.remove(schema.column(change.name))
        key = tuple(name for name in key if name != change.name)
        assert columns, "a table without columns"
    elif isinstance(change, AlterPrimaryKey):
        assert set(change.primary_key) <= set(schema.names)
        key = change.primary_key
    elif isinstance(change, AlterTableComment):
        return replace(schema, comment=change.comment)
    return replace(schema, columns=tuple(columns), primary_key=key)


def catalog(*statements: str, wanted: str = "", **options: object) -> TableDefinitions:
    """A catalog that has seen these statements; `wanted` names the captured tables of `shop`, empty means all."""
    names = {TableId("shop", name) for name in wanted.split()}
    result = TableDefinitions(captures=lambda table: not names or table in names, **options)  # type: ignore[arg-type]
    result.define((), databases={"shop": "utf8mb4"})
    for statement in statements:
        result.apply(statement, "shop")
    return result


_TYPES = st.one_of(
    st.sampled_from(
        [
            ("int", None), ("int", 1), ("bigint", None), ("tinyint", 1), ("text", None), ("json", None),
            ("date", None), ("blob", None), ("double", None), ("point", None),
        ]
    ),
    st.tuples(st.sampled_from(["varchar", "char", "varbinary", "datetime", "bit", "decimal"]), st.integers(1, 6)),
)  # fmt: skip


@st.composite
def columns(draw: st.DrawFn, name: str) -> MySqlColumn:
    kind, length = draw(_TYPES)
    text = kind in ("varchar", "char", "text")
    return MySqlColumn(
        name,
        kind,
        length,
        unsigned=kind in ("int", "bigint") and draw(st.booleans()),
        charset=draw(st.sampled_from(["utf8mb4", "latin1"])) if text else None,
        nullable=draw(st.booleans()),
        default=draw(st.sampled_from([None, "1"])),
        comment=draw(st.sampled_from(["", "c"])),
    )


@st.composite
def tables(draw: st.DrawFn, table: TableId) -> MySqlTable:
    """A table with some of six column names, in any order, and a key of some of them."""
    names = draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True))
    key = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    found = [draw(columns(name)) for name in names]
    fixed = tuple(replace(column, nullable=False) if column.name in key else column for column in found)
    return MySqlTable(table, fixed, tuple(key), "utf8mb4", draw(st.sampled_from(["", "t", "u"])))
