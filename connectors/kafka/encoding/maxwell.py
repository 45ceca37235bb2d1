"""Maxwell's messages: the row as an object, the values that an update changed in `old`, and the log position.

Maxwell's members about the transaction (`xid`, `xoffset`, `commit`) are omitted, as Maxwell itself does with
`output_commit_info=false`: a block does not tell which row is the last of its transaction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cdc.schema import Column, TableId, TableSchema
from connectors.kafka.encoding.canal import of_database
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.encoding.mysql_types import parts_of
from connectors.kafka.encoding.natural import fields_of, prepared_of
from connectors.kafka.encoding.table_changes import TableChange
from connectors.kafka.encoding.template import BEFORE, KEY, FieldEncoding, Part, RowPart, Shared, Value, json_text

_SECOND_MS = 1000
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TIMES = ("time", "datetime", "timestamp")
_BINARIES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")


def layout(table: TableId, schema: TableSchema) -> MessageLayout:
    """The layout of a table's messages. Executor; once per table and schema."""
    fields = fields_of(schema)
    by_name = {field.name: field for field in fields}
    keys = tuple(by_name[name] for name in schema.primary_key)
    where = b'"database":' + json_text(table.database) + b',"table":' + json_text(table.table)
    value: tuple[Part, ...] = (
        b"{", where, b',"type":', Value(FieldEncoding("maxwell_type", values.TEXT, quoted=True, size=2)),
        Shared((
            b',"ts":', Value(FieldEncoding("ts_ms", values.DIVIDED, _SECOND_MS)),
            b',"position":"', Value(FieldEncoding("file", values.TEXT)),
            b":", Value(FieldEncoding("begin", values.INT64)),
            b'","gtid":', Value(FieldEncoding("gtid", values.TEXT, quoted=True, size=2)),
            b',"server_id":', Value(FieldEncoding("server_id", values.INT64)),
        )),
        b',"primary_key_columns":', json_text(list(schema.primary_key)),
        b',"data":', RowPart(KEY, fields), RowPart(BEFORE, fields, messages.OLD), b"}",
    )  # fmt: skip
    named = tuple(replace(field, label=f"pk.{field.name}") for field in keys)
    key: tuple[Part, ...] = (b"{", where, b",", RowPart(KEY, named, messages.MEMBERS), b"}")
    return MessageLayout(value, key if keys else None, prepared_of(schema), tombstones=False)


def schema_message(change: TableChange) -> dict[str, Any] | None:
    """The message about one table of a statement, or about a database.

    None for changes that Maxwell does not report: truncated tables, and changes without a statement.
    """
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
