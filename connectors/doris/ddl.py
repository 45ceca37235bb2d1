"""DDL text: whole statements from plain values. Pure, nothing is executed here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from cdc.schema import TableId
from connectors.doris.catalog import UNIQUE, ActualColumn, ActualTable
from connectors.shared.sql.client import quoted, text_literal

_REBUILD = "cdc_rebuild_"
OWN_PROPERTIES = {
    UNIQUE: {"enable_unique_key_merge_on_write": "true", "light_schema_change": "true"},
    # Without a key of its own a DUPLICATE table would be sorted by its first columns, and those could not be dropped.
    "DUPLICATE": {"enable_duplicate_without_keys_by_default": "true", "light_schema_change": "true"},
}


def full_name(table: TableId) -> str:
    """`db`.`table`."""
    return quoted(table.database, table.table)


def rebuild_id(table: TableId) -> TableId:
    """The table that a copy is made in: a name of its own for each table, always the same."""
    digest = hashlib.sha256(str(table).encode()).hexdigest()[:12]
    return TableId(table.database, _REBUILD + digest)


def create_database(database: str) -> str:
    """CREATE DATABASE."""
    return f"CREATE DATABASE IF NOT EXISTS {quoted(database)}"


def create_table(table: ActualTable, properties: Mapping[str, str]) -> str:
    """CREATE TABLE: UNIQUE KEY, merge on write, when the table has a key, else DUPLICATE in no order.

    `properties` are the options' and win over ours.
    """
    columns = ", ".join(column_definition(column) for column in table.columns)
    parts = [f"CREATE TABLE {full_name(table.id)} ({columns})"]
    if table.unique_key:
        key = ", ".join(quoted(name) for name in table.unique_key)
        parts.append(f"UNIQUE KEY({key})")
    if table.comment:
        parts.append(f"COMMENT {text_literal(table.comment)}")
    if table.unique_key:
        parts.append(f"DISTRIBUTED BY HASH({key}) BUCKETS AUTO")
    else:
        parts.append("DISTRIBUTED BY RANDOM BUCKETS AUTO")
    chosen = {**OWN_PROPERTIES[table.model], **properties}
    listed = ", ".join(f"{text_literal(name)} = {text_literal(value)}" for name, value in chosen.items())
    parts.append(f"PROPERTIES ({listed})")
    return " ".join(parts)


def column_definition(column: ActualColumn, *, key: bool = False) -> str:
    """A column as CREATE, ADD and MODIFY write it; with `key`, the word KEY that MODIFY of a key column needs."""
    text = f"{quoted(column.name)} {column.type}"
    if key:
        text += " KEY"
    text += " NULL" if column.nullable else " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {default_literal(column)}"
    if column.comment:
        text += f" COMMENT {text_literal(column.comment)}"
    return text


def default_literal(column: ActualColumn) -> str:
    """The default as the server takes it back: the words of the current time are no text."""
    text = column.default or ""
    return text if text.upper().startswith("CURRENT_TIMESTAMP") else text_literal(text)


def add_column(table: ActualTable, column: ActualColumn, after: str | None) -> str:
    """ADD COLUMN behind another one, or last."""
    place = f" AFTER {quoted(after)}" if after is not None else ""
    return f"ALTER TABLE {full_name(table.id)} ADD COLUMN {column_definition(column)}{place}"


def modify_column(table: ActualTable, column: ActualColumn) -> str:
    """MODIFY COLUMN with the whole definition: default, nullability and KEY have to be repeated as they are."""
    definition = column_definition(column, key=table.in_key(column.name))
    return f"ALTER TABLE {full_name(table.id)} MODIFY COLUMN {definition}"


def comment_column(table: ActualTable, column: str, comment: str) -> str:
    """MODIFY COLUMN of the comment alone, which rewrites nothing."""
    return f"ALTER TABLE {full_name(table.id)} MODIFY COLUMN {quoted(column)} COMMENT {text_literal(comment)}"


def rebuild(old: ActualTable, new: ActualTable, values: Sequence[str], properties: Mapping[str, str]) -> list[str]:
    """Statements that copy the rows of `old` into a table like `new` and put it in `old`'s place, in one step.

    `values` are expressions over `old`, one for each column of `new`. May be repeated from the start at any point.
    """
    place = rebuild_id(old.id)
    copy = ActualTable(place, new.columns, new.model, new.key, new.comment)
    columns = ", ".join(quoted(column.name) for column in new.columns)
    return [
        f"DROP TABLE IF EXISTS {full_name(place)} FORCE",
        create_table(copy, properties),
        f"INSERT INTO {full_name(place)} ({columns}) SELECT {', '.join(values)} FROM {full_name(old.id)}",
        f"ALTER TABLE {full_name(old.id)} REPLACE WITH TABLE {quoted(place.table)} PROPERTIES ('swap' = 'false')",
    ]
