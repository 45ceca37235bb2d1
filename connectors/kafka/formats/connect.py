"""Convert Kafka Connect's schema of a row to fields. Pure.

Names of Debezium's types: io.debezium.time.*, io.debezium.data.*; of Connect's own: org.apache.kafka.connect.data.*.
If the connector adds the column's own type (`column.propagate.source.type`), that type decides, since it has UNSIGNED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cdc.schema import DataType, Kind
from connectors.kafka.formats.canal_types import unsigned_integer
from connectors.kafka.formats.fields import MOST_SCALE, Encoding, Field
from connectors.kafka.formats.names import check_columns

Schema = Mapping[str, Any]
_Make = Callable[[Mapping[str, str]], tuple[DataType, Encoding]]

_PLAIN: dict[str, DataType] = {
    "int8": DataType(Kind.TINYINT), "int16": DataType(Kind.SMALLINT), "int32": DataType(Kind.INT),
    "int64": DataType(Kind.BIGINT), "float": DataType(Kind.FLOAT), "float32": DataType(Kind.FLOAT),
    "double": DataType(Kind.DOUBLE), "float64": DataType(Kind.DOUBLE), "boolean": DataType(Kind.BOOLEAN),
    "string": DataType(Kind.STRING), "bytes": DataType(Kind.BYTES),
    "array": DataType(Kind.JSON), "map": DataType(Kind.JSON), "struct": DataType(Kind.JSON),
}  # fmt: skip
_MILLI, _MICRO = 1000, 1
_TIMES = {
    "io.debezium.time.Date": (DataType(Kind.DATE), _MICRO),
    "org.apache.kafka.connect.data.Date": (DataType(Kind.DATE), _MICRO),
    "io.debezium.time.IsoDate": (DataType(Kind.DATE), _MICRO),
    "io.debezium.time.Time": (DataType(Kind.TIME, 3), _MILLI),
    "org.apache.kafka.connect.data.Time": (DataType(Kind.TIME, 3), _MILLI),
    "io.debezium.time.IsoTime": (DataType(Kind.TIME, 6), _MICRO),
    "io.debezium.time.MicroTime": (DataType(Kind.TIME, 6), _MICRO),
    "io.debezium.time.Timestamp": (DataType(Kind.TIMESTAMP, 3), _MILLI),
    "org.apache.kafka.connect.data.Timestamp": (DataType(Kind.TIMESTAMP, 3), _MILLI),
    "io.debezium.time.MicroTimestamp": (DataType(Kind.TIMESTAMP, 6), _MICRO),
    "io.debezium.time.IsoTimestamp": (DataType(Kind.TIMESTAMP, 6), _MICRO),
    "io.debezium.time.ZonedTimestamp": (DataType(Kind.TIMESTAMP_LTZ, 6), _MICRO),
}
_NANOS = {
    "io.debezium.time.NanoTime": DataType(Kind.TIME, 6),
    "io.debezium.time.NanoTimestamp": DataType(Kind.TIMESTAMP, 6),
}
_LONGEST_DECIMAL = 65
_UNBOUND_DECIMAL = 38
_MOST_BITS = 1 << 16


def fields_of(schema: Schema, *, by_flink: bool = False) -> tuple[Field, ...]:
    """The fields of a struct, in its order, with the types of Flink CDC if it wrote them (`by_flink`).

    Raises ValueError for a schema that is no struct.
    """
    if schema.get("type") != "struct":
        raise ValueError(f"the schema of a row is a struct, got {schema.get('type')!r:.40}")
    fields = _items(schema)
    if len(check_columns(item.get("field") for item in fields)) < len(fields):
        raise ValueError("two fields of a row have the same name")
    logical_types = _OF_FLINK if by_flink else _LOGICAL
    return tuple(_field(item, logical_types) for item in fields)


def row_schema(schema: Schema) -> Schema | None:
    """The schema of the rows within the schema of Debezium's envelope; None when it has none. Raises ValueError."""
    return next((item for item in _items(schema) if item.get("field") in ("after", "before")), None)


def is_by_flink(schema: Schema) -> bool:
    """Whether Flink CDC's sink wrote this schema of an envelope, which has nothing but the rows. Raises ValueError."""
    return {item.get("field") for item in _items(schema)} <= {"before", "after"}


