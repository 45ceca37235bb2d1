"""Many fields at once to an Arrow column: a quick way for text as programs write it, else `values` one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_standins.starrocks.types import INTEGER_BITS, LONGEST_VARCHAR, TEXT, ColumnType
from cdc_standins.starrocks.values import Invalid, parser

_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_DATETIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_NUMBER = r"^-?[0-9]{1,16}(\.[0-9]{1,16})?$"

_SAFE_SCALE = 38 - 16  # beyond it the digits that the pattern allows could overflow unseen when Arrow scales them

Flags = np.ndarray[Any, np.dtype[np.bool_]]


def convert(fields: Sequence[bytes | None], kind: ColumnType) -> tuple[pa.Array, Flags]:
    """Fields (None is NULL) as a column of `kind.arrow`, and flags of those that are no value of it (NULL there)."""
    column = pa.array(fields, pa.binary())
    quick = _quick(column, kind)
    if quick is not None:
        return quick, np.zeros(len(fields), np.bool_)
    return _one_by_one(fields, kind)


def _quick(column: pa.Array, kind: ColumnType) -> pa.Array | None:
    """The column when every field is written in the plainest way, else None."""
    try:
        if kind.name in INTEGER_BITS:
            return _integers(column, kind)
        if kind.name in TEXT or kind.name == "VARBINARY":
            return _texts(column, kind)
        if kind.name == "DECIMAL" and kind.scale <= _SAFE_SCALE:
            return _all_match(column, _NUMBER).cast(kind.arrow)
        if kind.name in ("DATE", "DATETIME"):
            return _all_match(column, _DATE if kind.name == "DATE" else _DATETIME).cast(kind.arrow)
        if kind.name == "DOUBLE":
            return _all_match(column, _NUMBER).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return None


def _integers(column: pa.Array, kind: ColumnType) -> pa.Array:
    numbers = _all_match(column, r"^-?[0-9]{1,18}$").cast(pa.int64())
    return numbers.cast(kind.arrow)  # safe: raises ArrowInvalid on overflow


def _texts(column: pa.Array, kind: ColumnType) -> pa.Array:
    longest = pc.max(pc.binary_length(column)).as_py() or 0
    if longest > min(kind.length or LONGEST_VARCHAR, LONGEST_VARCHAR):
        raise pa.ArrowInvalid("too long")
    return column.cast(kind.arrow)


def _all_match(column: pa.Array, pattern: str) -> pa.Array:
    if pc.all(pc.match_substring_regex(column, pattern)).as_py() is False:
        raise pa.ArrowInvalid("not plain")
    return column.cast(pa.string())


def _one_by_one(fields: Sequence[bytes | None], kind: ColumnType) -> tuple[pa.Array, Flags]:
    parse = parser(kind)
    invalid = np.zeros(len(fields), np.bool_)
    values: list[Any] = [None] * len(fields)
    for position, field in enumerate(fields):
        if field is None:
            continue
        try:
            values[position] = parse(field)
        except Invalid:
            invalid[position] = True
    return pa.array(values, kind.arrow), invalid
