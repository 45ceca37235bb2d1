"""Decides whether existing rows have a certain value in a column that is added with a default. Pure.

The log has the statement, but not the values that the server gave those rows. If they are uncertain, the table is
re-snapshotted.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal, InvalidOperation

from connectors.mysql.ddl.defaults import is_bytes
from connectors.mysql.table import GEOMETRIES, MySqlColumn
from connectors.shared.ddl.statements import Default, DefaultKind
from connectors.shared.ddl.types import STORED_TEXT

_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
_DIGITS = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")
_REAL = re.compile(rf"{_DIGITS.pattern}(?:[eE][-+]?\d+)?")
_EXACT = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal")
_FRACTION = re.compile(r"\.(\d+)$")
_DAYS = re.compile(r"-?\d+\s+\d+")
"""Days and hours without a colon, which MySQL reads as seconds."""
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_YEARS = ("1901", "2155")


def uncertain_default(column: MySqlColumn, default: Default | None, fill: str | None) -> str:
    """Return why the log does not show the values of existing rows in an added column; empty when it does.

    Args:
        default: as in the statement, None without one.
        fill: the resulting value, None for NULL.
    """
    other = f"the default of column {column.name} is no value of its type, and servers make another of it"
    if fill is None:
        if default is not None and not _is_value(fill, default, column):
            return other
        empty = (column.type in GEOMETRIES or column.type == "vector") and not (column.nullable or column.generated)
        return f"rows already there have an empty value of column {column.name}" if empty and default is None else ""
    if column.type == "timestamp" and default is not None:
        return f"the default of column {column.name} is a time in the session's time zone"
    written = "" if default is None else default.text.strip()
    days = column.type == "time" and _DAYS.fullmatch(written)
    if days or (column.type in STORED_TEXT and not STORED_TEXT[column.type].fullmatch(fill)):
        return f"the default of column {column.name} is a time in a spelling of its own"
    if column.type in STORED_TEXT and _loses_digits(written, column):
        return f"the default of column {column.name} has more digits than its type, which servers round or cut"
    if default is not None and _is_reread_number(default, column):
        return f"the default of column {column.name} is a number in a spelling of its own"
    if column.type == "float" and column.scale is None and written and not _same_single(written, fill):
        return f"the default of column {column.name} is shown with fewer digits than it has"
    return "" if default is None or _is_value(fill, default, column) else other


def unsupported_default(column: MySqlColumn, fill: str | None) -> str:
    """Return why not every sink can apply the values of existing rows in an added column; empty when each can.

    StarRocks has no defaults for bytes and JSON, nor has Doris for JSON; releases of Doris differ in how they read a
    backslash in a default, or a quote that must be escaped.
    """
    if fill is None:
        return ""
    if is_bytes(column.type) or column.type == "json" or (column.type == "bit" and column.length not in (None, 1)):
        return f"not every sink takes a default of column {column.name}, which is {column.type.upper()}"
    if "\\" in fill or "\0" in fill or ("'" in fill and '"' in fill):
        return f"not every sink reads the default of column {column.name} as it is, with its quotes or backslashes"
    return ""


def _loses_digits(written: str, column: MySqlColumn) -> bool:
    """Return whether a time is written with digits that the type does not keep; a DATE keeps no time and no offset."""
    if column.type == "date":
        return re.search(r"[T\s].*[1-9+-]", written) is not None
    found = _FRACTION.search(written)
    return found is not None and bool(found[1][column.length or 0 :].strip("0"))


def _is_reread_number(default: Default, column: MySqlColumn) -> bool:
    """Return whether servers read or spell a numeric default differently from its text.

    They go through a DOUBLE, take a year of the century, or drop leading zeros or the sign of zero. MariaDB reads
    `x'31'` as the text 1, and `0x31` as 49.
    """
    if default.kind is DefaultKind.HEX:
        return column.type in (*_EXACT, "float", "double", "year")
    if default.kind not in (DefaultKind.NUMBER, DefaultKind.STRING):
        return False
    text = default.text.strip()
    if column.type.endswith(("char", "text")) or is_bytes(column.type):
        return default.kind is DefaultKind.NUMBER and (not _PLAIN_NUMBER.fullmatch(text) or text == "-0")
    if column.type == "year":
        return not text.isdigit() or len(text) == 3
    if column.type == "bit":
        return default.kind is DefaultKind.NUMBER and not text.isdigit()
    if column.type in ("float", "double"):
        return not _REAL.fullmatch(text) or (text.startswith("-") and not float(text))
    return column.type in _EXACT and not _DIGITS.fullmatch(text)


def _same_single(written: str, shown: str) -> bool:
    """Return whether both texts are the same FLOAT; False for an invalid one, which a non-strict server changed."""
    try:
        return struct.pack("<f", float(written)) == struct.pack("<f", float(shown))
    except (ValueError, OverflowError):
        return False


def _is_value(fill: str | None, default: Default, column: MySqlColumn) -> bool:
    """Return whether the value of a default, None for NULL, is one that the column stores unchanged.

    A non-strict server changes an invalid one; and any session reads a number for a label as the label's index.
    """
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
    return column.scale is None or number.copy_abs() < 10 ** ((column.length or 0) - column.scale)
