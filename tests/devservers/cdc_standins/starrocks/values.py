"""Text of a field to the value of a column, one value at a time: the rules. `columns.py` applies them to many.

What is not accepted raises Invalid; the caller makes it NULL or filters the row, as strict_mode says.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from cdc_standins.starrocks.types import INTEGER_BITS, LONGEST_VARCHAR, ColumnType

INTEGER = re.compile(rb"[+-]?[0-9]+")
NUMBER = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DASHED = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?)?", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2}))?", re.ASCII)
_WIDE = Context(prec=200)
_SPECIAL_FLOATS = frozenset({b"nan", b"inf", b"-inf", b"+inf", b"infinity", b"-infinity", b"+infinity"})


class Invalid(ValueError):
    """The text is no value of the type."""


def parser(kind: ColumnType) -> Callable[[bytes], Any]:
    """The function that reads a field of this type. It raises Invalid."""
    if kind.name in INTEGER_BITS:
        bits = INTEGER_BITS[kind.name]
        return (lambda text: str(_integer(text, bits))) if bits == 128 else (lambda text: _integer(text, bits))
    if kind.name == "DECIMAL":
        return lambda text: decimal_value(text, kind.precision, kind.scale)
    if kind.name in ("CHAR", "VARCHAR"):
        return lambda text: _fits(text, kind).decode()
    return {
        "BOOLEAN": _boolean,
        "FLOAT": _float,
        "DOUBLE": _double,
        "DATE": _date,
        "DATETIME": _datetime,
        "JSON": _json,
        "VARBINARY": lambda text: _fits(text, kind),
    }[kind.name]


def _integer(text: bytes, bits: int) -> int:
    if not INTEGER.fullmatch(text):
        raise Invalid
    value = int(text)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Invalid
    return value


def _boolean(text: bytes) -> bool:
    word = text.lower()
    if word in (b"true", b"false"):
        return word == b"true"
    return _number(text) != 0


def _double(text: bytes) -> float:
    value = _number(text)
    if math.isinf(value):
        raise Invalid
    return value


def _float(text: bytes) -> float:
    value = _double(text)
    if abs(value) > 3.4028235677973366e38:
        raise Invalid
    return value


def _number(text: bytes) -> float:
    if not NUMBER.fullmatch(text):
        raise Invalid
    return float(text)


def decimal_value(text: bytes, precision: int, scale: int) -> Decimal:
    """Decimal text, its fraction rounded half up to `scale` digits."""
    if not NUMBER.fullmatch(text):
        raise Invalid
    try:
        value = Decimal(text.decode(), _WIDE).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    except InvalidOperation:
        raise Invalid from None
    if value.copy_abs() >= Decimal(10) ** (precision - scale):
        raise Invalid
    return value


def _parts(text: bytes) -> datetime:
    try:
        written = text.decode("ascii")
        match = _DASHED.fullmatch(written) or _COMPACT.fullmatch(written)
        if match is None:
            raise Invalid
        year, month, day, hour, minute, second, *fraction = match.groups()
        micros = int(fraction[0].ljust(6, "0")) if fraction and fraction[0] else 0
        clock = time(int(hour or 0), int(minute or 0), int(second or 0), micros)
        return datetime.combine(date(int(year), int(month), int(day)), clock)
    except ValueError:
        raise Invalid from None


def _date(text: bytes) -> date:
    return _parts(text).date()


def _datetime(text: bytes) -> datetime:
    return _parts(text)


def _json(text: bytes) -> str:
    try:
        written = text.decode()
        json.loads(written, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Invalid from None
    return written


def _no_constant(_: str) -> None:
    raise Invalid


def _fits(text: bytes, kind: ColumnType) -> bytes:
    if len(text) > min(kind.length or LONGEST_VARCHAR, LONGEST_VARCHAR):
        raise Invalid
    return text
