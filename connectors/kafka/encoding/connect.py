"""Encode a column like Debezium's MySQL connector: the form of its values, and their Connect schema.

Both are decided in one place, so that a message never contradicts its own schema. `Column.source_type` has the type in
the source (ENUM, BIT, YEAR); a column without it is encoded by its type in the pipeline.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import Column, DataType, Kind
from cdc.types.kinds import BINARIES, TEXTS, TIMESTAMPS
from connectors.kafka.encoding.kernels import values
from connectors.kafka.encoding.mysql_types import parts_of
from connectors.kafka.encoding.template import FieldEncoding
from connectors.kafka.modes import EncodingModes

Schema = dict[str, Any]

_INTEGERS: dict[Kind, tuple[int, str]] = {
    Kind.TINYINT: (values.INT8, "int16"),
    Kind.SMALLINT: (values.INT16, "int16"),
    Kind.INT: (values.INT32, "int32"),
    Kind.BIGINT: (values.INT64, "int64"),
    Kind.TINYINT_UNSIGNED: (values.UINT8, "int16"),
    Kind.SMALLINT_UNSIGNED: (values.UINT16, "int32"),
    Kind.INT_UNSIGNED: (values.UINT32, "int64"),
}
_MOST_DIGITS = 38  # of Arrow's decimals; longer ones are text
_MILLI_DIGITS = 3
_DATES = (Kind.DATE, *TIMESTAMPS)
_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """The encoding of one column.

    Has the kernel's field, the Connect schema (without the name, and without optionality where that follows from the
    column), and a conversion of the values if the kernel cannot read Arrow's.
    """

    field: FieldEncoding
    schema: Schema
    prepare: Callable[[pa.Array], pa.Array] | None = None


def encoded(column: Column, modes: EncodingModes) -> EncodedColumn:
    """The encoding of a column."""
    kind, name = column.type.kind, column.name
    if kind in _INTEGERS:
        return _integer(column)
    if kind is Kind.BIGINT_UNSIGNED:
        return _big_unsigned(name, modes)
    if kind is Kind.DECIMAL:
        return _decimal(name, column.type, modes)
    if kind in TEXTS:
        return EncodedColumn(FieldEncoding(name, values.TEXT, quoted=True, size=2), _text_schema(column))
    if kind in BINARIES:
        return _binary(column, modes)
    if kind in (Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return _with_values(column, _temporal(name, column.type, modes))
    return _with_values(column, _encode_other_kind(column, modes))


def encoded_with_schema(column: Column, modes: EncodingModes) -> EncodedColumn:
    """The encoding of a column in messages with a schema: values that the schema does not allow become NULL."""
    found = encoded(column, modes)
    if column.type.kind is not Kind.TIME or modes.time != "connect":
        return found
    return replace(found, prepare=partial(_within_a_day, column))


def beyond_a_day(times: pa.Array) -> pa.Array:
    """A mask of the times below zero or from 24 h on: Connect's Time does not allow those, and readers refuse them."""
    micros = times.cast(pa.int64())
    return pc.or_(pc.less(micros, 0), pc.greater_equal(micros, _DAY))


def _within_a_day(column: Column, times: pa.Array) -> pa.Array:
    beyond = beyond_a_day(times)
    if not column.nullable and pc.any(beyond).as_py():
        raise SinkError(
            f"{times.filter(beyond)[0].as_py()} is not a time of day, and the column takes no NULL in place of it",
            where=f"column {column.name}",
            hint="Connect's Time ends at 24 h: set debezium-json.time.precision.mode: adaptive_time_microseconds",
        )
    return pc.if_else(beyond, pa.scalar(None, times.type), times)


def _integer(column: Column) -> EncodedColumn:
    op, name = _INTEGERS[column.type.kind]
    year = re.match(r"year\b", column.source_type, re.IGNORECASE) is not None
    if column.source_type.lower().startswith("mediumint"):
        name = "int32"
    return EncodedColumn(
        FieldEncoding(column.name, op), _named_schema("int32", "io.debezium.time.Year") if year else {"type": name}
    )


def _big_unsigned(name: str, modes: EncodingModes) -> EncodedColumn:
    if modes.unsigned == "long":
        return EncodedColumn(FieldEncoding(name, values.INT64), {"type": "int64"})
    return EncodedColumn(FieldEncoding(name, values.UINT64_BYTES, quoted=True, size=64), _decimal_schema(20, 0))


def _decimal(name: str, kind: DataType, modes: EncodingModes) -> EncodedColumn:
    digits, scale = kind.length or 10, kind.scale or 0
    wide = digits > _MOST_DIGITS
    if modes.decimal == "precise":
        schema = _decimal_schema(digits, scale)
        if wide:
            return EncodedColumn(
                FieldEncoding(name, values.BASE64, quoted=True, size=8), schema, lambda array: _bytes(array, scale)
            )
        return EncodedColumn(FieldEncoding(name, values.DECIMAL_BYTES, quoted=True, size=32), schema)
    quoted = modes.decimal == "string"
    op, size = (values.RAW, 8) if wide else (values.DECIMAL, 104)
    return EncodedColumn(FieldEncoding(name, op, scale, quoted, size), {"type": "string" if quoted else "double"})


