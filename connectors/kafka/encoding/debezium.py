"""Debezium's messages: before, after, source, op and times, with or without their Connect schema."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from cdc.schema import Column, Kind, TableId, TableSchema
from cdc.types.kinds import EXACT, INTEGERS, TEXTS
from connectors.kafka.encoding.connect import EncodedColumn, Schema, encoded, encoded_with_schema
from connectors.kafka.encoding.kernels import values
from connectors.kafka.encoding.layout import MessageLayout, Naming
from connectors.kafka.encoding.template import (
    AFTER,
    BEFORE,
    KEY,
    FieldEncoding,
    Part,
    RowPart,
    Shared,
    Value,
    json_text,
)
from connectors.kafka.modes import EncodingModes

SOURCE: tuple[tuple[str, Schema], ...] = (  # the fields of `source` in Debezium's order
    ("version", {"type": "string", "optional": False}),
    ("connector", {"type": "string", "optional": False}),
    ("name", {"type": "string", "optional": False}),
    ("ts_ms", {"type": "int64", "optional": False}),
    (
        "snapshot",
        {
            "type": "string", "optional": True, "name": "io.debezium.data.Enum", "version": 1,
            "parameters": {
                "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
            },
            "default": "false",
        },
    ),
    ("db", {"type": "string", "optional": False}),
    ("sequence", {"type": "string", "optional": True}),
    ("ts_us", {"type": "int64", "optional": True}),
    ("ts_ns", {"type": "int64", "optional": True}),
    ("table", {"type": "string", "optional": True}),
    ("server_id", {"type": "int64", "optional": False}),
    ("gtid", {"type": "string", "optional": True}),
    ("file", {"type": "string", "optional": False}),
    ("pos", {"type": "int64", "optional": False}),
    ("row", {"type": "int32", "optional": False}),
    ("thread", {"type": "int64", "optional": True}),
    ("query", {"type": "string", "optional": True}),
)  # fmt: skip
_TRANSACTION: Schema = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ],
    "optional": True, "name": "event.block", "version": 1, "field": "transaction",
}  # fmt: skip
_TIMES: tuple[Schema, ...] = tuple(
    {"type": "int64", "optional": True, "field": f"ts_{unit}"} for unit in ("ms", "us", "ns")
)
_NUMBERS = ("ts_ms", "ts_us", "ts_ns", "server_id")
_MILLI_DIGITS = 3
_CLOCK = r"(?P<h>\d+):(?P<m>\d+)(?::(?P<s>\d+)(?:\.(?P<f>\d+))?)?"
_SPAN = re.compile(rf"(?P<sign>-)?{_CLOCK}")
_MOMENT = re.compile(rf"(?P<year>\d+)-(?P<month>\d+)-(?P<day>\d+)(?:[ T]{_CLOCK})?")


def layout(
    table: TableId, schema: TableSchema, naming: Naming, modes: EncodingModes, *, with_schema: bool
) -> MessageLayout:
    """The layout of a table's messages. Executor; once per table and schema."""
    encode = encoded_with_schema if with_schema else encoded
    columns = [(column, encode(column, modes)) for column in schema.columns]
    fields = {column.name: found.field for column, found in columns}
    prepare = {column.name: found.prepare for column, found in columns if found.prepare is not None}
    value = _envelope(table, naming, tuple(fields.values()))
    key: tuple[Part, ...] = (RowPart(KEY, tuple(fields[name] for name in schema.primary_key)),)
    key_part = key if schema.primary_key else None
    if with_schema:
        full = f"{naming.name}.{table}"
        value = (*_with(envelope_schema(full, column_schemas(schema, modes))), *value, b"}")
        by_name = {column.name: (column, found) for column, found in columns}
        key = (*_with(key_schema(full, [by_name[name] for name in schema.primary_key])), *key, b"}")
    return MessageLayout(value, key if schema.primary_key else None, prepare, moved=key_part)


def _envelope(table: TableId, naming: Naming, fields: tuple[FieldEncoding, ...]) -> tuple[Part, ...]:
    return (
        b'{"before":', RowPart(BEFORE, fields), b',"after":', RowPart(AFTER, fields), b',"source":{',
        *_source(table, naming), b'},"transaction":null,"op":', Value(FieldEncoding("op", values.CHAR, quoted=True)),
        *_now_field("ms"), *_now_field("us"), *_now_field("ns"), b"}",
    )  # fmt: skip


def _now_field(unit: str) -> tuple[Part, ...]:
    return f',"ts_{unit}":'.encode(), Value(FieldEncoding(f"now_{unit}", values.INT64))


def fixed(table: TableId, naming: Naming) -> dict[str, Any]:
    """The fields of `source` that are the same in all messages of a table."""
    return {
        "version": naming.version, "connector": "mysql", "name": naming.name, "db": table.database, "sequence": None,
        "table": table.table, "query": None,
    }  # fmt: skip


