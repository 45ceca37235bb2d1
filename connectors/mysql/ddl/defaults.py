"""A column's DEFAULT as the text in MySQL's `information_schema`: rounded, padded and spelled like a stored value.

Bytes are shown as `0x6162`, as by MySQL itself, also where MariaDB shows them as text with `?` in it. Computed
defaults, including CURRENT_TIMESTAMP, have no text. `fill_text` is the value of existing rows when the column is added.
"""

from __future__ import annotations

import math
import re
import uuid
from datetime import date
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

from cdc.errors import SchemaUnknown, UnsupportedChange
from connectors.mysql.addresses import FAMILIES, address_bytes, address_text
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.statements import Default, DefaultKind
from connectors.shared.ddl.tokens import TokenKind
from connectors.shared.ddl.types import literal_bytes

_DIGITS = Context(prec=65 + 30)
"""Precise enough for every DECIMAL; Python's own context ends at 28 digits."""

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "decimal", "float", "double", "year")
_DATES = ("date", "datetime", "timestamp")
_EMPTY = {
    "json": "null", "inet4": "0.0.0.0", "inet6": "::", "uuid": "00000000-0000-0000-0000-000000000000",
}  # fmt: skip
_NO_LITERAL = ("text", "blob", "json")
_DATE = re.compile(r"(\d{4}|\d{2})\D?(\d{1,2})\D?(\d{1,2})(?:[T\s]+(.*))?")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_COMPACT = re.compile(r"(\d{4}|\d{2})(\d{2})(\d{2})(?:(\d{2})(\d{2})(\d{2})(\.\d*)?)?")
_CLOCK = re.compile(r"(\d{1,3})(?:\D(\d{1,2}))?(?:\D(\d{1,2}))?(?:\.(\d*))?")
_SPAN = re.compile(r"(?:(\d{1,2})\s+)?(\d{1,3})((?::\d{1,2}(?::\d{1,2}(?:\.\d*)?)?)?)")
"""A written TIME: days, hours, and the rest."""


def default_text(default: Default | None, column: MySqlColumn, dialect: DdlDialect) -> str | None:
    """Return the default's text, None when there is none or it is NULL or computed.

    MySQL refuses a plain literal for texts and documents of any size, and drops it in non-strict sessions.
    """
    if default is None or (not dialect.mariadb and (default.bracketed or column.type.endswith(_NO_LITERAL))):
        return None
    if dialect.mariadb and column.labels and default.kind is DefaultKind.NUMBER and default.text.isdigit():
        return _labels_of(int(default.text), column)
    return literal_text(default, column)


def literal_text(default: Default, column: MySqlColumn) -> str | None:
    """Return the text of a literal as a value of the column; None for NULL and for computed ones."""
    if default.kind in (DefaultKind.NULL, DefaultKind.EXPRESSION, DefaultKind.NOW):
        return None
    if column.type == "bit":
        return f"b'{_bits(default, column.length or 1):b}'"
    raw = _bytes(default) if default.kind in (DefaultKind.HEX, DefaultKind.BIT) else None
    if is_bytes(column.type):
        return bytes_text(default.text.encode() if raw is None else raw, column.type, column.length)
    if raw is None:
        text = default.text
    elif column.type == "uuid" or column.type in FAMILIES:
        return _address(raw, column.type)
    else:
        text = str(int.from_bytes(raw, "big")) if column.type in _NUMBERS else decoded(raw, column)
    if column.type == "year" and default.kind is DefaultKind.STRING and text in ("0", "00"):
        return "2000"
    return _stored(text, column)


def is_bytes(kind: str) -> bool:
    """Return whether values of the column type are bytes."""
    return kind.endswith(("binary", "blob")) or kind == "vector"


def bytes_text(value: bytes, kind: str, length: int | None) -> str:
    """Format bytes as `0x6162`, for BINARY padded to its length; the empty value is empty text."""
    if kind == "binary":
        value = value.ljust(length or 0, b"\0")
    return f"0x{value.hex().upper()}" if value else ""


def decoded(value: bytes, column: MySqlColumn) -> str:
    """Decode bytes in the column's character set. Raises SchemaUnknown when they are invalid."""
    import pyarrow as pa

    from connectors.mysql.charsets.conversion import to_utf8

    try:
        return str(to_utf8(pa.array([value], pa.binary()), column.charset or "utf8mb4")[0].as_py())
    except UnsupportedChange as error:
        hint = "give the column a default and labels that are text, or exclude the table with tables.exclude"
        raise SchemaUnknown(f"column {column.name}: {error.message}", hint=hint) from error


def fill_text(column: MySqlColumn) -> str | None:
    """Return the value of existing rows in an added column: its default, else NULL, else MySQL's implicit default.

    None also for a computed value, and for a date that is NULL in rows as well, such as a zero date.
    """
    if column.default is not None or column.nullable or column.generated:
        return value_text(column.default, column)
    if column.type in _NUMBERS:
        return _stored("0", column)
    if column.type == "bit":
        return "b'0'"
    if column.type == "enum":
        return column.labels[0]
    if column.type == "time":
        return _stored("0", column)
    if column.type == "binary":
        return bytes_text(b"", column.type, column.length)
    if column.type in _EMPTY:
        return _EMPTY[column.type]
    return "" if column.type.endswith(("char", "text", "blob", "varbinary", "set")) else None


def value_text(text: str | None, column: MySqlColumn) -> str | None:
    """Return the value of a default's text; None for a date that is not in the calendar, which has no year 0."""
    if text is None or column.type not in _DATES or not _DAY.match(text):
        return text
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return None
    return text


