"""Column types: this tool's to StarRocks', lossless, and back. Pure, nothing is executed here.

| type | StarRocks | as part of a key | why |
|---|---|---|---|
| BOOLEAN, TINYINT .. BIGINT | the same | the same | |
| TINYINT, SMALLINT, INT UNSIGNED | SMALLINT, INT, BIGINT | the same | there is no UNSIGNED: one size up |
| BIGINT UNSIGNED | LARGEINT | LARGEINT | a DECIMAL cannot be a key |
| DECIMAL(p, s) | DECIMAL(p, s), VARCHAR beyond 38 digits | VARCHAR | a DECIMAL cannot be a key |
| FLOAT, DOUBLE | FLOAT, DOUBLE | VARCHAR(32) | |
| CHAR(n), VARCHAR(n) | VARCHAR(4n) | the same | lengths are bytes; CHAR loses zero bytes at its end |
| STRING | VARCHAR(1048576) | the same | the longest there is |
| JSON | VARCHAR(1048576), or JSON | VARCHAR | StarRocks' JSON keeps numbers as doubles |
| BINARY, VARBINARY, BYTES | VARBINARY | VARCHAR, hexadecimal digits | a VARBINARY cannot be a key |
| GEOMETRY | VARBINARY | - | SRID and WKB, as the source keeps it |
| DATE, TIMESTAMP, TIMESTAMP_LTZ | DATE, DATETIME, DATETIME (UTC) | the same | |
| TIME(p) | VARCHAR | VARCHAR | a signed span up to 838 hours; there is no such type |
| VECTOR | VARCHAR(1048576), a JSON array | - | |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc.schema import Column, DataType, Kind
from connectors.shared.conversion.target import TargetColumn, TargetKind

LONGEST_VARCHAR = 1_048_576
"""Bytes; the longest VARCHAR and VARBINARY of a StarRocks table."""
WIDEST_DECIMAL = 38
_STRING_LENGTH = 65_533
_FLOAT_TEXT = 32


@dataclass(frozen=True, slots=True)
class SqlType:
    """A StarRocks type. `length` is bytes or the precision; `name` may be one that this sink never writes (ARRAY)."""

    name: str
    length: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.length}, {self.scale or 0})"
        if self.length is None or (self.name == "VARBINARY" and self.length >= LONGEST_VARCHAR):
            return self.name
        return f"{self.name}({self.length})"

    @property
    def is_text(self) -> bool:
        """Whether it holds any text up to its length."""
        return self.name in ("CHAR", "VARCHAR")

    def target(self, name: str, *, nullable: bool, is_key: bool) -> TargetColumn | None:
        """What values of a column of this type have to fit into; None for a type that cannot be loaded."""
        if self.name not in TargetKind.__members__:
            return None
        length = 6 if self.name == "DATETIME" else self.length
        return TargetColumn(name, TargetKind(self.name), length, self.scale, nullable, is_key)


LONG_TEXT = SqlType("VARCHAR", LONGEST_VARCHAR)
LONG_BINARY = SqlType("VARBINARY", LONGEST_VARCHAR)

_PLAIN: dict[Kind, SqlType] = {
    Kind.BOOLEAN: SqlType("BOOLEAN"),
    Kind.TINYINT: SqlType("TINYINT"),
    Kind.SMALLINT: SqlType("SMALLINT"),
    Kind.INT: SqlType("INT"),
    Kind.BIGINT: SqlType("BIGINT"),
    Kind.TINYINT_UNSIGNED: SqlType("SMALLINT"),
    Kind.SMALLINT_UNSIGNED: SqlType("INT"),
    Kind.INT_UNSIGNED: SqlType("BIGINT"),
    Kind.BIGINT_UNSIGNED: SqlType("LARGEINT"),
    Kind.FLOAT: SqlType("FLOAT"),
    Kind.DOUBLE: SqlType("DOUBLE"),
    Kind.STRING: LONG_TEXT,
    Kind.JSON: LONG_TEXT,
    Kind.BYTES: LONG_BINARY,
    Kind.GEOMETRY: LONG_BINARY,
    Kind.DATE: SqlType("DATE"),
    Kind.TIMESTAMP: SqlType("DATETIME"),
    Kind.TIMESTAMP_LTZ: SqlType("DATETIME"),
    Kind.VECTOR: LONG_TEXT,
}
_KINDS = {
    "BOOLEAN": Kind.BOOLEAN, "TINYINT": Kind.TINYINT, "SMALLINT": Kind.SMALLINT, "INT": Kind.INT,
    "BIGINT": Kind.BIGINT, "LARGEINT": Kind.BIGINT_UNSIGNED, "FLOAT": Kind.FLOAT, "DOUBLE": Kind.DOUBLE,
    "DATE": Kind.DATE, "DATETIME": Kind.TIMESTAMP, "JSON": Kind.JSON, "VARBINARY": Kind.BYTES,
}  # fmt: skip
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19, "LARGEINT": 38}
_INTEGERS = tuple(_INTEGER_DIGITS)
_UNSIGNED_DIGITS = {
    Kind.BIGINT_UNSIGNED: 20,
    Kind.INT_UNSIGNED: 10,
    Kind.SMALLINT_UNSIGNED: 5,
    Kind.TINYINT_UNSIGNED: 3,
}
_BINARY = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES, Kind.GEOMETRY})


@dataclass(frozen=True, slots=True)
class TypeRules:
    """What the options say about types: bytes reserved per character, and whether JSON becomes JSON or text."""

    character_bytes: int = 4
    native_json: bool = False

    def wanted(self, data_type: DataType, *, key: bool) -> SqlType:
        """The StarRocks type that keeps every value of a column, spelled as it is created."""
        kind, length = data_type.kind, data_type.length
        if kind is Kind.DECIMAL:
            return _decimal(data_type, key)
        if kind in (Kind.CHAR, Kind.VARCHAR):
            return _text((1 if length is None else length) * self.character_bytes)
        if kind is Kind.TIME:
            return SqlType("VARCHAR", 10 + (length + 1 if length else 0))
        if key and kind in _BINARY:
            return _text(2 * (length or LONGEST_VARCHAR))
        if kind in (Kind.BINARY, Kind.VARBINARY):
            return LONG_BINARY
        if key and kind in (Kind.FLOAT, Kind.DOUBLE):
            return SqlType("VARCHAR", _FLOAT_TEXT)
        if kind is Kind.JSON and self.native_json and not key:
            return SqlType("JSON")
        return _PLAIN[kind]

    def holds(self, actual: SqlType, data_type: DataType, *, key: bool) -> bool:
        """Whether an existing column takes the values unchanged; too long texts are found value by value."""
        wanted = self.wanted(data_type, key=key)
        if actual == wanted or (actual.is_text and wanted.is_text):
            return True
        if actual.is_text:
            return wanted.name == "VARBINARY" or (wanted.name != "BOOLEAN" and _room(actual, wanted))
        if actual.name == wanted.name == "VARBINARY":
            return True
        digits = _integer_digits(data_type)
        if digits is not None and actual.name in (*_INTEGERS, "DECIMAL"):
            return _holds_integer(actual, wanted, digits)
        if actual.name == wanted.name == "DECIMAL":
            return _whole(actual) >= _whole(wanted) and (actual.scale or 0) >= (wanted.scale or 0)
        return (actual.name, wanted.name) in {("DOUBLE", "FLOAT"), ("DATETIME", "DATE"), ("JSON", "VARCHAR")} and (
            wanted.name != "VARCHAR" or data_type.kind is Kind.JSON
        )


def data_type(actual: SqlType) -> DataType:
    """This tool's type for a StarRocks type, as near as it goes: types that are never written are STRING."""
    if actual.name == "DECIMAL":
        return DataType(Kind.DECIMAL, actual.length, actual.scale)
    kind = _KINDS.get(actual.name, Kind.STRING)
    return DataType(kind, 6 if kind is Kind.TIMESTAMP else None)