def _items(schema: Schema) -> list[Schema]:
    items = schema.get("fields", [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("the `fields` of a schema of Connect are not a list of objects")
    return items


def _field(item: Schema, logical_types: Mapping[str, _Make]) -> Field:
    name, logical = str(item["field"]), str(item.get("name") or "")
    parameters = item.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise ValueError(f"the `parameters` of field {name!r} are not an object")
    about: dict[str, Any] = {"optional": bool(item.get("optional", False)), "comment": str(item.get("doc") or "")}
    if logical in _TIMES:
        data_type, unit = _TIMES[logical]
        return Field(name, data_type, unit_us=unit, **about)
    if logical in _NANOS:
        return Field(name, _NANOS[logical], Encoding.NANOS, **about)
    make = logical_types.get(logical)
    if make is not None:
        data_type, encoding = make(parameters)
        if encoding is Encoding.DECIMAL_BYTES:
            about["scale"] = _number(parameters, "scale", 0)
        if data_type.kind is Kind.GEOMETRY:
            about["comment"] = ""  # Debezium describes the type there
        return Field(name, data_type, encoding, **about)
    kind = str(item.get("type"))
    if kind not in _PLAIN:
        raise ValueError(f"field {name!r} has the type {kind!r}, which Connect does not have")
    unsigned = unsigned_integer(str(parameters.get("__debezium.source.column.type", "")))
    if unsigned is not None and kind.startswith("int"):
        return Field(name, DataType(unsigned), **about)
    return Field(name, _PLAIN[kind], **about)


def _decimal(parameters: Mapping[str, str]) -> tuple[DataType, Encoding]:
    """The type of a Decimal; STRING for more digits after the point than a DECIMAL has (Oracle's NUMBER: 127)."""
    scale = _number(parameters, "scale", 0)
    zeros = max(-scale, 0)
    precision = _number(parameters, "connect.decimal.precision", max(_UNBOUND_DECIMAL - zeros, 1))
    if abs(scale) > MOST_SCALE or precision < 0:
        raise ValueError(f"a decimal of {precision} digits, {scale} of them after the point")
    if scale > _LONGEST_DECIMAL:
        return DataType(Kind.STRING), Encoding.DECIMAL_BYTES
    digits = max(precision + zeros, scale, 1)
    return DataType(Kind.DECIMAL, min(digits, _LONGEST_DECIMAL), max(scale, 0)), Encoding.DECIMAL_BYTES


def _bits(parameters: Mapping[str, str]) -> tuple[DataType, Encoding]:
    bits = _number(parameters, "length", 64)
    if bits < 1:
        raise ValueError(f"a bit set of {bits} bits")
    return DataType(*((Kind.BINARY, (bits + 7) // 8) if bits <= _MOST_BITS else (Kind.BYTES,))), Encoding.BITS_LITTLE


def _bytes(parameters: Mapping[str, str]) -> tuple[DataType, Encoding]:
    """The type of Bits in the schema of Flink CDC, which says so of all bytes, with their number as the length."""
    length = _number(parameters, "length", 0)
    return DataType(Kind.VARBINARY, length) if 0 < length < _MOST_BITS else DataType(Kind.BYTES), Encoding.NATURAL


def _number(parameters: Mapping[str, Any], name: str, default: int) -> int:
    value = parameters.get(name, default)
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the parameter {name} of a schema is not a whole number, got {value!r:.40}") from None


def _plain(kind: Kind, encoding: Encoding = Encoding.NATURAL) -> Callable[[Any], tuple[DataType, Encoding]]:
    return lambda parameters: (DataType(kind), encoding)


_LOGICAL: dict[str, _Make] = {
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "io.debezium.data.Bits": _bits,
    "io.debezium.time.Year": _plain(Kind.INT),
    "io.debezium.data.Json": _plain(Kind.JSON),
    "io.debezium.data.geometry.Point": _plain(Kind.GEOMETRY, Encoding.GEOMETRY),
    "io.debezium.data.geometry.Geometry": _plain(Kind.GEOMETRY, Encoding.GEOMETRY),
    "io.debezium.data.geometry.Geography": _plain(Kind.GEOMETRY, Encoding.GEOMETRY),
    "io.debezium.data.VariableScaleDecimal": _plain(Kind.STRING, Encoding.DECIMAL_STRUCT),
    "io.debezium.data.FloatVector": lambda parameters: (DataType(Kind.VECTOR, 2048), Encoding.VECTOR),
}
_OF_FLINK = {**_LOGICAL, "io.debezium.data.Bits": _bytes}
