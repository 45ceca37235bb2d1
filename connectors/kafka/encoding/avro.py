"""Debezium's messages in Avro, as Connect's AvroConverter writes them: the schemas to register, and message layouts.

The schemas are made from the Connect schemas of the JSON messages, with the properties in which the converter keeps
what Avro cannot express (`connect.name` and others), so that readers get the same types back.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from connectors.kafka.encoding import debezium
from connectors.kafka.encoding.connect import Schema, encoded_with_schema
from connectors.kafka.encoding.kernels import messages, values
from connectors.kafka.encoding.layout import MessageLayout, Naming, Prepare
from connectors.kafka.encoding.template import AFTER, BEFORE, KEY, FieldEncoding, Part, RowPart, Shared, Value
from connectors.kafka.modes import EncodingModes

Register = Callable[[str, Schema], int]
"""Registers a schema of the topic's keys (`key`) or values (`value`); returns its number. Raises SinkError."""

_TYPES = {
    "int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "bytes": "bytes",
}  # fmt: skip
_SHORT = ("int8", "int16")
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_LEAST = {values.GEOMETRY: 4, values.POINT: 25}
"""The least bytes that the kernel reads: the SRID, and for a point its coordinates."""
_NO_NAME = re.compile(r"[^A-Za-z0-9_]|^(?=\d)")


def layout(
    table: TableId, schema: TableSchema, naming: Naming, modes: EncodingModes, register: Register
) -> MessageLayout:
    """The layout of a table's messages; registers their schemas. Executor; once per table and schema.

    Raises SinkError for columns whose names would be the same in Avro, and the errors of `register`.
    """
    full = ".".join(map(avro_name, f"{naming.name}.{table}".split(".")))
    columns = debezium.column_schemas(schema, modes)
    _check_names(table, columns)
    found = {column.name: encoded_with_schema(column, modes) for column in schema.columns}
    optional = {column["field"]: bool(column["optional"]) for column in columns}
    prepare = {
        name: _Prepared(name, each.prepare, optional[name], _LEAST.get(each.field.op, 0))
        for name, each in found.items()
    }
    fields = {name: replace(each.field, quoted=optional[name], label="") for name, each in found.items()}
    value = _framed(register("value", avro_schema(debezium.envelope_schema(full, columns))))
    parts = (value, *_envelope(table, naming, tuple(fields.values())))
    if not schema.primary_key:
        return MessageLayout(parts, None, prepare)
    key_schema = avro_schema(
        debezium.key_schema(full, [(schema.column(name), found[name]) for name in schema.primary_key])
    )
    key_fields = tuple(replace(fields[name], quoted=False) for name in schema.primary_key)
    key: tuple[Part, ...] = (_framed(register("key", key_schema)), RowPart(KEY, key_fields, messages.AVRO_RECORD))
    key_part = (RowPart(KEY, tuple(found[name].field for name in schema.primary_key)),)
    return MessageLayout(parts, key, prepare, moved=key_part)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Converts a column's values for the kernel, and checks that a NOT NULL column has no NULL.

    `least`: the least number of bytes of a value.
    """

    column: str
    prepare: Prepare | None
    optional: bool
    least: int

    def __call__(self, array: pa.Array) -> pa.Array:
        found = array if self.prepare is None else self.prepare(array)
        if not self.optional and found.null_count:
            hint = "its schema in Avro takes none: make it nullable, or replace NULL in a transform"
            raise SinkError("NULL in a column that is NOT NULL", where=f"column {self.column}", hint=hint)
        shortest = pc.min(pc.binary_length(found)).as_py() if self.least else None
        if shortest is not None and shortest < self.least:
            hint = "leave the column out, or cast it, in a transform"
            raise SinkError(f"{shortest} bytes that are not a shape", where=f"column {self.column}", hint=hint)
        return found


def avro_name(name: str) -> str:
    """The name in a form that Avro accepts, as with Debezium's `field.name.adjustment.mode: avro`."""
    return _NO_NAME.sub("_", name)