def read_type(name: str, size: int | None, digits: int | None) -> SqlType:
    """The type in a row of `information_schema.columns`: DATA_TYPE, COLUMN_SIZE and DECIMAL_DIGITS.

    BOOLEAN is shown as a `tinyint` without a size, LARGEINT as `bigint unsigned`.
    """
    word = re.sub(r"\(.*\)", "", name).strip().lower()
    if word == "tinyint" and size is None:
        return SqlType("BOOLEAN")
    if word in ("bigint unsigned", "largeint"):
        return SqlType("LARGEINT")
    if word.startswith("decimal"):
        return SqlType("DECIMAL", size or 10, digits or 0)
    if word in ("varchar", "char"):
        return SqlType(word.upper(), size or 1)
    if word == "varbinary":
        return SqlType("VARBINARY", size or LONGEST_VARCHAR)
    if word == "string":
        return SqlType("VARCHAR", size or _STRING_LENGTH)
    return SqlType(name.upper() if "(" in name or "<" in name else word.upper())


def default_text(column: Column, wanted: SqlType) -> str | None:
    """What goes between the quotes of DEFAULT, None when StarRocks cannot have the default as a constant of the type.

    The default of a source column is text as the source shows it: `b'101'` for BIT, `0x41` for binary columns,
    `CURRENT_TIMESTAMP` or an expression for those that are no constants.
    """
    text = column.default
    if text is None or wanted.name in ("VARBINARY", "JSON"):
        return None
    if bits := re.fullmatch(r"[bB]'([01]*)'", text):
        text = str(int(bits[1] or "0", 2))
    pattern = _CONSTANTS.get(wanted.name)
    if wanted.name == "BOOLEAN":
        return {"0": "0", "1": "1", "false": "0", "true": "1"}.get(text.lower())
    if pattern is not None and not re.fullmatch(pattern, text):
        return None
    if wanted.is_text and (column.type.kind in _BINARY or len(text.encode()) > (wanted.length or 0)):
        return None
    return text