def _source(table: TableId, naming: Naming) -> list[Part]:
    """The fields of `source` in Debezium's order; those before `row` are the same for all messages of an event."""
    known = fixed(table, naming)
    parts: list[bytes | Value] = []
    for name, _ in SOURCE:
        parts.append(f'{"," if parts else ""}"{name}":'.encode())
        if name in known:
            parts.append(json_text(known[name]))
        elif name == "row":
            row = len(parts)
            parts.append(Value(FieldEncoding(name, values.INT32)))
        elif name == "pos":
            parts.append(Value(FieldEncoding("begin", values.INT64)))
        elif name in (*_NUMBERS, "thread"):
            parts.append(Value(FieldEncoding(name, values.INT64)))
        else:
            parts.append(Value(FieldEncoding(name, values.TEXT, quoted=True, size=2)))
    return [Shared(tuple(parts[:row])), *parts[row:]]


def _with(schema: Schema) -> tuple[Part, ...]:
    return b'{"schema":', json_text(schema), b',"payload":'


def source_schema() -> Schema:
    """The Connect schema of `source`, as a field of other schemas."""
    return {
        "type": "struct", "fields": [{**kind, "field": name} for name, kind in SOURCE], "optional": False,
        "name": "io.debezium.connector.mysql.Source", "version": 1, "field": "source",
    }  # fmt: skip


def column_schemas(schema: TableSchema, modes: EncodingModes) -> list[Schema]:
    """The Connect schemas of a table's columns, as fields of its rows."""
    return [_field(column, encoded(column, modes), modes) for column in schema.columns]


def envelope_schema(full: str, fields: list[Schema]) -> Schema:
    """The Connect schema of a table's messages. `full` is its name after the server's, `fields` are its columns'."""
    images = [
        {"type": "struct", "fields": fields, "optional": True, "name": f"{full}.Value", "field": image}
        for image in ("before", "after")
    ]
    op = {"type": "string", "optional": False, "field": "op"}
    parts = [*images, source_schema(), _TRANSACTION, op, *_TIMES]
    return {"type": "struct", "fields": parts, "optional": False, "name": f"{full}.Envelope", "version": 2}


def key_schema(full: str, columns: list[tuple[Column, EncodedColumn]]) -> Schema:
    """The Connect schema of a table's keys."""
    fields = [{**found.schema, "optional": False, "field": column.name} for column, found in columns]
    return {"type": "struct", "fields": fields, "optional": False, "name": f"{full}.Key"}


def _field(column: Column, found: EncodedColumn, modes: EncodingModes) -> Schema:
    schema: Schema = {**found.schema, "optional": found.schema.get("optional", column.nullable)}
    if column.comment:
        schema["doc"] = column.comment
    default = default_of(column, modes)
    if default is not None:
        schema["default"] = default
    return {**schema, "field": column.name}


def default_of(column: Column, modes: EncodingModes) -> Any:
    """The value of a column's default in JSON; None without a default, or for an expression.

    A default that readers would misunderstand is omitted, since it only matters for messages that lack the column.
    """
    from connectors.kafka.encoding.connect import decimal_base64

    text, kind = column.default, column.type.kind
    if text is None:
        return None
    try:
        if kind is Kind.BIGINT_UNSIGNED:
            return decimal_base64(int(text)) if modes.unsigned == "precise" else _wrapped(int(text))
        if kind in INTEGERS:
            return int(text)
        if kind is Kind.DECIMAL and modes.decimal != "double":
            scale = column.type.scale or 0
            number = Decimal(text).quantize(Decimal(1).scaleb(-scale), context=EXACT)
            return f"{number:f}" if modes.decimal == "string" else decimal_base64(int(number.scaleb(scale, EXACT)))
        if kind in (Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL):
            return float(text)
    except (ValueError, InvalidOperation):
        return None
    if kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP):
        return _time_of(text, column, modes)
    return text if kind in TEXTS else None


def _wrapped(number: int) -> int:
    """The number, wrapped to a signed one of 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _time_of(text: str, column: Column, modes: EncodingModes) -> int | None:
    """A time's days, milliseconds or microseconds; None for an expression, and for an impossible date."""
    kind, digits = column.type.kind, column.type.length or 0
    match = _SPAN.fullmatch(text) if kind is Kind.TIME else _MOMENT.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.group("h", "m", "s"))
    micros = int((match["f"] or "").ljust(6, "0")[:6])
    span = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    if kind is Kind.TIME:
        span = -span if match["sign"] else span
        if modes.time == "connect" and not timedelta() <= span < timedelta(days=1):
            return None  # Connect's Time does not allow it, and readers would refuse the schema
    else:
        try:
            day = datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=UTC)
        except ValueError:
            return None
        span += day - datetime(1970, 1, 1, tzinfo=UTC)
    if kind is Kind.DATE:
        return span.days
    in_millis = modes.time == "connect" or (kind is Kind.TIMESTAMP and digits <= _MILLI_DIGITS)
    return span // timedelta(milliseconds=1) if in_millis else span // timedelta(microseconds=1)
