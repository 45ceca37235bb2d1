"""Maps Python annotations of user functions to SQL types."""

from __future__ import annotations

import datetime
import types
import typing
from decimal import Decimal

import pyarrow as pa

from cdc.schema import DataType, Kind
from cdc.transform.types import BIGINT, BOOLEAN, BYTES, DATE, DOUBLE, JSON, STRING, TIME, TIMESTAMP, Array, Map, SqlType

_PLAIN: dict[object, SqlType] = {
    bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING, bytes: BYTES, Decimal: DataType(Kind.DECIMAL, 38, 18),
    datetime.date: DATE, datetime.datetime: TIMESTAMP, datetime.timedelta: TIME, dict: JSON,
}  # fmt: skip
KNOWN = "bool, int, float, str, bytes, Decimal, date, datetime, timedelta, list[T], dict[K, V], dict (JSON)"


def sql_type(annotation: object) -> tuple[SqlType, bool, bool]:
    """Return an annotation's SQL type, whether None is allowed, and whether it is a whole Arrow array.

    `Annotated[Decimal, "DECIMAL(10, 2)"]` names a type exactly, `Annotated[pa.Array, "BIGINT"]` an array of it.
    Raises ValueError with the reason.
    """
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType) and type(None) in args and len(args) == 2:
        kind, _, arrow = sql_type(next(arg for arg in args if arg is not type(None)))
        return kind, True, arrow
    if origin is typing.Annotated:
        if len(args) != 2 or not isinstance(args[1], str):
            raise ValueError("Annotated takes a type and the name of an SQL type")
        return DataType.parse(args[1]), args[0] in (pa.Array, pa.ChunkedArray), args[0] in (pa.Array, pa.ChunkedArray)
    if origin is list and len(args) == 1:
        return Array(sql_type(args[0])[0]), False, False
    if origin is dict and len(args) == 2:
        return Map(sql_type(args[0])[0], sql_type(args[1])[0]), False, False
    if annotation in (pa.Array, pa.ChunkedArray):
        raise ValueError('an Arrow array says what is in it: Annotated[pa.Array, "BIGINT"]')
    if annotation not in _PLAIN:
        name = getattr(annotation, "__name__", str(annotation))
        raise ValueError(f"the annotation {name} is not an SQL type; known are {KNOWN}")
    return _PLAIN[annotation], False, False


def arrow_of(kind: SqlType) -> pa.DataType:
    """Return the engine's Arrow type for values of a type."""
    from cdc.block import arrow_type

    if isinstance(kind, Array):
        return pa.list_(arrow_of(kind.element))
    if isinstance(kind, Map):
        return pa.map_(arrow_of(kind.key), arrow_of(kind.value))
    assert isinstance(kind, DataType)
    return pa.int64() if kind.kind is Kind.TIME else arrow_type(kind)
