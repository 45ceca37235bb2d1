"""The messages of Flink CDC's Kafka sink, for readers that only understand those.

They have the members of Debezium's and Canal's messages, but other values: dates are text, decimals are numbers,
`source` has two members, and `old` is the whole row before. A change is one message even if it changes the key.
"""

from __future__ import annotations

from dataclasses import replace

from cdc.schema import Column, Kind, TableId, TableSchema
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.encoding.natural import fields_of, is_bits, prepared_of
from connectors.kafka.encoding.template import AFTER, BEFORE, KEY, FieldEncoding, Part, RowPart, Value, json_text

_INSTANT_ROOM = 40


def debezium(table: TableId, schema: TableSchema) -> MessageLayout:
    """The layout with `before`, `after`, `op` and `source`. Executor; once per table and schema."""
    fields = _fields(schema)
    op = Value(FieldEncoding("change", values.CHAR, quoted=True))
    source = json_text({"db": table.database, "table": table.table})
    value = (
        b'{"before":',
        RowPart(BEFORE, fields),
        b',"after":',
        RowPart(AFTER, fields),
        b',"op":',
        op,
        b',"source":',
        source,
    )
    return _layout(table, schema, (*value, b"}"))


def canal(table: TableId, schema: TableSchema) -> MessageLayout:
    """The layout with `old`, `data`, `type` and the table. Executor; once per table and schema."""
    fields = _fields(schema)
    return _layout(
        table, schema,
        (
            b'{"old":', RowPart(BEFORE, fields, messages.WHOLE), b',"data":[', RowPart(KEY, fields), b'],"type":',
            Value(FieldEncoding("type", values.TEXT, quoted=True, size=2)), b',"database":', json_text(table.database),
            b',"table":', json_text(table.table), b',"pkNames":', json_text(list(schema.primary_key)), b"}",
        ),
    )  # fmt: skip


def _layout(table: TableId, schema: TableSchema, value: tuple[Part, ...]) -> MessageLayout:
    by_name = {field.name: field for field in _fields(schema)}
    keys = tuple(by_name[name] for name in schema.primary_key)
    members: tuple[Part, ...] = (b",", RowPart(KEY, keys, messages.MEMBERS)) if keys else ()
    key = (b'{"TableId":', json_text(str(table)), *members, b"}")
    bits = {column.name for column in schema.columns if is_bits(column)}
    prepare = {name: found for name, found in prepared_of(schema).items() if name not in bits}
    return MessageLayout(value, key, prepare, tombstones=False, split_keys=False)


def _fields(schema: TableSchema) -> tuple[FieldEncoding, ...]:
    return tuple(_field(column, field) for column, field in zip(schema.columns, fields_of(schema), strict=True))


def _field(column: Column, field: FieldEncoding) -> FieldEncoding:
    kind = column.type.kind
    if is_bits(column):
        return replace(field, op=values.BACKWARDS, quoted=True)
    if kind is Kind.BOOLEAN:
        return replace(field, op=values.BOOL, size=8)
    if kind is Kind.JSON:
        return replace(field, op=values.TEXT, quoted=True)
    if kind is Kind.TIMESTAMP_LTZ:
        return replace(field, op=values.ZONED, size=_INSTANT_ROOM)
    if kind is Kind.DECIMAL and field.op == values.RAW:
        return replace(field, quoted=True)
    return field
