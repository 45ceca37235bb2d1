"""Encode columns as plain JSON: numbers with all their digits, dates and times as text, bytes as base64.

The rules are Maxwell's: ENUM becomes its label, SET a list, BIT(n) a number, a shape its well-known text, and MySQL's
JSON a JSON value.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import Column, Kind, TableSchema
from cdc.types.kinds import TIMESTAMPS
from connectors.kafka.encoding.kernels import values
from connectors.kafka.encoding.layout import Prepare
from connectors.kafka.encoding.template import FieldEncoding, json_text
from connectors.shared.conversion.geometry import geometry_text
from connectors.shared.conversion.policy import RejectedValue

_MOST_DIGITS = 38  # of Arrow's decimals; longer ones are text
_NUMBERS: dict[Kind, tuple[int, int]] = {
    Kind.BOOLEAN: (values.BIT_DIGIT, 4), Kind.TINYINT: (values.INT8, 8), Kind.SMALLINT: (values.INT16, 8),
    Kind.INT: (values.INT32, 16), Kind.BIGINT: (values.INT64, 24), Kind.TINYINT_UNSIGNED: (values.UINT8, 8),
    Kind.SMALLINT_UNSIGNED: (values.UINT16, 8), Kind.INT_UNSIGNED: (values.UINT32, 16),
    Kind.BIGINT_UNSIGNED: (values.UINT64, 24), Kind.FLOAT: (values.FLOAT32, 32), Kind.DOUBLE: (values.FLOAT64, 32),
    Kind.VECTOR: (values.FLOATS, 8),
}  # fmt: skip
_TEXTS: dict[Kind, tuple[int, int]] = {
    Kind.CHAR: (values.TEXT, 2), Kind.VARCHAR: (values.TEXT, 2), Kind.STRING: (values.TEXT, 2),
    Kind.JSON: (values.TEXT, 2), Kind.BINARY: (values.BASE64, 8), Kind.VARBINARY: (values.BASE64, 8),
    Kind.BYTES: (values.BASE64, 8), Kind.DATE: (values.DATE, 16), Kind.TIME: (values.SPAN, 32),
    Kind.TIMESTAMP: (values.MOMENT, 32), Kind.TIMESTAMP_LTZ: (values.MOMENT, 32), Kind.GEOMETRY: (values.TEXT, 2),
}  # fmt: skip
_MOMENTS = (Kind.TIME, *TIMESTAMPS)


def fields_of(schema: TableSchema) -> tuple[FieldEncoding, ...]:
    """The encoding of each column's values."""
    return tuple(_field(column) for column in schema.columns)


def prepared_of(schema: TableSchema) -> dict[str, Prepare]:
    """By column, the conversions of values that the kernel cannot read as they are."""
    return {column.name: found for column in schema.columns if (found := _prepare(column)) is not None}


def _field(column: Column) -> FieldEncoding:
    kind, name = column.type.kind, column.name
    if _is(column, "set") or is_bits(column) or (kind is Kind.JSON and _is(column, "json")):
        return FieldEncoding(name, values.RAW, size=8)
    if kind is Kind.DECIMAL:
        wide = (column.type.length or 10) > _MOST_DIGITS
        return FieldEncoding(name, values.RAW if wide else values.DECIMAL, column.type.scale or 0, size=104)
    if kind in _NUMBERS:
        op, size = _NUMBERS[kind]
        return FieldEncoding(name, op, size=size)
    op, size = _TEXTS[kind]
    return FieldEncoding(name, op, column.type.length or 0 if kind in _MOMENTS else 0, quoted=True, size=size)


def _prepare(column: Column) -> Prepare | None:
    if _is(column, "set"):
        return lambda array: texts_of(array, _members)
    if is_bits(column):
        return lambda array: texts_of(array, lambda data: str(int.from_bytes(data, "big")))
    if column.type.kind is Kind.GEOMETRY:
        return lambda array: texts_of(array, lambda data: _shape(data, column))
    return None


def _shape(data: bytes, column: Column) -> str:
    try:
        return geometry_text(data)
    except RejectedValue as error:
        raise SinkError(
            f"{len(data)} bytes that are not a shape",
            where=f"column {column.name} {column.type}",
            hint="leave the column out, or cast it, in a transform",
        ) from error


def _members(text: str) -> str:
    return json_text(text.split(",") if text else []).decode()


def texts_of(array: pa.Array, text: Callable[..., str]) -> pa.Array:
    """The text of each value, computed once for each distinct value."""
    encoded = array.dictionary_encode()
    found = pa.array([None if each is None else text(each) for each in encoded.dictionary.to_pylist()], pa.string())
    return pc.take(found, encoded.indices) if len(found) else pa.nulls(len(array), pa.string())


def _is(column: Column, name: str) -> bool:
    return column.source_type.lower().startswith(name)


def is_bits(column: Column) -> bool:
    """Whether a column is BIT(n)."""
    return column.type.kind is Kind.BINARY and _is(column, "bit")
