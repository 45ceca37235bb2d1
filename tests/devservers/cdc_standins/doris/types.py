"""Doris's column types as far as the stand-in stores them: parsing, spelling, DuckDB's type for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cdc_standins.doris.errors import sql_error
from cdc_standins.load_values import INTEGER_BITS, Kind
from cdc_standins.sql_text import Parser

_SPELLINGS = {
    "BOOL": "BOOLEAN", "INTEGER": "INT", "TEXT": "STRING", "JSONB": "JSON", "DATEV2": "DATE", "DATETIMEV2": "DATETIME",
    "DECIMALV3": "DECIMAL", "NUMERIC": "DECIMAL",
}  # fmt: skip
_PLAIN = {*INTEGER_BITS, "BOOLEAN", "FLOAT", "DOUBLE", "DATE", "STRING", "JSON"}
_DUCK = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER", "BIGINT": "BIGINT",
    "LARGEINT": "HUGEINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "DATE": "DATE", "DATETIME": "TIMESTAMP",
    "VARBINARY": "BLOB",
}  # fmt: skip
_ARROW = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(), "DATETIME": pa.timestamp("us"),
    "VARBINARY": pa.binary(),
}  # fmt: skip
LONGEST_VARCHAR = 65533
LONGEST_STRING = 1048576


@dataclass(frozen=True, slots=True)
class DorisType:
    """A column type. `length`: bytes of CHAR, VARCHAR, VARBINARY; digits of DECIMAL; `scale` also of DATETIME."""

    kind: str
    length: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind == "DECIMAL":
            return f"decimal({self.length},{self.scale})"
        if self.kind in ("CHAR", "VARCHAR", "VARBINARY"):
            return f"{self.kind.lower()}({self.length})"
        if self.kind == "DATETIME" and self.scale:
            return f"datetime({self.scale})"
        return {"STRING": "text", "BOOLEAN": "boolean"}.get(self.kind, self.kind.lower())

    @property
    def duck(self) -> str:
        """DuckDB's type for it."""
        if self.kind == "DECIMAL":
            return f"DECIMAL({self.length},{self.scale})"
        return _DUCK.get(self.kind, "VARCHAR")

    @property
    def arrow(self) -> Any:
        """The Arrow type of staged values; LARGEINT goes as text."""
        if self.kind == "DECIMAL":
            return pa.decimal128(self.length, self.scale)
        return _ARROW.get(self.kind, pa.string())

    @property
    def loaded(self) -> Kind:
        """What loads put into it."""
        return Kind(self.kind, self.arrow, self.length or LONGEST_STRING, self.length, self.scale, compact_json=True)

    def to_json(self) -> list[Any]:
        """As the journal keeps it."""
        return [self.kind, self.length, self.scale]


def from_json(document: list[Any]) -> DorisType:
    """What `to_json` gave."""
    return DorisType(*document)


def parse_type(parser: Parser) -> DorisType:
    """A type in DDL. Raises SqlError for limits, Unparsable for what is no type of Doris's or not held here."""
    word = parser.peek().text.upper()
    kind = _SPELLINGS.get(word, word)
    if parser.peek().kind != "word" or kind not in _PLAIN | {"DECIMAL", "DATETIME", "CHAR", "VARCHAR", "VARBINARY"}:
        raise parser.wrong("a column type")
    parser.next()
    numbers = _numbers(parser)
    if parser.sees("UNSIGNED") or parser.sees("ZEROFILL"):
        raise parser.wrong("the end of the type")
    if kind in _PLAIN:
        if kind in INTEGER_BITS:
            numbers = []  # a display width means nothing
        return DorisType(kind) if not numbers else _refuse(f"{kind} has no length")
    return {"DECIMAL": _decimal, "DATETIME": _datetime, "CHAR": _char, "VARCHAR": _varchar, "VARBINARY": _varbinary}[
        kind
    ](numbers)


def _numbers(parser: Parser) -> list[int]:
    if not parser.take("("):
        return []
    numbers = [parser.integer()]
    while parser.take(","):
        numbers.append(parser.integer())
    parser.need(")")
    return numbers


def _refuse(message: str) -> DorisType:
    raise sql_error(message)


def _decimal(numbers: list[int]) -> DorisType:
    precision, scale = {0: (38, 9), 1: (*numbers, 0)}.get(len(numbers), tuple(numbers[:2]))
    if not 1 <= precision <= 38:
        return _refuse(f"Precision of decimal must between 1 and 38. Precision was set to: {precision}.")
    if scale > precision:
        return _refuse(
            f"Scale of decimal must be smaller than precision. Scale is {scale} and precision is {precision}"
        )
    return DorisType("DECIMAL", precision, scale)


def _datetime(numbers: list[int]) -> DorisType:
    scale = numbers[0] if numbers else 0
    return DorisType("DATETIME", 0, scale) if scale <= 6 else _refuse("Scale of Datetime must between 0 and 6.")


def _char(numbers: list[int]) -> DorisType:
    length = numbers[0] if numbers else 1
    return DorisType("CHAR", length) if 1 <= length <= 255 else _refuse("Char size must be <= 255: " + str(length))


def _varchar(numbers: list[int]) -> DorisType:
    length = numbers[0] if numbers else LONGEST_VARCHAR
    if not 1 <= length <= LONGEST_VARCHAR:
        return _refuse(f"Varchar size must be <= {LONGEST_VARCHAR}: {length}")
    return DorisType("VARCHAR", length)


def _varbinary(numbers: list[int]) -> DorisType:
    return DorisType("VARBINARY", numbers[0] if numbers else LONGEST_STRING)
