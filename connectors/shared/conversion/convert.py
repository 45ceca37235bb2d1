"""Converts single values to the text that a sink column of an unrelated kind reads, or gives the reason for refusal.

This is the slow path, for tables whose columns are of other kinds than the source's: kept across a change of type, or
created by the user. A value passes only if the sink would hold the same value: `12.00` goes into an INT column and
`12.5` does not. For FLOAT and DOUBLE, same means that the stored value prints as the number that was sent.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from cdc.schema import DataType, Kind
from connectors.shared.conversion.geometry import geometry_text
from connectors.shared.conversion.plan import APPROXIMATE, TEXT, WHOLE, ColumnPlan
from connectors.shared.conversion.policy import Reason, RejectedValue
from connectors.shared.conversion.target import TargetColumn, TargetKind

_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}0*[1-9]")


def converter(plan: ColumnPlan) -> Callable[[Any], str]:
    """Return a function from a value, as Arrow gives it to Python, to text. The function raises RejectedValue."""
    target, source = plan.target, plan.source.type
    if target.kind in TEXT:
        return lambda value: plain_text(value, source)
    if target.kind is TargetKind.JSON:
        return lambda value: _json(value, source)
    if target.kind is TargetKind.BOOLEAN:
        return lambda value: _integer_text(_number(value, source), 0, 1)
    if target.kind in WHOLE:
        bits = WHOLE[target.kind]
        return lambda value: _integer_text(_number(value, source), -(1 << bits), (1 << bits) - 1)
    if target.kind is TargetKind.DECIMAL:
        return lambda value: _decimal(_number(value, source), target)
    if target.kind in APPROXIMATE:
        return lambda value: _approximate(_number(value, source), target.kind)
    if target.kind is TargetKind.DATE:
        return lambda value: _date(_moment(value, source))
    if target.kind is TargetKind.DATETIME:
        return lambda value: _datetime(value, source, target)
    return _never


def _never(value: Any) -> str:
    raise RejectedValue(Reason.NOT_CONVERTIBLE)


def plain_text(value: Any, source: DataType) -> str:
    """Format a value of this type like the kernels. Raises RejectedValue for bytes that are not text."""
    if source.kind is Kind.GEOMETRY:
        return geometry_text(value)
    if source.kind is Kind.VECTOR:
        return "[" + ",".join(_float_text(item, np.float32) for item in value) + "]"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return _float_text(value, np.float32 if source.kind is Kind.FLOAT else np.float64)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        return _with_fraction(f"{value:%H:%M:%S}", value.microsecond, source.length or 0, f"{_day(value)} ")
    if isinstance(value, datetime.date):
        return _day(value)
    if isinstance(value, datetime.timedelta):
        return _span(value, source.length or 0)
    if isinstance(value, bytes):
        return _characters(value)
    return str(value)


def _characters(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RejectedValue(Reason.INVALID_UTF8) from error


def _float_text(value: float, width: type[np.floating[Any]]) -> str:
    if not math.isfinite(value):
        raise RejectedValue(Reason.NOT_FINITE)
    number = width(value)
    plain = 1e-5 <= abs(number) < 1e16 or number == 0
    text = np.format_float_positional(number, trim="-") if plain else np.format_float_scientific(number, trim="-")
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _day(value: datetime.date) -> str:
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"


def _with_fraction(clock: str, micros: int, digits: int, before: str = "") -> str:
    return f"{before}{clock}.{micros:06d}"[: len(before) + len(clock) + 1 + digits].removesuffix(".")


def _span(value: datetime.timedelta, digits: int) -> str:
    sign, value = ("-", -value) if value < datetime.timedelta(0) else ("", value)
    seconds = value.days * 86_400 + value.seconds
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return _with_fraction(clock, value.microseconds, digits, sign)


def _number(value: Any, source: DataType) -> Decimal:
    """Return the number that a value is or spells."""
    if isinstance(value, bool | int):
        return Decimal(int(value))
    if isinstance(value, Decimal):
        return value
    if isinstance(value, float):
        return Decimal(_float_text(value, np.float32 if source.kind is Kind.FLOAT else np.float64))
    if not isinstance(value, str):
        raise RejectedValue(Reason.NOT_CONVERTIBLE)
    try:
        number = Decimal(value)
    except InvalidOperation as error:
        raise RejectedValue(Reason.NOT_CONVERTIBLE) from error
    if "_" in value or not value.isascii() or not number.is_finite():
        raise RejectedValue(Reason.NOT_CONVERTIBLE)
    return number


def _integer_text(number: Decimal, low: int, high: int) -> str:
    if number.adjusted() > 60:
        raise RejectedValue(Reason.OUT_OF_RANGE)
    whole = int(number)
    if not low <= whole <= high:
        raise RejectedValue(Reason.OUT_OF_RANGE)
    if whole != number:
        raise RejectedValue(Reason.DIGITS_LOST, str(whole))
    return str(whole)


def _decimal(number: Decimal, target: TargetColumn) -> str:
    precision, scale = target.length or 10, target.scale or 0
    if number.adjusted() >= 100 or abs(int(number)) >= 10 ** (precision - scale):
        raise RejectedValue(Reason.OUT_OF_RANGE)
    whole, _, fraction = f"{number:f}".partition(".")
    kept = fraction[:scale]
    text = f"{whole}.{kept}" if kept else whole
    if fraction[scale:].strip("0"):
        raise RejectedValue(Reason.DIGITS_LOST, text)
    return text


def _approximate(number: Decimal, kind: TargetKind) -> str:
    width = np.float32 if kind is TargetKind.FLOAT else np.float64
    with np.errstate(over="ignore"):
        held = width(float(number)) if number.adjusted() < 400 else width("inf")
    if not np.isfinite(held):
        raise RejectedValue(Reason.OUT_OF_RANGE)
    text = _float_text(float(held), width)
    if Decimal(text) != number:
        raise RejectedValue(Reason.DIGITS_LOST, text)
    return text


def _moment(value: Any, source: DataType) -> datetime.datetime:
    """Return the wall clock time that a value is or spells."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    if not isinstance(value, str) or source.kind is Kind.JSON:
        raise RejectedValue(Reason.NOT_CONVERTIBLE)
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError as error:
        raise RejectedValue(Reason.NOT_CONVERTIBLE) from error
    if moment.tzinfo is not None:
        raise RejectedValue(Reason.NOT_CONVERTIBLE)
    return moment


def _date(moment: datetime.datetime) -> str:
    if moment.time() != datetime.time():
        raise RejectedValue(Reason.DIGITS_LOST, _day(moment))
    return _day(moment)


def _datetime(value: Any, source: DataType, target: TargetColumn) -> str:
    moment = _moment(value, source)
    digits = 6 if target.length is None else target.length
    text = _with_fraction(f"{moment:%H:%M:%S}", moment.microsecond, digits, f"{_day(moment)} ")
    finer = isinstance(value, str) and _BEYOND_MICROSECONDS.search(value) is not None
    if finer or moment.microsecond % 10 ** (6 - digits):
        raise RejectedValue(Reason.DIGITS_LOST, text)
    return text


def _json(value: Any, source: DataType) -> str:
    """Return a JSON document: valid JSON text as it is, numbers as text; everything else is rejected."""
    text = _characters(value) if isinstance(value, bytes) else value
    if isinstance(value, float | Decimal):
        return plain_text(value, source)
    if not isinstance(text, str):
        raise RejectedValue(Reason.NOT_CONVERTIBLE)
    try:
        json.loads(text, parse_constant=_never)
    except (ValueError, RecursionError) as error:
        raise RejectedValue(Reason.INVALID_JSON) from error
    return text
