"""Checks for computed values that no sink can hold: dates after 9999, numbers beyond DOUBLE, non-standard JSON.

Functions on whole arrays for the engine, and the SQL that calls them: a check written in SQL would compute the
expression twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cdc.schema import DataType, Kind
from cdc.transform.typed import Typed
from cdc.transform.types import SqlType, kind_of
from cdc.types.kinds import REALS

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_US, _LAST_US = _FIRST_DAY * 86_400_000_000, (_LAST_DAY + 1) * 86_400_000_000 - 1
_LONGEST_US = 3_020_399_999_999  # 838:59:59.999999
_YEARS = "the result is outside of the years 1 to 9999"
_SUSPECT = r"(?i)nan|inf|,\s*[\]}]"
"""Parts that the engine accepts in JSON and other systems do not; in valid JSON they occur only inside strings."""

_IN_RANGE = {
    Kind.DATE: "cdc_date({0})",
    Kind.TIMESTAMP: "make_timestamp(cdc_moment(epoch_us({0})))",
    Kind.TIMESTAMP_LTZ: "make_timestamptz(cdc_moment(epoch_us({0})))",
    Kind.TIME: "cdc_time({0})",
    Kind.DOUBLE: "cdc_finite({0})",
    Kind.FLOAT: "CAST(cdc_finite(CAST({0} AS DOUBLE)) AS FLOAT)",
}


def in_range(sql: str, kind: SqlType) -> str:
    """Return SQL of the same value that fails where no sink can hold it."""
    return _IN_RANGE.get(kind.kind, "{0}").format(sql) if isinstance(kind, DataType) else sql


def bounded(sql: str, node: Typed) -> str:
    """Return SQL of an expression that fails where no sink can hold its value, except for values of the source."""
    return sql if _is_uncomputed(node) else in_range(sql, node.type)


def _is_uncomputed(node: Typed) -> bool:
    """Whether a value comes unchanged from the row or the rule: such values are not checked."""
    if node.op == "CASE":
        return all(map(_is_uncomputed, (*node.args[1::2], node.args[-1])))
    if node.op in ("COALESCE", "GREATEST", "LEAST"):
        return all(map(_is_uncomputed, node.args))
    widened = node.op == "cast" and kind_of(node.args[0].type) in REALS and kind_of(node.type) is Kind.DOUBLE
    return node.op in ("literal", "column") or (widened and _is_uncomputed(node.args[0]))


def is_json(sql: str) -> str:
    """Return SQL that checks whether text is JSON."""
    plain = f"NOT regexp_matches({sql}, '{_SUSPECT}')"
    return f"(json_valid({sql}) AND CASE WHEN {plain} THEN TRUE ELSE cdc_json({sql}) END)"


def _between(low: int, high: int, kind: pa.DataType, message: str) -> Callable[[Any], Any]:
    def checked(values: Any) -> Any:
        found = pc.min_max(values.cast(kind)).as_py()
        if found["min"] is not None and (found["min"] < low or found["max"] > high):
            raise ValueError(f"cdc: {message}")
        return _one(values)

    return checked


def in_range_values(values: pa.Array, kind: SqlType) -> pa.Array:
    """Return the values after checking that they are in the range of their kind. Raises ValueError."""
    if isinstance(kind, DataType) and kind.kind in _CHECKED:
        name, seen = _CHECKED[kind.kind]
        CHECKS[name][2](values if seen is None else values.cast(seen))
    return values


def _finite(values: Any) -> Any:
    if pc.any(pc.is_nan(values)).as_py():
        raise ValueError("cdc: the result is NaN, not a number")
    if pc.all(pc.is_finite(values)).as_py() is False:
        raise ValueError("cdc: the result is too large for DOUBLE or FLOAT")
    return _one(values)


def is_strict_json(texts: Any) -> Any:
    """Return whether texts are JSON, bool[n]; NULL for NULL."""
    return pa.array([None if text is None else _is_strict(text) for text in texts.to_pylist()], pa.bool_())


def _is_strict(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _one(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


CHECKS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "cdc_date": ("DATE", "DATE", _between(_FIRST_DAY, _LAST_DAY, pa.int32(), _YEARS)),
    "cdc_moment": ("BIGINT", "BIGINT", _between(_FIRST_US, _LAST_US, pa.int64(), _YEARS)),
    "cdc_time": ("BIGINT", "BIGINT", _between(-_LONGEST_US, _LONGEST_US, pa.int64(), "the result is beyond 838:59:59")),
    "cdc_finite": ("DOUBLE", "DOUBLE", _finite),
    "cdc_json": ("VARCHAR", "BOOLEAN", is_strict_json),
}
"""Functions by name in the engine: type of the argument, type of the result, and the implementation."""

_CHECKED: dict[Kind, tuple[str, pa.DataType | None]] = {
    Kind.DATE: ("cdc_date", None), Kind.TIMESTAMP: ("cdc_moment", pa.int64()),
    Kind.TIMESTAMP_LTZ: ("cdc_moment", pa.int64()), Kind.TIME: ("cdc_time", None), Kind.DOUBLE: ("cdc_finite", None),
    Kind.FLOAT: ("cdc_finite", None),
}  # fmt: skip
"""The function that checks the values of a kind, and the Arrow type that it takes."""
