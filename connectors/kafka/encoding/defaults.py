"""Defaults of columns as Connect schemas have them: in the encoding of the column's values."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from cdc.schema import Column, Kind
from connectors.kafka.encoding.modes import Modes

_INTEGERS = frozenset({
    Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED,
    Kind.INT_UNSIGNED,
})  # fmt: skip
_TEXTS = frozenset({Kind.CHAR, Kind.VARCHAR, Kind.STRING})


def default_of(column: Column, modes: Modes) -> Any:
    """The default's value in JSON, None where there is none or where it is made by an expression.

    A default that a reader would misunderstand is left out: it only matters for messages that lack the column.
    """
    from connectors.kafka.encoding.connect import decimal_base64

    text, kind = column.default, column.type.kind
    if text is None:
        return None
    try:
        if kind in _INTEGERS:
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
    return text if kind in _TEXTS else None
