"""Column types of a StarRocks table: what may be written, how they are shown, what holds them in Arrow and DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from cdc_standins.load_values import Kind
from cdc_standins.starrocks.errors import analyzing

LONGEST_VARCHAR = 1_048_576
LONGEST_CHAR = 255
STRING_LENGTH = 65_533
WIDEST_DECIMAL = 38

_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "LARGEINT": pa.string(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "VARBINARY": pa.binary(),
    "JSON": pa.string(),
}
_DUCKDB = {"LARGEINT": "HUGEINT", "DATETIME": "TIMESTAMP", "CHAR": "VARCHAR", "VARBINARY": "BLOB", "INT": "INTEGER"}
_SPELLED = {"INTEGER": "INT", "BOOL": "BOOLEAN", "BINARY": "VARBINARY", "NUMERIC": "DECIMAL", "DECIMALV3": "DECIMAL"}
_DATA_TYPES = {"BOOLEAN": "tinyint", "LARGEINT": "bigint unsigned"}
_COLUMN_TYPES = {"BOOLEAN": "tinyint(1)", "LARGEINT": "bigint(20) unsigned"}
_WITH_WIDTH = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT"})

KEY_TYPES = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT", "VARCHAR", "DATE", "DATETIME"})
"""What a PRIMARY KEY column may be."""

SORT_TYPES = KEY_TYPES | {"CHAR", "DECIMAL"}
"""What a DUPLICATE KEY column may be."""

TEXT = frozenset({"CHAR", "VARCHAR"})


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type with its parameters. `length` is in bytes, 0 where a type has none."""

    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """As DESC and SHOW CREATE TABLE print it."""
        if self.name == "DECIMAL":
            return f"decimal({self.precision},{self.scale})"
        if self.name in TEXT or (self.name == "VARBINARY" and self.length != LONGEST_VARCHAR):
            return f"{self.name.lower()}({self.length})"
        return self.name.lower()

    @property
    def data_type(self) -> str:
        """DATA_TYPE of information_schema.columns."""
        return _DATA_TYPES.get(self.name, self.name.lower())

    @property
    def column_type(self) -> str:
        """COLUMN_TYPE of information_schema.columns."""
        return _COLUMN_TYPES.get(self.name, str(self))

    @property
    def arrow(self) -> pa.DataType:
        """What staged rows are kept in; a LARGEINT is decimal text, as Arrow has no 128-bit integer."""
        if self.name == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        return _PLAIN[self.name]

    @property
    def loaded(self) -> Kind:
        """What loads put into it."""
        longest = min(self.length or LONGEST_VARCHAR, LONGEST_VARCHAR)
        return Kind(self.name, self.arrow, longest, self.precision, self.scale if self.name == "DECIMAL" else 6)

    @property
    def duckdb(self) -> str:
        """The type of the stored column."""
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        return _DUCKDB.get(self.name, self.name)


def column_type(word: str, parameters: tuple[int, ...] = ()) -> ColumnType:
    """The type that a word and the numbers in its parentheses name. Raises SqlError as the server does."""
    name = _SPELLED.get(word.upper(), word.upper())
    if name == "DECIMAL":
        return _decimal(parameters)
    if name in ("CHAR", "VARCHAR", "VARBINARY"):
        return _sized(name, parameters)
    if name == "STRING":
        _no_parameters(word, parameters)
        return ColumnType("VARCHAR", STRING_LENGTH)
    if name not in _PLAIN:
        raise analyzing(f"Unknown data type: {word.upper()}")
    if name not in _WITH_WIDTH or len(parameters) > 1:  # INT(11): a display width changes nothing
        _no_parameters(word, parameters)
    return ColumnType(name)


def _decimal(parameters: tuple[int, ...]) -> ColumnType:
    precision, scale = (*parameters, *(10, 0)[len(parameters) :])[:2] if len(parameters) <= 2 else (0, 0)
    if not 1 <= precision <= WIDEST_DECIMAL:
        raise analyzing(f"DECIMAL's precision should range from 1 to {WIDEST_DECIMAL}")
    if not 0 <= scale <= precision:
        raise analyzing(f"DECIMAL's scale should range from 0 to its precision {precision}")
    return ColumnType("DECIMAL", precision=precision, scale=scale)


def _sized(name: str, parameters: tuple[int, ...]) -> ColumnType:
    longest = LONGEST_CHAR if name == "CHAR" else LONGEST_VARCHAR
    default = LONGEST_VARCHAR if name == "VARBINARY" else 1
    length = parameters[0] if parameters else default
    if len(parameters) > 1 or length < 1:
        raise analyzing(f"{name} size must be > 0: {length}")
    if length > longest:
        raise analyzing(f"{name} size must be <= {longest}: {length}")
    return ColumnType(name, length)


def _no_parameters(word: str, parameters: tuple[int, ...]) -> None:
    if parameters:
        raise analyzing(f"{word.upper()} takes no length or precision here: {word.upper()}{parameters}")
