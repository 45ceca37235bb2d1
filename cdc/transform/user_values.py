"""Converts arguments and results of user functions; values that do not fit the declared type are refused."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.schema import DataType, Kind
from cdc.transform.limits import is_strict_json
from cdc.transform.types import JSON, Array, Map, SqlType, digits, kind_of
from cdc.transform.user_types import arrow_of
from cdc.types.kinds import BINARIES, FLOAT_OVERFLOW, INTEGERS, TEXTS

Give = Callable[[Any], Any]

EXACT = Context(prec=76)
"""What functions compute with: the product of two DECIMALs has all its digits; Python's own context ends at 28."""


def values_of(array: pa.ChunkedArray, kind: SqlType) -> list[Any]:
    """Return the values of a column as arguments of a function of single values."""
    values = array.to_pylist()
    if isinstance(kind, Map):
        return [None if value is None else dict(value) for value in values]
    if kind == JSON:
        return [None if value is None else json.loads(value) for value in values]
    if kind_of(kind) is Kind.TIME:
        return pa.array(values, pa.duration("us")).to_pylist()  # type: ignore[no-any-return]
    return values  # type: ignore[no-any-return]


def giving(kind: SqlType) -> Give:
    """Return a converter from a function's result to the engine's value, which raises ValueError if it does not fit."""
    inner = _giving(kind)
    return lambda value: None if value is None else inner(value)


def _giving(kind: SqlType) -> Give:
    if isinstance(kind, Array):
        element = giving(kind.element)
        return lambda value: [element(each) for each in _of(value, kind, list, tuple, np.ndarray)]
    if isinstance(kind, Map):
        key, item = giving(kind.key), giving(kind.value)
        return lambda value: [(key(name), item(each)) for name, each in _of(value, kind, Mapping).items()]
    assert isinstance(kind, DataType)
    found = _PLAIN.get(kind.kind)
    if kind.kind in INTEGERS:
        bounds = np.iinfo(arrow_of(kind).to_pandas_dtype())
        return lambda value: _integer(value, kind, int(bounds.min), int(bounds.max))
    if kind.kind is Kind.DECIMAL:
        return lambda value: _decimal(value, kind)
    if kind == JSON:
        return lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False)
    return (lambda value: found(value, kind)) if found is not None else lambda value: value


def _of(value: Any, kind: SqlType, *types: type) -> Any:
    if not isinstance(value, types):
        raise _refusal(value, kind)
    return value


def _refusal(value: object, kind: SqlType, why: str = "") -> ValueError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return ValueError(f"it returned {shown}, a {type(value).__name__}, for {kind}{why}")


def _integer(value: Any, kind: SqlType, least: int, most: int) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise _refusal(value, kind, ": round it to an int")
    if not least <= int(value) <= most:
        raise _refusal(value, kind, f", which goes from {least} to {most}")
    return int(value)


def _real(value: Any, kind: SqlType) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise _refusal(value, kind)
    found = float(value)
    if isinstance(value, Integral) and int(found) != value:
        raise _refusal(value, kind, ", which cannot hold all of its digits")
    if not math.isfinite(found) or (kind_of(kind) is Kind.FLOAT and abs(found) >= FLOAT_OVERFLOW):
        raise _refusal(value, kind)
    return found


def _decimal(value: Any, kind: SqlType) -> Decimal:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Decimal | Integral):
        raise _refusal(value, kind, ": make it a Decimal")
    found = value if isinstance(value, Decimal) else Decimal(int(value))
    if not found.is_finite():
        raise _refusal(value, kind)
    precision, scale = digits(kind)
    _, numbers, exponent = found.as_tuple()
    decimals = max(0, -int(exponent) - _zeros(numbers))
    if decimals > scale:
        raise _refusal(value, kind, f", which has {scale} digits after the point: round it")
    if found and found.adjusted() + 1 > precision - scale:
        raise _refusal(value, kind, f", which has {precision - scale} digits in front of the point")
    return found.quantize(Decimal(1).scaleb(-scale), context=EXACT)


def _zeros(numbers: tuple[int, ...]) -> int:
    """Count trailing zeros, which are insignificant after the point."""
    count = 0
    while count < len(numbers) and numbers[-1 - count] == 0:
        count += 1
    return count


def _date(value: Any, kind: SqlType) -> datetime.date:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise _refusal(value, kind, ": .date() is the day")
    return value


