"""Canal's flat messages: values as text, the changed columns in `old`, types by name and by JDBC number.

A message has one row, so that the message can have the row's key (Canal itself puts all rows of an event into one). An
update that changes the key becomes a delete and an insert, as in the other formats.
"""

from __future__ import annotations

import re
from typing import Any

from cdc.schema import Column, Kind, TableId, TableSchema
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.layout import MessageLayout, Prepare
from connectors.kafka.encoding.mysql_types import mysql_type, parts_of
from connectors.kafka.encoding.natural import is_bits, texts_of
from connectors.kafka.encoding.table_changes import TableChange
from connectors.kafka.encoding.template import BEFORE, KEY, FieldEncoding, Part, RowPart, Shared, Value, json_text

_OPS: dict[Kind, tuple[int, int]] = {
    Kind.BOOLEAN: (values.BIT_DIGIT, 4), Kind.TINYINT: (values.INT8, 8), Kind.SMALLINT: (values.INT16, 8),
    Kind.INT: (values.INT32, 16), Kind.BIGINT: (values.INT64, 24), Kind.TINYINT_UNSIGNED: (values.UINT8, 8),
    Kind.SMALLINT_UNSIGNED: (values.UINT16, 8), Kind.INT_UNSIGNED: (values.UINT32, 16),
    Kind.BIGINT_UNSIGNED: (values.UINT64, 24), Kind.FLOAT: (values.FLOAT32, 32), Kind.DOUBLE: (values.FLOAT64, 32),
    Kind.CHAR: (values.TEXT, 2), Kind.VARCHAR: (values.TEXT, 2), Kind.STRING: (values.TEXT, 2),
    Kind.JSON: (values.TEXT, 2), Kind.BINARY: (values.LATIN1, 2), Kind.VARBINARY: (values.LATIN1, 2),
    Kind.BYTES: (values.LATIN1, 2), Kind.DATE: (values.DATE, 16), Kind.TIME: (values.SPAN, 32),
    Kind.TIMESTAMP: (values.MOMENT, 32), Kind.TIMESTAMP_LTZ: (values.MOMENT, 32), Kind.GEOMETRY: (values.LATIN1, 2),
    Kind.VECTOR: (values.FLOATS, 8),
}  # fmt: skip
_JDBC: dict[Kind, int] = {
    Kind.BOOLEAN: -7, Kind.TINYINT: -6, Kind.TINYINT_UNSIGNED: -6, Kind.SMALLINT: 5, Kind.SMALLINT_UNSIGNED: 5,
    Kind.INT: 4, Kind.INT_UNSIGNED: 4, Kind.BIGINT: -5, Kind.BIGINT_UNSIGNED: -5, Kind.DECIMAL: 3, Kind.FLOAT: 7,
    Kind.DOUBLE: 8, Kind.CHAR: 1, Kind.VARCHAR: 12, Kind.STRING: 2005, Kind.JSON: 2005, Kind.BINARY: 2004,
    Kind.VARBINARY: 2004, Kind.BYTES: 2004, Kind.DATE: 91, Kind.TIME: 92, Kind.TIMESTAMP: 93, Kind.TIMESTAMP_LTZ: 93,
    Kind.GEOMETRY: 2004, Kind.VECTOR: 2004,
}  # fmt: skip
_NAMED_JDBC = {"enum": 4, "set": -7, "bit": -7, "year": 12}
_MOST_DIGITS = 38  # of Arrow's decimals; longer ones are text
_KINDS = {"CREATE": "CREATE", "ALTER": "ALTER", "RENAME": "RENAME", "DROP": "ERASE", "TRUNCATE": "TRUNCATE"}
_OF_DATABASE = re.compile(r"\s*drop\s+(database|schema)\b", re.IGNORECASE)


