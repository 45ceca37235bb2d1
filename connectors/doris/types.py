"""Convert column types from this tool's to Doris's without loss, and back. Pure: nothing is executed.

| type | Doris | as part of a key | why |
|---|---|---|---|
| BOOLEAN, TINYINT .. BIGINT | the same | the same | |
| TINYINT, SMALLINT, INT UNSIGNED | SMALLINT, INT, BIGINT | the same | there is no UNSIGNED: the next larger type |
| BIGINT UNSIGNED | LARGEINT | the same | |
| DECIMAL(p, s) | DECIMAL(p, s), STRING beyond 38 digits | DECIMAL, VARCHAR | wider ones need a cluster-wide setting |
| FLOAT, DOUBLE | FLOAT, DOUBLE | VARCHAR(32) | they cannot be keys |
| CHAR(n), VARCHAR(n) | VARCHAR(4n), STRING over 65533 | VARCHAR | lengths are bytes; CHAR loses zero bytes at its end |
| STRING | STRING | VARCHAR(65533) | a STRING cannot be a key |
| JSON | STRING | VARCHAR(65533) | Doris's JSON loses the spelling of numbers |
| BINARY(n), VARBINARY(n), BYTES | STRING | VARCHAR(n) | the bytes as they are |
| GEOMETRY | STRING | - | `POINT(1 2)`, `SRID=4326;POINT(13.4 52.5)` |
| DATE | DATE | the same | |
| TIMESTAMP(p), TIMESTAMP_LTZ(p) | DATETIME(p) | the same | LTZ in the time zone of the options |
| TIME | STRING | VARCHAR(17) | a signed span up to 838 hours; TIME cannot be stored |
| VECTOR | STRING, a JSON array | - | |
"""

from __future__ import annotations

import re

from cdc.schema import Column, DataType, Kind
from connectors.shared.streamload.sql_types import (
    BINARY,
    FLOAT_TEXT,
    PLAIN,
    WIDEST_DECIMAL,
    SqlType,
    clock_constant,
    constant,
    holds_number,
    plain_default,
)

LONGEST_VARCHAR = 65_533
"""Bytes (ScalarType.MAX_VARCHAR_LENGTH)."""
_CHARACTER_BYTES = 4
_TIME_TEXT = 17
STRING = SqlType("STRING")
_PLAIN = PLAIN | dict.fromkeys((Kind.TIME, Kind.STRING, Kind.JSON, Kind.BYTES, Kind.GEOMETRY, Kind.VECTOR), STRING)
_KEY_TEXT = {Kind.FLOAT: FLOAT_TEXT, Kind.DOUBLE: FLOAT_TEXT, Kind.TIME: _TIME_TEXT}
_SPELLINGS = {
    "TEXT": "STRING", "JSONB": "JSON", "DATEV2": "DATE", "DATETIMEV2": "DATETIME", "DECIMALV3": "DECIMAL",
    "DECIMALV2": "DECIMAL", "DECIMAL32": "DECIMAL", "DECIMAL64": "DECIMAL", "DECIMAL128": "DECIMAL", "INTEGER": "INT",
    "BOOL": "BOOLEAN",
}  # fmt: skip
_SHOWN = re.compile(r"\s*([A-Za-z_0-9]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*(?:unsigned)?\s*", re.IGNORECASE)


def column_type(data_type: DataType, *, key: bool) -> SqlType:
    """The Doris type that keeps every value of a column, as CREATE TABLE writes it."""
    kind, length = data_type.kind, data_type.length
    if kind is Kind.DECIMAL:
        return _decimal(data_type, key)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return SqlType("DATETIME", length or 0)
    if kind in (Kind.CHAR, Kind.VARCHAR):
        return _text((1 if length is None else length) * _CHARACTER_BYTES, key)
    if key and kind in (Kind.BINARY, Kind.VARBINARY):
        return _text(2 * (1 if length is None else length), key)
    if kind in (Kind.BINARY, Kind.VARBINARY):
        return STRING
    if key and kind in _KEY_TEXT:
        return SqlType("VARCHAR", _KEY_TEXT[kind])
    plain = _PLAIN[kind]
    return SqlType("VARCHAR", LONGEST_VARCHAR) if key and plain == STRING else plain


