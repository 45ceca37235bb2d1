"""Convert column types from this tool's to Iceberg's without loss, and back. Pure; does not load the library.

| type | Iceberg | why |
|---|---|---|
| TINYINT .. INT, unsigned ones up to SMALLINT | int | Iceberg has 32 and 64 bits |
| BIGINT, INT UNSIGNED | long | |
| BIGINT UNSIGNED | decimal(20, 0) | |
| DECIMAL(p, s) | decimal(p, s), string beyond 38 digits | |
| CHAR, VARCHAR, STRING, JSON | string | Iceberg has no lengths |
| BINARY, VARBINARY, BYTES, GEOMETRY | binary | |
| TIME | string, `-838:59:59` | MySQL's TIME is a signed span, Iceberg's a time of day |
| TIMESTAMP | timestamp | microseconds |
| TIMESTAMP_LTZ | timestamptz | an instant |
| VECTOR | list<float> | |

Types are spelled as in the format's specification (https://iceberg.apache.org/spec/, "Primitive Types").
"""

from __future__ import annotations

import re

import pyarrow as pa

from cdc.schema import DataType, Kind

TEXT, BYTES, VECTOR = "string", "binary", "list<float>"
LONGEST_DECIMAL = 38

_ICEBERG: dict[Kind, str] = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "int",
    Kind.SMALLINT: "int",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.TINYINT_UNSIGNED: "int",
    Kind.SMALLINT_UNSIGNED: "int",
    Kind.INT_UNSIGNED: "long",
    Kind.BIGINT_UNSIGNED: "decimal(20, 0)",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.CHAR: TEXT,
    Kind.VARCHAR: TEXT,
    Kind.STRING: TEXT,
    Kind.JSON: TEXT,
    Kind.BINARY: BYTES,
    Kind.VARBINARY: BYTES,
    Kind.BYTES: BYTES,
    Kind.DATE: "date",
    Kind.TIME: TEXT,
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMP_LTZ: "timestamptz",
    Kind.GEOMETRY: BYTES,
    Kind.VECTOR: VECTOR,
}
_KIND = {
    "boolean": Kind.BOOLEAN, "int": Kind.INT, "long": Kind.BIGINT, "float": Kind.FLOAT, "double": Kind.DOUBLE,
    "date": Kind.DATE, "timestamp": Kind.TIMESTAMP, "timestamptz": Kind.TIMESTAMP_LTZ, TEXT: Kind.STRING,
    BYTES: Kind.BYTES, VECTOR: Kind.VECTOR,
}  # fmt: skip
_ARROW = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"), TEXT: pa.string(),
    BYTES: pa.binary(), VECTOR: pa.list_(pa.float32()),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS = {"int": 10, "long": 19}
_WIDER = {("int", "long"), ("float", "double")}
"""The promotions that the format allows, besides those to decimals with more digits ("Schema Evolution")."""


def iceberg_type(data_type: DataType) -> str:
    """The Iceberg type of a column."""
    if data_type.kind is Kind.DECIMAL:
        precision = data_type.length or 10
        return f"decimal({precision}, {data_type.scale or 0})" if precision <= LONGEST_DECIMAL else TEXT
    return _ICEBERG[data_type.kind]


def data_type(text: str) -> DataType:
    """The nearest type of this tool for an Iceberg type; STRING for types that this sink does not write."""
    if decimal := _DECIMAL.fullmatch(text):
        return DataType(Kind.DECIMAL, int(decimal[1]), int(decimal[2]))
    kind = _KIND.get(text, Kind.STRING)
    return DataType(kind, 6) if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) else DataType(kind)


def arrow_type(text: str) -> pa.DataType | None:
    """The Arrow type of the values written into an Iceberg column; None for a type that is not written."""
    if decimal := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _ARROW.get(text)


def can_identify(text: str) -> bool:
    """Whether the format accepts a column of the type as an identifier field."""
    return text not in ("float", "double", VECTOR)


def widens(actual: str, target: str) -> bool:
    """Whether a column can be promoted in place; old files stay as they are.

    Decimals must keep their scale: the format forbids another one, though the library accepts it.
    """
    if (actual, target) in _WIDER:
        return True
    old, new = _DECIMAL.fullmatch(actual), _DECIMAL.fullmatch(target)
    return bool(old and new and old[2] == new[2] and int(old[1]) < int(new[1]))


def holds(actual: str, target: str) -> bool:
    """Whether an existing column of type `actual` takes every value of `target` unchanged."""
    if actual == target or (target, actual) in _WIDER:
        return True
    decimal = _DECIMAL.fullmatch(actual)
    if decimal and target in _DIGITS:
        return int(decimal[1]) - int(decimal[2]) >= _DIGITS[target]
    if decimal and (other := _DECIMAL.fullmatch(target)):
        more_digits = int(decimal[1]) - int(decimal[2]) >= int(other[1]) - int(other[2])
        return more_digits and int(decimal[2]) >= int(other[2])
    return False
