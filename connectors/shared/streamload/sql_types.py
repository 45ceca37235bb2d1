"""Column types common to both servers; differences are in the `types` of each. Pure, nothing is executed here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime

from cdc.schema import Column, DataType, Kind
from cdc.units import tzinfo_of
from connectors.shared.conversion.target import TargetColumn, TargetKind

WIDEST_DECIMAL = 38
FLOAT_TEXT = 32
"""Bytes of the longest FLOAT or DOUBLE as text."""
WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT")
BINARY = frozenset({Kind.BINARY, Kind.VARBINARY, Kind.BYTES, Kind.GEOMETRY})
LONGEST_BINARY = 1_048_576
"""Bytes; a VARBINARY of that length is written without the length."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A server's type; `str()` is its DDL.

    `length` is bytes, precision or fractional digits; `name` may be a type that no sink writes (ARRAY).
    """

    name: str
    length: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.length}, {self.scale or 0})"
        if self.length is None or (self.name == "VARBINARY" and self.length >= LONGEST_BINARY):
            return self.name
        return f"{self.name}({self.length})"

    @property
    def is_text(self) -> bool:
        """Whether it holds any text up to its length."""
        return self.name in ("CHAR", "VARCHAR", "STRING")

    @property
    def max_bytes(self) -> float:
        """Maximum bytes of text; infinite without a length."""
        return float("inf") if self.length is None else self.length

    @property
    def whole_digits(self) -> int:
        """Digits before the point of a DECIMAL."""
        return (self.length or 0) - (self.scale or 0)

    def holds_decimal(self, other: SqlType) -> bool:
        """Return whether a DECIMAL has a place for every digit of another one."""
        return self.whole_digits >= other.whole_digits and (self.scale or 0) >= (other.scale or 0)

    def target(self, name: str, *, nullable: bool, is_key: bool, digits: int = 0) -> TargetColumn | None:
        """Return the limits for values of a column of this type; None for a type that cannot be loaded.

        `digits`: fractional digits of a DATETIME without a stated number.
        """
        if self.name not in TargetKind.__members__:
            return None
        length = self.length or digits if self.name == "DATETIME" else self.length
        return TargetColumn(name, TargetKind(self.name), length, self.scale, nullable, is_key)


PLAIN: dict[Kind, SqlType] = {
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
    Kind.DATE: SqlType("DATE"),
}
"""Types without a length."""

_KINDS = {
    "BOOLEAN": Kind.BOOLEAN, "TINYINT": Kind.TINYINT, "SMALLINT": Kind.SMALLINT, "INT": Kind.INT,
    "BIGINT": Kind.BIGINT, "LARGEINT": Kind.BIGINT_UNSIGNED, "FLOAT": Kind.FLOAT, "DOUBLE": Kind.DOUBLE,
    "DATE": Kind.DATE, "JSON": Kind.JSON, "VARBINARY": Kind.BYTES,
}  # fmt: skip
_DIGITS = {
    Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 19,
    Kind.TINYINT_UNSIGNED: 3, Kind.SMALLINT_UNSIGNED: 5, Kind.INT_UNSIGNED: 10, Kind.BIGINT_UNSIGNED: 20,
}  # fmt: skip
_WHOLE_DIGITS = {"TINYINT": 2, "SMALLINT": 4, "INT": 9, "BIGINT": 18, "LARGEINT": 38}
_DATE = r"\d{4}-\d\d-\d\d"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)"
_CONSTANTS = {
    **dict.fromkeys(WHOLE, r"[+-]?\d+"),
    "DECIMAL": _NUMBER,
    "FLOAT": _NUMBER + r"([eE][+-]?\d+)?",
    "DOUBLE": _NUMBER + r"([eE][+-]?\d+)?",
    "DATE": _DATE,
    "DATETIME": rf"{_DATE} \d\d:\d\d:\d\d(\.\d{{1,6}})?",
}


def data_type(actual: SqlType, *, digits: int = 0) -> DataType:
    """Return this tool's nearest type for a server's; types that are never written are STRING.

    `digits`: as in `target`.
    """
    if actual.name == "DECIMAL":
        return DataType(Kind.DECIMAL, actual.length, actual.scale or 0)
    if actual.name == "DATETIME":
        return DataType(Kind.TIMESTAMP, actual.length or digits)
    return DataType(_KINDS.get(actual.name, Kind.STRING))


def holds_number(actual: SqlType, new: SqlType, source: DataType) -> bool | None:
    """Return whether a column holds every number of a type, `new` for the source's; None unless both are exact."""
    if source.kind is Kind.DECIMAL and actual.name in WHOLE:
        return not source.scale and (source.length or 10) <= _WHOLE_DIGITS[actual.name]
    if source.kind in _DIGITS and actual.name == "DECIMAL":
        return actual.whole_digits >= _DIGITS[source.kind]
    if new.name in WHOLE and actual.name in WHOLE:
        return WHOLE.index(actual.name) >= WHOLE.index(new.name)
    return actual.holds_decimal(new) if actual.name == new.name == "DECIMAL" else None


def plain_default(column: Column) -> str | None:
    """Return the default as the source shows it, `b'101'` of a BIT column as a number."""
    bits = re.fullmatch(r"[bB]'([01]*)'", column.default or "")
    return str(int(bits[1] or "0", 2)) if bits else column.default


def constant(text: str, wanted: SqlType, *, date_is_time: bool = False) -> str | None:
    """Return a default as a constant of a type other than text, None when it is not such a constant.

    `date_is_time`: a DATETIME may be given as its day alone.
    """
    if wanted.name == "BOOLEAN":
        return {"0": "0", "1": "1", "false": "0", "true": "1"}.get(text.lower())
    names = (wanted.name, "DATE") if date_is_time and wanted.name == "DATETIME" else (wanted.name,)
    fits = any(name in _CONSTANTS and re.fullmatch(_CONSTANTS[name], text) for name in names)
    return text if fits and (wanted.name not in ("DATE", "DATETIME") or _is_day(text[:10])) else None


def _is_day(text: str) -> bool:
    """Return whether the day exists: MySQL's default may be `2026-02-31`, and rows have NULL for it."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def clock_constant(text: str | None, source: DataType, zone: str) -> str | None:
    """Return a constant of a source's column; an instant, which is in UTC, in the zone's wall clock."""
    if text is None or source.kind is not Kind.TIMESTAMP_LTZ:
        return text
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return moment.astimezone(tzinfo_of(zone)).replace(tzinfo=None).isoformat(" ")