def _binary(column: Column, modes: EncodingModes) -> EncodedColumn:
    bits = re.match(r"bit\s*\(\s*(\d+)\s*\)", column.source_type, re.IGNORECASE)
    if bits is not None:
        schema = _named_schema("bytes", "io.debezium.data.Bits", length=bits[1])
        return EncodedColumn(FieldEncoding(column.name, values.BACKWARDS, quoted=True, size=8), schema)
    op = values.HEX if modes.binary == "hex" else values.BASE64
    kind = "bytes" if modes.binary == "bytes" else "string"
    return EncodedColumn(FieldEncoding(column.name, op, quoted=True, size=8), {"type": kind})


def _with_values(column: Column, found: EncodedColumn) -> EncodedColumn:
    """Write the epoch for NULL in a NOT NULL column, as Debezium does: impossible dates (0000-00-00) arrive as NULL."""
    return found if column.nullable or column.type.kind not in _DATES else replace(found, prepare=_or_epoch)


def _or_epoch(array: pa.Array) -> pa.Array:
    number = pa.scalar(0, pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return pc.fill_null(array, number.cast(array.type))


def _temporal(name: str, kind: DataType, modes: EncodingModes) -> EncodedColumn:
    digits, connect = kind.length or 0, modes.time == "connect"
    millis = FieldEncoding(name, values.DIVIDED, 1000)
    micros = FieldEncoding(name, values.INT64)
    if kind.kind is Kind.TIMESTAMP_LTZ:
        field = FieldEncoding(name, values.INSTANT, digits, quoted=True, size=40)
        return EncodedColumn(field, _named_schema("string", "io.debezium.time.ZonedTimestamp"))
    if kind.kind is Kind.TIME:
        if connect:
            return EncodedColumn(millis, _named_schema("int32", "org.apache.kafka.connect.data.Time"))
        return EncodedColumn(micros, _named_schema("int64", "io.debezium.time.MicroTime"))
    if connect:
        return EncodedColumn(millis, _named_schema("int64", "org.apache.kafka.connect.data.Timestamp"))
    if digits <= _MILLI_DIGITS:
        return EncodedColumn(millis, _named_schema("int64", "io.debezium.time.Timestamp"))
    return EncodedColumn(micros, _named_schema("int64", "io.debezium.time.MicroTimestamp"))


def _encode_other_kind(column: Column, modes: EncodingModes) -> EncodedColumn:
    kind, name = column.type.kind, column.name
    if kind is Kind.BOOLEAN:
        return EncodedColumn(FieldEncoding(name, values.BOOL), {"type": "boolean"})
    if kind is Kind.FLOAT:
        return EncodedColumn(FieldEncoding(name, values.FLOAT32, size=32), {"type": "float"})
    if kind is Kind.DOUBLE:
        return EncodedColumn(FieldEncoding(name, values.FLOAT64, size=32), {"type": "double"})
    if kind is Kind.DATE:
        date = "org.apache.kafka.connect.data.Date" if modes.time == "connect" else "io.debezium.time.Date"
        return EncodedColumn(FieldEncoding(name, values.INT32), _named_schema("int32", date))
    if kind is Kind.JSON:
        return EncodedColumn(
            FieldEncoding(name, values.TEXT, quoted=True, size=2), _named_schema("string", "io.debezium.data.Json")
        )
    if kind is Kind.VECTOR:
        schema = {"type": "array", "items": {"type": "float", "optional": False}}
        return EncodedColumn(
            FieldEncoding(name, values.FLOATS, size=8), {**schema, **_version("io.debezium.data.FloatVector")}
        )
    return _geometry(column)


def _geometry(column: Column) -> EncodedColumn:
    point = column.source_type.lower().startswith("point")
    wkb: list[Schema] = [
        {"type": "bytes", "optional": point, "field": "wkb"},
        {"type": "int32", "optional": True, "field": "srid"},
    ]
    if not point:
        schema = {"type": "struct", "fields": wkb, **_version("io.debezium.data.geometry.Geometry"), "doc": "Geometry"}
        return EncodedColumn(FieldEncoding(column.name, values.GEOMETRY, size=80), {**schema, "optional": True})
    axes: list[Schema] = [{"type": "double", "optional": False, "field": axis} for axis in "xy"]
    schema = {"type": "struct", "fields": [*axes, *wkb], **_version("io.debezium.data.geometry.Point")}
    return EncodedColumn(FieldEncoding(column.name, values.POINT, size=144), {**schema, "doc": "Geometry (POINT)"})


def _text_schema(column: Column) -> Schema:
    found = parts_of(column)
    if not found.labels:
        return {"type": "string"}
    name = "io.debezium.data.Enum" if found.name == "enum" else "io.debezium.data.EnumSet"
    return _named_schema("string", name, allowed=",".join(label.replace(",", "\\,") for label in found.labels))


def _decimal_schema(digits: int, scale: int) -> Schema:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(digits)}
    return {"type": "bytes", **_version("org.apache.kafka.connect.data.Decimal"), "parameters": parameters}


def _named_schema(kind: str, name: str, **parameters: str) -> Schema:
    return {"type": kind, **_version(name), **({"parameters": parameters} if parameters else {})}


def _version(name: str) -> Schema:
    return {"name": name, "version": 1}


def _bytes(array: pa.Array, scale: int) -> pa.Array:
    """Convert texts of decimals with more than 38 digits to the shortest big-endian two's complement of the digits."""
    found: list[bytes | None] = []
    for text in array.to_pylist():
        if text is None:
            found.append(None)
            continue
        number = int(text.replace(".", "")) if scale else int(text)
        found.append(number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True))
    return pa.array(found, pa.binary())


def decimal_base64(number: int) -> str:
    """A whole number, encoded as a Connect decimal in JSON."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()