def _moment(value: Any, kind: SqlType) -> datetime.datetime:
    found: datetime.datetime = _of(value, kind, datetime.datetime)
    zoned = kind_of(kind) is Kind.TIMESTAMP_LTZ
    if (found.tzinfo is not None) is not zoned:
        raise _refusal(value, kind, ", which has a time zone" if zoned else ", which has no time zone")
    return found


def _span(value: Any, kind: SqlType) -> int:
    found: datetime.timedelta = _of(value, kind, datetime.timedelta)
    return (found.days * 86_400 + found.seconds) * 1_000_000 + found.microseconds


def _bytes(value: Any, kind: SqlType) -> bytes:
    return bytes(_short(_of(value, kind, bytes, bytearray, memoryview), kind))


def _text(value: Any, kind: SqlType) -> Any:
    return _short(_of(value, kind, str), kind)


def _short(value: Any, kind: SqlType) -> Any:
    """Return text or bytes that are not longer than the type. Raises ValueError."""
    most = _longest(kind)
    if most is not None and len(value) > most:
        raise _refusal(value, kind, f": it has a length of {len(value)}")
    return value


def _longest(kind: SqlType) -> int | None:
    return kind.length if isinstance(kind, DataType) and kind.kind in (*TEXTS, *BINARIES) else None


_PLAIN: dict[Kind, Callable[[Any, SqlType], Any]] = {
    Kind.BOOLEAN: lambda value, kind: bool(_of(value, kind, bool, np.bool_)),
    Kind.FLOAT: _real, Kind.DOUBLE: _real, Kind.DATE: _date, Kind.TIMESTAMP: _moment, Kind.TIMESTAMP_LTZ: _moment,
    Kind.TIME: _span,
    **dict.fromkeys(TEXTS, _text),
    **dict.fromkeys(BINARIES, _bytes),
}  # fmt: skip


def fitting(array: object, kind: SqlType, count: int) -> pa.Array:
    """Convert the array returned by a vectorised function for the engine.

    Raises ValueError for one of another length or kind, and for values that the type cannot hold unchanged.
    """
    if not isinstance(array, pa.Array | pa.ChunkedArray) or len(array) != count:
        raise ValueError(f"an Arrow array of {count} values was expected")
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    target = arrow_of(kind)
    if whole.type == target:
        found = whole
    elif any(each(whole.type) for each in _FAMILIES.get(_family(target), ())) and not _changes_zone(whole.type, target):
        try:
            exact = pa.types.is_integer(whole.type) and pa.types.is_decimal(target)
            found = (whole.cast(pa.decimal256(76, target.scale)) if exact else whole).cast(target)
        except pa.ArrowException as error:
            raise ValueError(f"it returned a value that {kind} cannot hold: {error}") from error
    else:
        raise ValueError(f"it returned an array of {whole.type} for {kind}, which takes {target}")
    most = _longest(kind)
    if most is not None:
        lengths = pc.binary_length(found) if pa.types.is_binary(target) else pc.utf8_length(found)
        if (pc.max(lengths).as_py() or 0) > most:
            raise ValueError(f"it returned a value that is longer than {kind}")
    if kind == JSON and pc.all(is_strict_json(found)).as_py() is False:
        raise ValueError("it returned text that is not JSON")
    return found


def _family(target: pa.DataType) -> str:
    tests = {
        "int": pa.types.is_integer, "float": pa.types.is_floating, "decimal": pa.types.is_decimal,
        "text": pa.types.is_string, "bytes": pa.types.is_binary, "date": pa.types.is_date,
        "timestamp": pa.types.is_timestamp, "bool": pa.types.is_boolean, "list": pa.types.is_list,
        "map": pa.types.is_map,
    }  # fmt: skip
    return next((name for name, test in tests.items() if test(target)), "")


def _changes_zone(source: pa.DataType, target: pa.DataType) -> bool:
    return pa.types.is_timestamp(source) and (source.tz is None) is not (target.tz is None)


_NULLS = pa.types.is_null
_FAMILIES: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "int": (pa.types.is_integer, pa.types.is_duration, _NULLS),
    "float": (pa.types.is_floating, pa.types.is_integer, _NULLS),
    "decimal": (pa.types.is_decimal, pa.types.is_integer, _NULLS),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, _NULLS),
    "bytes": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, _NULLS),
    "date": (pa.types.is_date, _NULLS),
    "timestamp": (pa.types.is_timestamp, _NULLS),
    "bool": (_NULLS,),
    "list": (_NULLS,),
    "map": (_NULLS,),
}
"""By expected type: Arrow types whose values are equivalent, where they fit."""
