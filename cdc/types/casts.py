"""Casts Arrow columns between column types. Pure; executor.

Into text: numbers plain (`12.50`, never an exponent for decimals), times in ISO form, bytes in base64.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import arrow_type
from cdc.schema import DataType, Kind
from cdc.types import text
from cdc.types.kinds import BINARIES, EXACT, REALS, TEXTS, TIMES, TIMESTAMPS

Cast = Callable[[pa.Array], pa.Array]
"""Casts a column. Raises ArrowInvalid, ValueError or ArithmeticError if a value does not fit."""

_MOST = 76
"""The most digits of an Arrow decimal128."""
_INFINITE = 2**63 - 1
"""The time infinity in microseconds; its negative is -infinity."""


def cast_for(source: DataType, target: DataType, zone: str) -> Cast | None:
    """The cast from one type to another; None if values need no cast."""
    cast = _any_digits(source, target, zone)
    digits = target.length if target.kind in TIMES else None
    if digits is None or digits >= _fractional_digits(source):
        return cast
    return lambda values: _without_more(values if cast is None else cast(values), digits)


def _fractional_digits(source: DataType) -> int:
    """The most fractional digits of a second in values of a type."""
    return source.length or 0 if source.kind in (Kind.DATE, *TIMES) else 6


def _without_more(times: pa.Array, digits: int) -> pa.Array:
    if more_digits(times, digits).any():
        raise ValueError("more fractional digits")
    return times


def more_digits(times: pa.Array, digits: int) -> np.ndarray:
    """Return bool[n]: times, in microseconds, with more fractional digits; sinks round or cut them silently.

    Infinite times have none.
    """
    micros = times.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray((micros % 10 ** max(6 - digits, 0) != 0) & (np.abs(micros) != _INFINITE))


def _any_digits(source: DataType, target: DataType, zone: str) -> Cast | None:
    """The cast; None if values need none, whatever their fractional digits are."""
    if source == target:
        return None
    if target.kind is Kind.JSON:
        return _to_json(source)
    if target.kind in TEXTS:
        return _to_text(source)
    if target.kind is Kind.DECIMAL and arrow_type(target) == pa.string():
        return _decimal_text(target)
    if source.kind is Kind.DECIMAL and arrow_type(source) == pa.string():
        return _parsed(target)
    if {source.kind, target.kind} == TIMESTAMPS:
        return _zoned(target, zone)
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP_LTZ:
        return lambda values: _zoned(target, zone)(values.cast(pa.timestamp("us")))
    if arrow_type(source) == arrow_type(target):
        return None
    if target.kind in REALS and (source.kind is Kind.DECIMAL or (target.kind is Kind.FLOAT and source.kind in REALS)):
        return _to_real(target)
    if target.kind in REALS and source.kind in TEXTS:
        return _read_real(target)
    if target.kind is Kind.DECIMAL:
        return _to_decimal(target)
    if target.kind is Kind.DATE and source.kind in TIMESTAMPS:
        return _day
    if target.kind in BINARIES and source.kind in TEXTS:
        return lambda values: values.cast(pa.binary())
    target_type = arrow_type(target)
    return lambda values: pc.cast(values, target_type, safe=True)


def _day(values: pa.Array) -> pa.Array:
    """Cast midnight timestamps to dates; Arrow would silently drop the time of others."""
    days = values.cast(pa.date32())
    if not pc.all(pc.equal(days.cast(values.type), values), min_count=0).as_py():
        raise ValueError("a time of day")
    return days


def _zoned(target: DataType, zone: str) -> Cast:
    """Cast local times of a zone to instants, or instants to local times.

    Fails for a local time that is skipped in spring, and for the second of two instants with the same local time.
    """

    def to_instant(values: pa.Array) -> pa.Array:
        return pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="raise").cast(arrow_type(target))

    def to_clock(values: pa.Array) -> pa.Array:
        instants = values.cast(pa.timestamp("us", tz=zone))
        clocks = pc.local_timestamp(instants)
        if is_second_of_two(instants, clocks).any():
            raise ValueError("the second of two instants with the same time")
        return clocks

    return to_instant if target.kind is Kind.TIMESTAMP_LTZ else to_clock


def is_second_of_two(instants: pa.Array, clocks: pa.Array) -> np.ndarray:
    """bool[n], true where the zone's clock showed the same time before, as for an hour in autumn."""
    first = pc.assume_timezone(clocks, instants.type.tz, ambiguous="earliest", nonexistent="latest")
    return np.asarray(pc.not_equal(first, instants).fill_null(False), bool)


