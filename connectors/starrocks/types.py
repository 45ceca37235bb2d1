"""Convert column types from this tool's to StarRocks's without loss, and back. Pure: nothing is executed.

| type | StarRocks | as part of a key | why |
|---|---|---|---|
| BOOLEAN, TINYINT .. BIGINT | the same | the same | |
| TINYINT, SMALLINT, INT UNSIGNED | SMALLINT, INT, BIGINT | the same | there is no UNSIGNED: the next larger type |
| BIGINT UNSIGNED | LARGEINT | LARGEINT | a DECIMAL cannot be a key |
| DECIMAL(p, s) | DECIMAL(p, s), VARCHAR beyond 38 digits | VARCHAR | a DECIMAL cannot be a key |
| FLOAT, DOUBLE | FLOAT, DOUBLE | VARCHAR(32) | |
| CHAR(n), VARCHAR(n) | VARCHAR(4n) | the same | lengths are bytes; CHAR loses zero bytes at its end |
| STRING | VARCHAR(1048576) | the same | the longest that StarRocks has |
| JSON | VARCHAR(1048576), or JSON | VARCHAR | StarRocks's JSON keeps numbers as doubles |
| BINARY, VARBINARY, BYTES | VARBINARY | VARCHAR, hexadecimal digits | a VARBINARY cannot be a key |
| GEOMETRY | VARBINARY | - | SRID and WKB, as the source keeps it |
| DATE, TIMESTAMP, TIMESTAMP_LTZ | DATE, DATETIME, DATETIME | the same | LTZ in the time zone of the options |
| TIME(p) | VARCHAR | VARCHAR | a signed span up to 838 hours; there is no such type |
| VECTOR | VARCHAR(1048576), a JSON array | - | |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc.schema import Column, DataType, Kind
from connectors.shared.streamload.sql_types import (
    BINARY,
    FLOAT_TEXT,
    LONGEST_BINARY,
    PLAIN,
    WIDEST_DECIMAL,
    SqlType,
    clock_constant,
    constant,
    holds_number,
    plain_default,
)

LONGEST_VARCHAR = LONGEST_BINARY
"""The bytes of the longest VARCHAR and VARBINARY of a StarRocks table."""
_STRING_LENGTH = 65_533
SECONDS_DIGITS = 6
"""The digits of the fraction of a second in every DATETIME."""
LONG_TEXT = SqlType("VARCHAR", LONGEST_VARCHAR)
LONG_BINARY = SqlType("VARBINARY", LONGEST_VARCHAR)

_PLAIN = (
    PLAIN
    | dict.fromkeys((Kind.STRING, Kind.JSON, Kind.VECTOR), LONG_TEXT)
    | dict.fromkeys((Kind.BYTES, Kind.GEOMETRY), LONG_BINARY)
    | dict.fromkeys((Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ), SqlType("DATETIME"))
)
_TEXT_WIDTHS = {
    "TINYINT": 4, "SMALLINT": 6, "INT": 11, "BIGINT": 20, "LARGEINT": 20, "DATE": 10, "DATETIME": 26, "JSON": 0,
}  # fmt: skip
"""The bytes of the longest text that a value of each type has."""


@dataclass(frozen=True, slots=True)
class TypeRules:
    """The options about types: bytes reserved per character, and whether JSON stays JSON or becomes text."""

    character_bytes: int = 4
    native_json: bool = False

    def column_type(self, data_type: DataType, *, key: bool) -> SqlType:
        """The StarRocks type that keeps every value of a column, as CREATE TABLE writes it."""
        kind, length = data_type.kind, data_type.length
        if kind is Kind.DECIMAL:
            return _decimal(data_type, key)
        if kind in (Kind.CHAR, Kind.VARCHAR):
            return _text((1 if length is None else length) * self.character_bytes)
        if kind is Kind.TIME:
            return SqlType("VARCHAR", 10 + (length + 1 if length else 0))
        if key and kind in BINARY:
            return _text(2 * (length or LONGEST_VARCHAR))
        if kind in (Kind.BINARY, Kind.VARBINARY):
            return LONG_BINARY
        if key and kind in (Kind.FLOAT, Kind.DOUBLE):
            return SqlType("VARCHAR", FLOAT_TEXT)
        if kind is Kind.JSON and self.native_json and not key:
            return SqlType("JSON")
        return _PLAIN[kind]

    def holds(self, actual: SqlType, data_type: DataType, *, key: bool) -> bool:
        """Whether an existing column takes every value unchanged; texts that are too long are found value by value."""
        target = self.column_type(data_type, key=key)
        if actual == target or (actual.is_text and target.is_text):
            return True
        if actual.is_text:
            return target.name == "VARBINARY" or (target.name != "BOOLEAN" and _has_room(actual, target))
        if actual.name == target.name == "VARBINARY":
            return True
        number = holds_number(actual, target, data_type)
        if number is not None:
            return number
        return (actual.name, target.name) in {("DOUBLE", "FLOAT"), ("DATETIME", "DATE"), ("JSON", "VARCHAR")} and (
            target.name != "VARCHAR" or data_type.kind is Kind.JSON
        )


def read_type(name: str, size: int | None, digits: int | None) -> SqlType:
    """The type of a row of `information_schema.columns`: its DATA_TYPE, COLUMN_SIZE and DECIMAL_DIGITS.

    BOOLEAN is shown as a `tinyint` without a size, LARGEINT as `bigint unsigned`.
    """
    type_name = re.sub(r"\(.*\)", "", name).strip().lower()
    if type_name == "tinyint" and size is None:
        return SqlType("BOOLEAN")
    if type_name in ("bigint unsigned", "largeint"):
        return SqlType("LARGEINT")
    if type_name.startswith("decimal"):
        return SqlType("DECIMAL", size or 10, digits or 0)
    if type_name in ("varchar", "char"):
        return SqlType(type_name.upper(), size or 1)
    if type_name == "varbinary":
        return SqlType("VARBINARY", size or LONGEST_VARCHAR)
    if type_name == "string":
        return SqlType("VARCHAR", size or _STRING_LENGTH)
    return SqlType(name.upper() if "(" in name or "<" in name else type_name.upper())


def default_text(column: Column, target: SqlType, zone: str = "UTC") -> str | None:
    """The text between the quotes of DEFAULT; None when the default is no constant of the type in StarRocks.

    The default of a source column is the text that the source shows: `b'101'` for BIT, `0x41` for binary columns,
    `CURRENT_TIMESTAMP` or an expression where it is no constant. Defaults of TIMESTAMP_LTZ are in UTC there, and are
    converted to `zone`.
    """
    text = plain_default(column)
    if text is None or target.name in ("VARBINARY", "JSON"):
        return None
    if target.is_text:
        return None if column.type.kind in BINARY or len(text.encode()) > target.max_bytes else text
    return clock_constant(constant(text, target, date_is_time=True), column.type, zone)


def _decimal(data_type: DataType, key: bool) -> SqlType:
    precision, scale = data_type.length or 10, data_type.scale or 0
    if key or precision > WIDEST_DECIMAL:
        # Three more characters: a sign, a point and the zero before it.
        return SqlType("VARCHAR", precision + (3 if scale else 1))
    return SqlType("DECIMAL", precision, scale)


def _text(length: int) -> SqlType:
    return SqlType("VARCHAR", min(max(length, 1), LONGEST_VARCHAR))


def _has_room(actual: SqlType, target: SqlType) -> bool:
    """Whether a text column is long enough for the text of any value of another type."""
    width = target.length or 0
    return actual.max_bytes >= (width + 3 if target.name == "DECIMAL" else _TEXT_WIDTHS.get(target.name, FLOAT_TEXT))
