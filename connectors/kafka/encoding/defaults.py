"""Defaults of columns as Connect schemas have them: in the encoding of the column's values."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from cdc.schema import Column, Kind
from cdc.types.kinds import INTEGERS, TEXTS
from connectors.kafka.modes import EncodingModes

_MILLI_DIGITS = 3
_CLOCK = r"(?P<h>\d+):(?P<m>\d+)(?::(?P<s>\d+)(?:\.(?P<f>\d+))?)?"
_SPAN = re.compile(rf"(?P<sign>-)?{_CLOCK}")
_MOMENT = re.compile(rf"(?P<year>\d+)-(?P<month>\d+)-(?P<day>\d+)(?:[ T]{_CLOCK})?")


def default_of(column: Column, modes: EncodingModes) -> Any:
    """The default's value in JSON, None where there is none or where it is made by an expression.

    A default that a reader would misunderstand is left out: it only matters for messages that lack the column.
    """
    from connectors.kafka.encoding.connect import decimal_base64

    text, kind = column.default, column.type.kind
    if text is None:
        return None
    try:
        if kind is Kind.BIGINT_UNSIGNED:
            return decimal_base64(int(text)) if modes.unsigned == "precise" else _wrapped(int(text))
        if kind in INTEGERS:
            return int(text)
        if kind is Kind.DECIMAL and modes.decimal != "double":
            scale = column.type.scale or 0
            number = Decimal(text).scaleb(scale).to_integral_value()
            if modes.decimal == "string":
                return str(Decimal(text).quantize(Decimal(1).scaleb(-scale)))
            return decimal_base64(int(number))
        if kind in (Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL):
            return float(text)
    except (ValueError, InvalidOperation):
        return None
    if kind in (Kind.DATE, Kind.TIME, Kind.TIMESTAMP):
        return _time_of(text, column, modes)
    return text if kind in TEXTS else None


def _wrapped(number: int) -> int:
    """The number as a signed one of 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _time_of(text: str, column: Column, modes: EncodingModes) -> int | None:
    """Days, milliseconds or microseconds; None for an expression, and for a date that cannot be."""
    kind, digits = column.type.kind, column.type.length or 0
    match = _SPAN.fullmatch(text) if kind is Kind.TIME else _MOMENT.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.group("h", "m", "s"))
    micros = int((match["f"] or "").ljust(6, "0")[:6])
    span = timedelta(hours=hours, minutes=minutes, seconds=seconds, microseconds=micros)
    if kind is Kind.TIME:
        span = -span if match["sign"] else span
        if modes.time == "connect" and not timedelta() <= span < timedelta(days=1):
            return None  # Connect's Time takes none, and readers would refuse the schema
    else:
        try:
            day = datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=UTC)
        except ValueError:
            return None
        span += day - datetime(1970, 1, 1, tzinfo=UTC)
    if kind is Kind.DATE:
        return span.days
    in_millis = modes.time == "connect" or (kind is Kind.TIMESTAMP and digits <= _MILLI_DIGITS)
    return span // timedelta(milliseconds=1) if in_millis else span // timedelta(microseconds=1)
