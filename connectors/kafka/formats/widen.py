"""The narrowest type that holds the values of two types, and values on their way to it. Pure."""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import arrow_type
from cdc.schema import DataType, Kind
from connectors.kafka.formats import convert

_SIGNED = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_UNSIGNED = {Kind.TINYINT_UNSIGNED: 8, Kind.SMALLINT_UNSIGNED: 16, Kind.INT_UNSIGNED: 32, Kind.BIGINT_UNSIGNED: 64}
_BITS = {**_SIGNED, **_UNSIGNED}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_TEXT = (Kind.CHAR, Kind.VARCHAR, Kind.STRING)
_BINARY = (Kind.BINARY, Kind.VARBINARY, Kind.BYTES)
_MOST_DIGITS = 65
STRING = DataType(Kind.STRING)


def widened(left: DataType, right: DataType) -> DataType:
    """A type that holds every value of both; STRING where nothing narrower does. The order does not matter."""
    if left == right:
        return left
    if left.kind == right.kind and left.kind not in (Kind.DECIMAL, Kind.VECTOR, Kind.CHAR, Kind.BINARY):
        return DataType(left.kind, max(left.length or 0, right.length or 0)) if left.length is not None else left
    kinds = {left.kind, right.kind}
    if kinds <= _BITS.keys():
        return _integer(left.kind, right.kind)
    if kinds <= {*_BITS, Kind.DECIMAL}:
        return _decimal(_as_decimal(left), _as_decimal(right))
    if kinds <= {*_BITS, Kind.FLOAT, Kind.DOUBLE}:
        small = {kind for kind in kinds if _BITS.get(kind, 0) > 16} == set() and Kind.DOUBLE not in kinds
        return DataType(Kind.FLOAT if small else Kind.DOUBLE)
    if kinds <= {*_TEXT}:
        return _sized(left, right, Kind.STRING, Kind.VARCHAR)
    if kinds <= {*_BINARY}:
        return _sized(left, right, Kind.BYTES, Kind.VARBINARY)
    if kinds == {Kind.DATE, Kind.TIMESTAMP}:
        return left if left.kind is Kind.TIMESTAMP else right
    return STRING


def _integer(left: Kind, right: Kind) -> DataType:
    if (left in _SIGNED) == (right in _SIGNED):
        return DataType(max(left, right, key=_BITS.__getitem__))
    signed, unsigned = (left, right) if left in _SIGNED else (right, left)
    bits = max(_SIGNED[signed], 2 * _UNSIGNED[unsigned])
    if bits > 64:
        return DataType(Kind.DECIMAL, 20, 0)
    return DataType(next(kind for kind, size in _SIGNED.items() if size == bits))


def _as_decimal(data_type: DataType) -> DataType:
    if data_type.kind is Kind.DECIMAL:
        return data_type
    return DataType(Kind.DECIMAL, _DIGITS[_BITS[data_type.kind]], 0)


def _decimal(left: DataType, right: DataType) -> DataType:
    scale = max(left.scale or 0, right.scale or 0)
    digits = max((item.length or 10) - (item.scale or 0) for item in (left, right))
    return DataType(Kind.DECIMAL, digits + scale, scale) if digits + scale <= _MOST_DIGITS else STRING


def _sized(left: DataType, right: DataType, endless: Kind, sized: Kind) -> DataType:
    if endless in (left.kind, right.kind) or left.length is None or right.length is None:
        return DataType(endless)
    return DataType(sized, max(left.length, right.length))


def adapted(values: pa.Array, own: DataType, target: DataType) -> pa.Array:
    """Values of a type as values of a wider one, as `widened` finds it."""
    arrow = arrow_type(target)
    if values.type == arrow:
        return values
    if pa.types.is_string(arrow) or pa.types.is_decimal(arrow):
        return _as_text(values, own).cast(arrow)
    return values.cast(arrow)


def become(values: pa.Array, own: DataType, declared: DataType) -> pa.Array:
    """Values of a type as values of any other one that can hold each of them. Raises BadValue for one it cannot."""
    arrow, message = arrow_type(declared), f"is no {declared}"
    if values.type == arrow:
        return values
    if pa.types.is_binary(values.type):
        texts = convert.cast(values, pa.string(), "is no UTF-8")
        return texts if arrow == pa.string() else convert.cast(texts, arrow, message)
    if pa.types.is_string(arrow):
        return _as_text(values, own)
    if pa.types.is_binary(arrow):
        return convert.cast(_as_text(values, own), arrow, message)
    if pa.types.is_decimal(values.type) and pa.types.is_floating(arrow):
        return values.cast(arrow)  # the nearest one, as a server makes of it
    if pa.types.is_decimal(arrow):
        return convert.cast(_as_text(values, own), arrow, message)
    found = convert.cast(values, arrow, message)
    if declared.kind is Kind.DATE and pa.types.is_timestamp(values.type):
        cut = np.asarray(pc.not_equal(found.cast(values.type), values).fill_null(False))
        if cut.any():
            raise convert.BadValue(int(np.argmax(cut)), "has a time, which a DATE does not")
    return found


def _as_text(values: pa.Array, own: DataType) -> pa.Array:
    if pa.types.is_binary(values.type):
        return pa.array([None if item is None else base64.b64encode(item).decode() for item in values.to_pylist()],
                        pa.string())  # fmt: skip
    if pa.types.is_list(values.type):
        return pa.array([None if item is None else str(item) for item in values.to_pylist()], pa.string())
    if own.kind is Kind.TIME:
        return pa.array([None if item is None else _clock(item) for item in values.cast(pa.int64()).to_pylist()],
                        pa.string())  # fmt: skip
    return values.cast(pa.string())


def _clock(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return ("-" if micros < 0 else "") + text + (f".{fraction:06d}" if fraction else "")