def holds(actual: SqlType, data_type: DataType, *, key: bool) -> bool:
    """Whether an existing column takes every value unchanged; texts that are too long are found value by value."""
    new = column_type(data_type, key=key)
    if actual == new or (actual.is_text and new.is_text):
        return True
    if actual.is_text:
        return _text_holds(actual, new)
    number = holds_number(actual, new, data_type)
    if number is not None:
        return number
    if actual.name == new.name == "DATETIME":
        return (actual.length or 0) >= (new.length or 0)
    if actual.name == "VARBINARY":
        return data_type.kind in BINARY
    return (actual.name, new.name) in {("DOUBLE", "FLOAT"), ("DATETIME", "DATE")} or (
        actual.name == "JSON" and data_type.kind in (Kind.JSON, Kind.VECTOR)
    )


def read_type(text: str) -> SqlType:
    """Parse a type of SHOW FULL COLUMNS: `varchar(300)`, `text`, `decimalv3(10, 2)`, `datetime(6)`, `largeint`."""
    match = _SHOWN.fullmatch(text)
    if match is None:
        return SqlType(text.strip().upper())
    type_name = match[1].upper()
    if "unsigned" in text.lower() and type_name == "BIGINT":
        return SqlType("LARGEINT")
    name = _SPELLINGS.get(type_name, type_name)
    length = int(match[2]) if match[2] else None
    if name == "DECIMAL":
        return SqlType(name, length if length is not None else WIDEST_DECIMAL, int(match[3] or 0))
    if name == "DATETIME":
        return SqlType(name, length or 0)
    if name == "TINYINT" and length == 1:
        return SqlType("BOOLEAN")
    if name in ("CHAR", "VARCHAR"):
        return SqlType(name, 1 if length is None else length)
    return SqlType(name)


def default_text(column: Column, actual: SqlType, zone: str = "UTC") -> str | None:
    """The text between the quotes of DEFAULT; None when the default is no constant of the type in Doris.

    The default of a source column is the text that the source shows: `b'101'` for BIT, `0x41` for binary columns.
    Defaults of TIMESTAMP_LTZ are in UTC there, and are converted to `zone`.
    """
    text = plain_default(column)
    if text is None:
        return None
    if column.type.kind in BINARY:
        digits = (_default_bytes(column) or b"").hex().upper()
        return digits if column.type.kind is not Kind.GEOMETRY and actual.is_text else None
    if actual.is_text:
        return text if len(text.encode()) <= actual.max_bytes and is_plain(text) else None
    return clock_constant(constant(text, actual), column.type, zone)


def is_plain(text: str) -> bool:
    """Whether every release reads the text of a DEFAULT the same way: newer ones keep escapes, older ones undo them."""
    return "\\" not in text and "\0" not in text and not ("'" in text and '"' in text)


def _default_bytes(column: Column) -> bytes | None:
    """The bytes of a binary column's default, from `0x4142`, `b'101'` or plain text; None when it has none."""
    text = column.default
    if text is None:
        return None
    if bits := re.fullmatch(r"[bB]'([01]*)'", text):
        return int(bits[1] or "0", 2).to_bytes(column.type.length or 1, "big")
    if digits := re.fullmatch(r"0[xX]((?:[0-9A-Fa-f]{2})*)", text):
        return bytes.fromhex(digits[1])
    return text.encode()


def _decimal(data_type: DataType, key: bool) -> SqlType:
    precision, scale = data_type.length or 10, data_type.scale or 0
    if precision <= WIDEST_DECIMAL:
        return SqlType("DECIMAL", precision, scale)
    # Three more characters: a sign, a point and the zero before it.
    return SqlType("VARCHAR", precision + 3) if key else STRING


def _text(length: int, key: bool) -> SqlType:
    if length > LONGEST_VARCHAR:
        return SqlType("VARCHAR", LONGEST_VARCHAR) if key else STRING
    return SqlType("VARCHAR", max(length, 1))


def text_width(actual: SqlType) -> int:
    """The bytes of the longest text that a value of a type other than text has."""
    needed = {"TINYINT": 4, "SMALLINT": 6, "INT": 11, "BIGINT": 20, "LARGEINT": 40, "DATE": 10, "DATETIME": 26}
    return (actual.length or 0) + 3 if actual.name == "DECIMAL" else needed.get(actual.name, FLOAT_TEXT)


def _text_holds(actual: SqlType, new: SqlType) -> bool:
    """Whether the text of any value of another type fits. Never for a BOOLEAN, which would become 1 or 0."""
    return new.name not in ("BOOLEAN", "VARBINARY") and actual.max_bytes >= text_width(new)