def _stored(text: str, column: MySqlColumn) -> str:
    """Format the text like a value of the column's type."""
    kind = column.type
    if kind == "year":
        return _year(text)
    if kind in _NUMBERS:
        return _number(text, column)
    if kind in ("date", "datetime", "timestamp"):
        return _date(text, column)
    if kind == "time":
        return _time(text, column.length or 0)
    if kind == "enum":
        return _labels([text], column)
    if kind == "set":
        return _labels(text.split(",") if text else [], column)
    if kind == "char":
        return text.rstrip(" ")
    if kind == "uuid" or kind in FAMILIES:
        return _address(text, kind)
    return text


def _address(value: str | bytes, kind: str) -> str:
    """Format a UUID or an internet address like the server; an invalid one stays as it is."""
    try:
        if kind == "uuid":
            return str(uuid.UUID(value) if isinstance(value, str) else uuid.UUID(bytes=value))
        return address_text(address_bytes(value, kind) if isinstance(value, str) else value, kind)
    except (ValueError, OSError):
        return value if isinstance(value, str) else f"0x{value.hex().upper()}"


def _number(text: str, column: MySqlColumn) -> str:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return text
    if column.type in ("float", "double") and column.scale is None:
        number = f"{float(value):.6g}" if column.type == "float" else repr(float(value))
        return number.removesuffix(".0")
    scale = column.scale or 0
    if column.type in ("float", "double") and math.isfinite(float(value)):
        return f"{_rounded_double(float(value), scale):.{scale}f}"
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _DIGITS)
    return f"{rounded or abs(rounded):f}"


def _rounded_double(value: float, scale: int) -> float:
    """Round a number to FLOAT(M, D) or DOUBLE(M, D) like the servers: of the binary value, halves to even.

    Source: `Field_real::truncate_double` in sql/field.cc.
    """
    whole = math.floor(value)
    factor = 10.0**scale
    return whole + round((value - whole) * factor) / factor


def _year(text: str) -> str:
    if not text.isdigit() or len(text) > 2:
        return text.zfill(4)
    # A one- or two-digit number is a year from 1970 to 2069; the number 0 is the zero year.
    return "0000" if int(text) == 0 else str(int(text) + (2000 if int(text) < 70 else 1900))


def _date(text: str, column: MySqlColumn) -> str:
    digits = 0 if column.type == "date" else column.length or 0
    if text.strip() == "0":
        day, clock = "0000-00-00", "0"
    else:
        match = _COMPACT.fullmatch(text.strip()) or _DATE.fullmatch(text.strip())
        if match is None:
            return text
        year = match[1] if len(match[1]) == 4 else _year(match[1])
        day = f"{year}-{int(match[2]):02}-{int(match[3]):02}"
        compact = match.re is _COMPACT and match[4]
        clock = f"{match[4]}:{match[5]}:{match[6]}{match[7] or ''}" if compact else match[4] or "0"
    return day if column.type == "date" else f"{day} {_clock(clock, digits)}"


def _time(text: str, digits: int) -> str:
    sign = "-" if text.startswith("-") else ""
    written, text = text, text.removeprefix("-")
    if text.partition(".")[0].isdigit() and ":" not in text:
        # A bare number is HHMMSS read from the right.
        whole, dot, fraction = text.partition(".")
        whole = whole.zfill(6)
        text = f"{whole[:-4]}:{whole[-4:-2]}:{whole[-2:]}{dot}{fraction}"
    match = _SPAN.fullmatch(text)
    if match is None:
        return written
    days, hours, rest = match.groups()
    clock = _clock(f"{24 * int(days or 0) + int(hours)}{rest}", digits)
    return f"{sign}{clock}" if clock.strip("0:.") else clock


def _clock(text: str, digits: int) -> str:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return text
    clock = f"{int(match[1]):02}:{int(match[2] or 0):02}:{int(match[3] or 0):02}"
    return f"{clock}.{(match[4] or '').ljust(digits, '0')[:digits]}" if digits else clock


def _labels(values: list[str], column: MySqlColumn) -> str:
    """Return members in the case and order of the definition."""
    if column.type == "enum":
        spelled = values[0].lower(), values[0].lower().rstrip(" ")
        return next((label for label in column.labels if label.lower() in spelled), values[0])
    wanted = {value.lower().rstrip(" ") for value in values}
    return ",".join(label for label in column.labels if label.lower() in wanted)


def _labels_of(number: int, column: MySqlColumn) -> str:
    """Return what MariaDB makes of a number: an ENUM's label at this position, a SET's labels at the bits."""
    bits = (1 << number) >> 1 if column.type == "enum" else number
    return ",".join(label for index, label in enumerate(column.labels) if bits >> index & 1)


def _bits(default: Default, length: int) -> int:
    """Return the bits of a literal. A number is rounded, a negative one has the bits of a BIGINT; all bits are most."""
    if default.kind is DefaultKind.NUMBER:
        rounding = ROUND_HALF_EVEN if "e" in default.text.lower() else ROUND_HALF_UP
        number = int(Decimal(default.text).to_integral_value(rounding))
        value = number % (1 << 64) if number < 0 else number
    else:
        data = _bytes(default) if default.kind is not DefaultKind.STRING else default.text.encode()
        value = int.from_bytes(data, "big")
    return min(value, (1 << length) - 1)


def _bytes(default: Default) -> bytes:
    return literal_bytes(TokenKind.HEX if default.kind is DefaultKind.HEX else TokenKind.BIT, default.text)