def _check_names(table: TableId, columns: list[Schema]) -> None:
    met: dict[str, str] = {}
    for column in columns:
        name = column["field"]
        other = met.setdefault(avro_name(name), name)
        if other != name:
            raise SinkError(
                f"the columns {other} and {name} have the same name in Avro, {avro_name(name)}",
                where=str(table),
                hint="rename one of them in a transform",
            )


def _framed(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def _envelope(table: TableId, naming: Naming, fields: tuple[FieldEncoding, ...]) -> tuple[Part, ...]:
    before, after = (RowPart(which, fields, messages.AVRO_IMAGE) for which in (BEFORE, AFTER))
    now = (_value(f"now_{unit}", values.INT64, union=True) for unit in ("ms", "us", "ns"))
    return before, after, *_source(table, naming), b"\0", _value("op", values.CHAR), *now


def _source(table: TableId, naming: Naming) -> Iterator[Part]:
    """The fields of `source`, as in JSON; those before `row` are the same for all messages of an event."""
    parts: list[bytes | Value] = []
    for name, kind in debezium.SOURCE:
        union = bool(kind["optional"])
        fixed = debezium.fixed(table, naming)
        if name in fixed:
            parts.append(_literal(fixed[name], union=union))
        elif name == "row":
            yield Shared(tuple(parts))
            parts = [_value(name, values.INT32)]
        else:
            op = values.INT64 if kind["type"] == "int64" else values.TEXT
            parts.append(_value("begin" if name == "pos" else name, op, union=union))
    yield from parts


def _value(name: str, op: int, *, union: bool = False) -> Value:
    size = 16 if op == values.TEXT else 24
    field = FieldEncoding(name, op, quoted=union, size=size)
    return Value(field, messages.AVRO_VALUE, _Constant(union))


@dataclass(frozen=True, slots=True)
class _Constant:
    """Converts the JSON text of a constant to the bytes of the same value in Avro."""

    union: bool

    def __call__(self, text: bytes) -> bytes:
        return _literal(json.loads(text or b'""'), union=self.union)


def _literal(value: str | int | None, *, union: bool) -> bytes:
    if value is None:
        return b"\0"
    data = value.encode() if isinstance(value, str) else b""
    number = len(data) if isinstance(value, str) else value
    number = (number << 1) ^ (number >> 63)
    size = bytearray(b"\2" if union else b"")
    while number > 0x7F:
        size.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*size, number]) + data


def avro_schema(schema: Schema) -> Any:
    """The Avro schema that AvroConverter registers for a Connect schema; repeated named types only have the name."""
    return _schema(schema, set(), "")


def _schema(schema: Schema, met: set[str], space: str) -> Any:
    about = _properties(schema)
    if schema["type"] == "array":
        return {"type": "array", "items": _schema(schema["items"], met, space), **about}
    if schema["type"] != "struct":
        schema_type = {"type": _TYPES[schema["type"]], **about}
        return schema_type if len(schema_type) > 1 else schema_type["type"]
    name = str(schema["name"])
    if name in met:
        return name
    met.add(name)
    namespace, _, last = name.rpartition(".")
    fields = [_member(field, met, namespace) for field in schema["fields"]]
    return {"type": "record", "name": last, "namespace": namespace, "fields": fields, **about}


def _member(field: Schema, met: set[str], space: str) -> dict[str, Any]:
    member_type, default = _schema(field, met, space), field.get("default")
    if field["optional"]:
        return {"name": avro_name(field["field"]), "type": ["null", member_type], "default": None}
    if default is None:
        return {"name": avro_name(field["field"]), "type": member_type}
    if field["type"] == "bytes":
        default = base64.b64decode(default).decode("latin-1")
    return {"name": avro_name(field["field"]), "type": member_type, "default": default}


def _properties(schema: Schema) -> Schema:
    """The properties of a Connect schema that Avro cannot express."""
    found: Schema = {"connect.type": schema["type"]} if schema["type"] in _SHORT else {}
    parameters = schema.get("parameters")
    if schema.get("name") == _DECIMAL and parameters:
        found |= {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}
    for key, name in (("version", "version"), ("parameters", "parameters"), ("doc", "doc"), ("name", "name")):
        if schema.get(key):
            found[f"connect.{name}"] = schema[key]
    return {**found, "logicalType": "decimal"} if "precision" in found else found