def _to_decimal(target: DataType) -> Cast:
    """Cast through a decimal with more digits than any value: Arrow checks the types, not the values."""
    target_type = arrow_type(target)

    def cast(values: pa.Array) -> pa.Array:
        if pa.types.is_decimal(values.type):
            return values.cast(pa.decimal256(_MOST, max(values.type.scale, target.scale or 0))).cast(target_type)
        if pa.types.is_integer(values.type):
            return values.cast(pa.decimal256(_MOST, target.scale or 0)).cast(target_type)
        return pa.array([_number(value) for value in values.to_pylist()], target_type)

    return cast


def _to_real(target: DataType) -> Cast:
    """Cast decimals and doubles that stay the same number; Arrow would silently round others, or make them infinite."""
    target_type = arrow_type(target)

    def cast(values: pa.Array) -> pa.Array:
        found = values.cast(target_type)
        same = pc.equal(found.cast(values.type), values)
        if pa.types.is_floating(values.type):
            same = pc.or_(same, pc.is_nan(values))
        if not pc.all(same, min_count=0).as_py():
            raise ValueError("a rounded number")
        return found

    return cast


def _read_real(target: DataType) -> Cast:
    """Cast the text of numbers that keep all their digits; Arrow would silently round others, or make them infinite."""
    target_type = arrow_type(target)

    def cast(values: pa.Array) -> pa.Array:
        found = values.cast(target_type)
        for written, number in zip(values.to_pylist(), found.fill_null(0).to_numpy(zero_copy_only=False), strict=True):
            if written is not None and not np.isnan(number) and Decimal(str(number)) != _number(written):
                raise ValueError("a rounded number")
        return found

    return cast


def _decimal_text(target: DataType) -> Cast:
    """Cast to a decimal of more than 38 digits, which is text with all digits of its scale."""
    step, digits = Decimal(1).scaleb(-(target.scale or 0)), (target.length or 10) - (target.scale or 0)

    def spelled(value: Any) -> str | None:
        number = _number(value)
        if number is None:
            return None
        if number.copy_abs() >= Decimal(10) ** digits or number != number.quantize(step, context=EXACT):
            raise ValueError(value)
        return f"{number.quantize(step, context=EXACT):f}"

    return lambda values: pa.array([spelled(value) for value in values.to_pylist()], pa.string())


def _number(value: Any) -> Decimal | None:
    return None if value is None else Decimal(str(value).strip())


def _parsed(target: DataType) -> Cast:
    """Cast the text of a long decimal to another number."""
    if target.kind in REALS:
        return _read_real(target)
    target_type = arrow_type(target)

    def cast(values: pa.Array) -> pa.Array:
        numbers = [_number(value) for value in values.to_pylist()]
        if target.kind is Kind.DECIMAL:
            return pa.array(numbers, target_type)
        return pa.array([None if number is None else _integer_part(number) for number in numbers], target_type)

    return cast


def _integer_part(number: Decimal) -> int:
    if number != number.to_integral_value():
        raise ValueError(number)
    return int(number)


def _to_json(source: DataType) -> Cast | None:
    """Cast text that is valid JSON, and numbers, to JSON."""
    spell = _to_text(source)

    def cast(values: pa.Array) -> pa.Array:
        texts = values if spell is None else spell(values)
        for text_ in texts.to_pylist():
            if text_ is not None:
                json.loads(text_, parse_constant=_no_json)
        return texts

    return cast


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)


def _to_text(source: DataType) -> Cast | None:
    kind = source.kind
    if kind in TEXTS or kind is Kind.JSON or arrow_type(source) == pa.string():
        return None
    if kind in TIMES:
        return lambda values: text.without_zeros(text.plain(values))
    return text.plain
