"""Statements as Maxwell has them: the definition of the table before and after, the text and its place in the log."""

from __future__ import annotations

from typing import Any

from cdc.schema import Column, TableId, TableSchema
from connectors.kafka.encoding.canal_statements import of_database
from connectors.kafka.encoding.mysql_types import parts_of
from connectors.kafka.encoding.table_changes import TableChange

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TIMES = ("time", "datetime", "timestamp")
_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")


def message(change: TableChange) -> dict[str, Any] | None:
    """One for each table of a statement, one for a database; None for what Maxwell does not tell: a table that is
    emptied, and what no statement did."""
    statement = change.statement
    if statement is None or change.emptied or (of_database(change) and not change.first):
        return None
    database, table = change.table.database, change.table.table
    if of_database(change):
        message: dict[str, Any] = {"type": "database-drop", "database": database}
    elif change.after is None:
        message = {"type": "table-drop", "database": database, "table": table}
    elif change.before is None:
        message = {"type": "table-create", "database": database, "table": table}
        message["def"] = _definition(change.table, change.after)
    else:
        message = {"type": "table-alter", "database": change.old_table.database, "table": change.old_table.table}
        message |= {"old": _definition(change.old_table, change.before), "def": _definition(change.table, change.after)}
    position = f"{statement.file}:{statement.begin}"
    return {**message, "ts": statement.ts_ms, "sql": statement.sql, "position": position}


def _definition(table: TableId, schema: TableSchema) -> dict[str, Any]:
    columns = [_column(column) for column in schema.columns]
    key = list(schema.primary_key)
    return {"database": table.database, "charset": None, "table": table.table, "columns": columns, "primary-key": key}


def _column(column: Column) -> dict[str, Any]:
    found = parts_of(column)
    definition: dict[str, Any] = {"type": found.name, "name": column.name}
    if found.name in _INTEGERS:
        definition["signed"] = not found.unsigned
    elif found.name in _TIMES:
        definition["column-length"] = found.numbers[0] if found.numbers else 0
    elif found.labels:
        definition["enum-values"] = list(found.labels)
    elif found.name in _BINARIES:
        definition["charset"] = "binary"
    elif found.name in _TEXTS:
        definition["charset"] = column.charset or None
    return definition
