"""Statements of StarRocks as text, and the table that a source's schema becomes. Pure, nothing is executed here.

| the source's table | becomes |
|---|---|
| with a primary key | PRIMARY KEY table: key columns first and in key order, distributed by hash of the key |
| without | DUPLICATE KEY table: the first column that StarRocks can sort by comes first; distributed at random |

Only key columns are NOT NULL: the source has checked the others, a zero date of a NOT NULL column arrives as NULL, and
a delete has to carry no value columns then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cdc.errors import ChangeRefused
from cdc.schema import Column, TableId, TableSchema
from connectors.shared.sql.client import quoted, text_literal
from connectors.starrocks.catalog import ActualColumn, ActualTable, same
from connectors.starrocks.types import TypeRules, default_text

NOW = "CURRENT_TIMESTAMP"
_NOW = re.compile(r"(CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)(\(\d*\))?", re.IGNORECASE)
_RESERVED = ("__op", "__row")
_SORTABLE = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT", "DECIMAL", "DATE", "DATETIME", "CHAR", "VARCHAR",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableRules:
    """What the options say about new tables.

    Attributes:
        buckets: of the distribution; None lets the server choose.
        properties: of CREATE TABLE, such as ("replication_num", "1").
    """

    types: TypeRules = field(default_factory=TypeRules)
    buckets: int | None = None
    properties: tuple[tuple[str, str], ...] = ()


def wanted_column(column: Column, types: TypeRules, *, key: bool) -> ActualColumn:
    """The column as it is created."""
    sql_type = types.wanted(column.type, key=key)
    default = None if key else default_text(column, sql_type)
    if not key and default is None and column.default is not None and sql_type.name == "DATETIME":
        default = NOW if _NOW.fullmatch(column.default) else None
    model = "PRI" if key else ""
    return ActualColumn(column.name, sql_type, not key, model, default, column.comment)


def wanted_table(table: TableId, schema: TableSchema, types: TypeRules) -> ActualTable:
    """The table as it is created. Raises ChangeRefused for one that StarRocks cannot have."""
    key = schema.primary_key
    columns = {
        column.name.casefold(): wanted_column(column, types, key=any(same(column.name, part) for part in key))
        for column in schema.columns
    }
    for column in schema.columns:
        check_name(table, column.name)
    first = [columns.pop(part.casefold()) for part in key]
    return ordered(ActualTable(table, (*first, *columns.values()), key, schema.comment))


def ordered(table: ActualTable) -> ActualTable:
    """The table with its columns in an order that StarRocks takes: those that it is sorted by come first."""
    if table.key:
        first = [table.column(part) for part in table.key]
    else:
        first = [next((column for column in table.columns if column.type.name in _SORTABLE), None)]
    if None in first:
        reason = "StarRocks needs a column to sort a table without a key by, and this one has none of such a type"
        hint = "give the table a primary key, or leave it out with tables.exclude"
        raise ChangeRefused(reason, where=str(table.id), hint=hint)
    rest = (column for column in table.columns if column not in first)
    return replace(table, columns=(*(column for column in first if column), *rest))


def check_name(table: TableId, column: str) -> None:
    """Refuse the names that StarRocks keeps for itself. Raises ChangeRefused."""
    if column.casefold() in _RESERVED:
        reason = f"column {column}: the name is reserved by StarRocks"
        raise ChangeRefused(reason, where=str(table), hint="rename the column in the source, or leave the table out")


def name_of(table: TableId) -> str:
    """The table's quoted name."""
    return quoted(table.database, table.table)


def create_database(database: str) -> str:
    """CREATE DATABASE, when there is none."""
    return f"CREATE DATABASE IF NOT EXISTS {quoted(database)}"


def create_table(table: ActualTable, rules: TableRules) -> str:
    """CREATE TABLE, when there is none."""
    columns = ", ".join(column_text(column) for column in table.columns)
    if table.key:
        keys = ", ".join(quoted(part) for part in table.key)
        model, spread = f"PRIMARY KEY ({keys})", f"HASH ({keys})"
    else:
        model, spread = f"DUPLICATE KEY ({quoted(table.columns[0].name)})", "RANDOM"
    parts = [f"CREATE TABLE IF NOT EXISTS {name_of(table.id)} ({columns})", model]
    if table.comment:
        parts.append(f"COMMENT {text_literal(table.comment)}")
    parts.append(f"DISTRIBUTED BY {spread}")
    if rules.buckets is not None:
        parts.append(f"BUCKETS {rules.buckets}")
    if rules.properties:
        pairs = (f"{text_literal(name)} = {text_literal(value)}" for name, value in rules.properties)
        parts.append(f"PROPERTIES ({', '.join(pairs)})")
    return " ".join(parts)


def column_text(column: ActualColumn) -> str:
    """A column's definition, as CREATE TABLE, ADD COLUMN and MODIFY COLUMN take it."""
    parts = [quoted(column.name), str(column.type), "NULL" if column.nullable else "NOT NULL"]
    if column.default is not None:
        now = column.type.name == "DATETIME" and _NOW.fullmatch(column.default)
        parts.append(f"DEFAULT {NOW if now else text_literal(column.default)}")
    if column.comment:
        parts.append(f"COMMENT {text_literal(column.comment)}")
    return " ".join(parts)


def copy_rows(source: TableId, target: TableId, values: Iterable[tuple[str, str]]) -> str:
    """INSERT of all rows of one table into another; each value is a column of the target and an expression."""
    pairs = list(values)
    names = ", ".join(quoted(name) for name, _ in pairs)
    expressions = ", ".join(expression for _, expression in pairs)
    return f"INSERT INTO {name_of(target)} ({names}) SELECT {expressions} FROM {name_of(source)}"