_WHOLE = r"[+-]?\d+"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_DATE = r"(?!0000-00-00)\d{4}-(?!00)\d\d-(?!00)\d\d"
_CONSTANTS = {
    **dict.fromkeys(_INTEGERS, _WHOLE),
    "DECIMAL": r"[+-]?(\d+\.?\d*|\.\d+)",
    "FLOAT": _NUMBER,
    "DOUBLE": _NUMBER,
    "DATE": _DATE,
    "DATETIME": rf"{_DATE}( \d\d:\d\d:\d\d(\.\d{{1,6}})?)?",
}


def _decimal(data_type: DataType, key: bool) -> SqlType:
    precision, scale = data_type.length or 10, data_type.scale or 0
    if key or precision > WIDEST_DECIMAL:
        # A sign, a point and the zero before it.
        return SqlType("VARCHAR", precision + (3 if scale else 1))
    return SqlType("DECIMAL", precision, scale)


def _text(length: int) -> SqlType:
    return SqlType("VARCHAR", min(max(length, 1), LONGEST_VARCHAR))


def _integer_digits(data_type: DataType) -> int | None:
    """Digits of the largest value of an integer column, None for other types."""
    if data_type.kind in _UNSIGNED_DIGITS:
        return _UNSIGNED_DIGITS[data_type.kind]
    return _INTEGER_DIGITS.get(data_type.kind.value)


def _holds_integer(actual: SqlType, wanted: SqlType, digits: int) -> bool:
    if actual.name == "DECIMAL":
        return _whole(actual) >= digits
    return _INTEGERS.index(actual.name) >= _INTEGERS.index(wanted.name)


def _whole(decimal: SqlType) -> int:
    return (decimal.length or 0) - (decimal.scale or 0)


def _room(actual: SqlType, wanted: SqlType) -> bool:
    """Whether a text column is long enough for the plain text of a value of another type."""
    needed = {"DECIMAL": (wanted.length or 0) + 3, "DATE": 10, "DATETIME": 26, "JSON": 0}
    if wanted.name in _INTEGER_DIGITS:
        return (actual.length or 0) >= {"LARGEINT": 20}.get(wanted.name, _INTEGER_DIGITS[wanted.name] + 1)
    return (actual.length or 0) >= needed.get(wanted.name, _FLOAT_TEXT)
