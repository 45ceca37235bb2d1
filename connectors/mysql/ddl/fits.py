"""Whether a constant is a value of its column as it stands. Pure.

Of one that is none a server that is not strict makes another value, as it does in any session of a number for a label,
which it takes as the label's place.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.statements import Default, DefaultKind

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_YEARS = ("1901", "2155")


def is_value(fill: str | None, default: Default, column: MySqlColumn) -> bool:
    """Whether the value that a default comes to, None for NULL, is one that the column keeps as it is."""
    kind = column.type
    if fill is None:
        return column.nullable or default.kind is not DefaultKind.NULL
    if kind in ("enum", "set"):
        return _is_label(fill, default, column)
    if kind in ("char", "varchar"):
        return len(fill) <= (column.length or 0)
    if kind == "year":
        return fill == "0000" or (fill.isdigit() and _YEARS[0] <= fill <= _YEARS[1])
    if kind in _BITS or kind in ("decimal", "float", "double"):
        return _is_in_range(fill, column)
    return True


def _is_label(fill: str, default: Default, column: MySqlColumn) -> bool:
    if default.bracketed and default.kind is not DefaultKind.STRING:
        return False
    if column.type == "enum":
        return fill in column.labels
    return len(fill.split(",")) == len({label.lower().rstrip(" ") for label in default.text.split(",")})


def _is_in_range(fill: str, column: MySqlColumn) -> bool:
    try:
        number = Decimal(fill)
    except InvalidOperation:
        return False
    if not math.isfinite(number) or (column.unsigned and number < 0):
        return False
    if column.type in _BITS:
        top = 1 << (_BITS[column.type] - (not column.unsigned))
        return -top <= number < top
    return column.scale is None or abs(number) < 10 ** ((column.length or 0) - column.scale)