def layout(table: TableId, schema: TableSchema) -> MessageLayout:
    """The layout of a table's messages. Executor; once per table and schema."""
    fields = tuple(_field(column) for column in schema.columns)
    prepare = {column.name: found for column in schema.columns if (found := _prepared(column)) is not None}
    types = {column.name: mysql_type(column) for column in schema.columns}
    numbers = {column.name: _jdbc(column) for column in schema.columns}
    value: tuple[Part, ...] = (
        b'{"data":[', RowPart(KEY, fields), b'],"database":', json_text(table.database),
        Shared((
            b',"es":', Value(FieldEncoding("ts_ms", values.INT64)),
            b',"gtid":"","id":', Value(FieldEncoding("pos", values.INT64)),
        )),
        b',"isDdl":false,"mysqlType":', json_text(types), b',"old":', RowPart(BEFORE, fields, messages.CHANGED),
        b',"pkNames":', json_text(list(schema.primary_key) or None), b',"sql":"","sqlType":', json_text(numbers),
        b',"table":', json_text(table.table), b',"ts":', Value(FieldEncoding("now_ms", values.INT64)), b',"type":',
        Value(FieldEncoding("type", values.TEXT, quoted=True, size=2)), b"}",
    )  # fmt: skip
    names = schema.primary_key
    key: tuple[Part, ...] = (RowPart(KEY, tuple(field for name in names for field in fields if field.name == name)),)
    return MessageLayout(value, key if names else None, prepare, tombstones=False)


def _field(column: Column) -> FieldEncoding:
    kind, name = column.type.kind, column.name
    if parts_of(column).labels or is_bits(column):
        return FieldEncoding(name, values.RAW, quoted=True, size=2)
    if kind is Kind.DECIMAL:
        wide = (column.type.length or 10) > _MOST_DIGITS
        return FieldEncoding(
            name, values.RAW if wide else values.DECIMAL, column.type.scale or 0, quoted=True, size=104
        )
    op, size = _OPS[kind]
    digits = column.type.length or 0 if kind in (Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) else 0
    return FieldEncoding(name, op, digits, quoted=True, size=size)


def _jdbc(column: Column) -> int:
    name = re.match(r"[a-z]*", column.source_type.lower())
    return _NAMED_JDBC.get(name[0] if name else "", _JDBC[column.type.kind])


def _prepared(column: Column) -> Prepare | None:
    """The conversion of values that Canal writes as numbers: indexes of ENUM, bit masks of SET, BIT."""
    found = parts_of(column)
    labels = found.labels
    if found.name == "enum":
        return lambda array: texts_of(array, lambda text: str(labels.index(text) + 1 if text in labels else 0))
    if found.name == "set":
        return lambda array: texts_of(
            array, lambda text: str(sum(1 << labels.index(each) for each in text.split(",") if each in labels))
        )
    if is_bits(column):
        return lambda array: texts_of(array, lambda data: str(int.from_bytes(data, "big")))
    return None


def of_database(change: TableChange) -> bool:
    """Whether the change's statement drops a whole database."""
    return change.statement is not None and _OF_DATABASE.match(change.statement.sql) is not None


def schema_message(change: TableChange, now_ms: int, *, one_topic: bool) -> dict[str, Any] | None:
    """The message about a change; None for a change without a statement, since Canal only reports statements.

    There is one message per table of a statement; but only one for a dropped database, and one for a RENAME of several
    tables if all messages go to one topic.
    """
    statement = change.statement
    as_one = of_database(change) or (one_topic and change.kind == "RENAME")
    if statement is None or (as_one and not change.first):
        return None
    kind, table = _KINDS[change.kind], change.table.table
    if of_database(change):
        kind, table = "QUERY", ""
    return {
        "data": None, "database": change.table.database, "es": statement.ts_ms, "gtid": "", "id": statement.end,
        "isDdl": True, "mysqlType": None, "old": None, "pkNames": None, "sql": statement.sql, "sqlType": None,
        "table": table, "ts": now_ms, "type": kind,
    }  # fmt: skip
