"""Table schemas and schema changes: frozen values, without I/O and Arrow (see `cdc.block`).

Type names follow Flink CDC's, plus UNSIGNED integers, JSON, GEOMETRY and VECTOR to represent all MySQL values exactly:

| kind | length means | values |
|---|---|---|
| BOOLEAN, TINYINT..BIGINT [UNSIGNED], FLOAT, DOUBLE, DATE | - | |
| DECIMAL | precision 1..65, with scale | exact |
| CHAR, VARCHAR | characters | Unicode text |
| STRING, JSON | - | Unicode text of any length; JSON in the source's own spelling |
| BINARY, VARBINARY | bytes | |
| BYTES | - | bytes of any length |
| TIME | fractional digits 0..6 | signed span, -838:59:59.999999 .. 838:59:59.999999 |
| TIMESTAMP | fractional digits 0..6 | wall clock without zone (MySQL DATETIME) |
| TIMESTAMP_LTZ | fractional digits 0..6 | instant, UTC (MySQL TIMESTAMP) |
| GEOMETRY | - | 4-byte little-endian SRID, then WKB (MySQL's own storage form) |
| VECTOR | dimensions | list of 32-bit floats |
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache


class Kind(StrEnum):
    """The kind of a column type; the value is its SQL spelling."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    TINYINT_UNSIGNED = "TINYINT UNSIGNED"
    SMALLINT_UNSIGNED = "SMALLINT UNSIGNED"
    INT_UNSIGNED = "INT UNSIGNED"
    BIGINT_UNSIGNED = "BIGINT UNSIGNED"
    DECIMAL = "DECIMAL"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    STRING = "STRING"
    JSON = "JSON"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    GEOMETRY = "GEOMETRY"
    VECTOR = "VECTOR"


_TIMES = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ})
_WITH_LENGTH = _TIMES | {Kind.CHAR, Kind.VARCHAR, Kind.BINARY, Kind.VARBINARY, Kind.VECTOR}
_TYPE_TEXT = re.compile(r"\s*([A-Za-z_ ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*")


@dataclass(frozen=True, slots=True)
class DataType:
    """A column type. `str()` returns the spelling that `parse` reads: `DECIMAL(10, 2)`, `VARCHAR(64)`, `INT`."""

    kind: Kind
    length: int | None = None  # a time always has one: ValueError without
    scale: int | None = None

    def __post_init__(self) -> None:
        if self.length is None and self.kind in _TIMES:
            raise ValueError(f"{self.kind.value} without its fractional digits")

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.length}, {self.scale or 0})"
        return f"{self.kind.value}({self.length})" if self.length is not None else self.kind.value

    @classmethod
    @lru_cache(maxsize=4_096)
    def parse(cls, text: str) -> DataType:
        """Read the spelling that `str()` writes; times have at most six digits, six by default. Raises ValueError."""
        match = _TYPE_TEXT.fullmatch(text)
        name = re.sub(r"\s+", " ", match[1]).upper() if match else ""
        if match is None or name not in Kind._value2member_map_:
            raise ValueError(f"unknown type {text!r}; known: {', '.join(kind.value for kind in Kind)}")
        kind = Kind(name)
        length = int(match[2]) if match[2] else None
        scale = int(match[3]) if match[3] else None
        if kind is Kind.DECIMAL:
            return cls(kind, 10 if length is None else length, scale or 0)
        if length is not None and kind not in _WITH_LENGTH:
            raise ValueError(f"type {name} takes no length, got {text!r}")
        if scale is not None:
            raise ValueError(f"type {name} takes no scale, got {text!r}")
        if kind in _TIMES:
            length = 6 if length is None else min(length, 6)
        return cls(kind, length)


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """`database.table`; Kafka topics and other one-part names have an empty database."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}" if self.database else self.table

    @classmethod
    def parse(cls, text: str) -> TableId:
        """Parse `db.table` or `table`; dots after the first belong to the table name."""
        database, dot, table = text.partition(".")
        return cls(database, table) if dot else cls("", text)

    def names(self, *, namespaces: bool) -> tuple[str | None, str, str]:
        """Return namespace, schema and table; the namespace is None without `namespaces` or a third part."""
        schema, dot, table = self.table.partition(".") if namespaces and self.database else ("", "", "")
        return (self.database, schema, table) if dot else (None, self.database, self.table)

    @property
    def digest(self) -> str:
        """12 hexadecimal digits that stand for the id in names of limited length."""
        return hashlib.sha256(str(self).encode()).hexdigest()[:12]


def shadow_of(table: TableId) -> TableId:
    """Return the id of a table's shadow table: unique and deterministic."""
    return TableId(table.database, f"cdc_copy_{table.digest}")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `default` is the literal's text as the source shows it, None when it has none.

    `source_type` is the type in the source's own SQL (`enum('a','b')`, `bit(8)`) and `charset` the character set of its
    text there, for sinks that reproduce them; empty where unknown. Neither counts for equality.
    """

    name: str
    type: DataType
    nullable: bool = True
    default: str | None = None
    comment: str = ""
    source_type: str = field(default="", compare=False, repr=False)
    charset: str = field(default="", compare=False, repr=False)

    def respells(self, old: Column) -> bool:
        """Whether only the source's own type changed: an added label, a longer TEXT, a text computed from a label."""
        return self.type == old.type and self.source_type != old.source_type != ""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns in table order; `primary_key` names columns, empty when the table has no key."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    comment: str = ""

    def column(self, name: str) -> Column:
        """The column of that exact name. Raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in table order."""
        return tuple(column.name for column in self.columns)

    @property
    def own_types(self) -> tuple[tuple[str, str], ...]:
        """The source's own type and character set of each column: equal schemas may differ in them."""
        return tuple((column.source_type, column.charset) for column in self.columns)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an added or moved column: `FIRST`, `AFTER column`, or last (both empty)."""

    first: bool = False
    after: str | None = None


LAST = Position()


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """The statement that changed a source table, as recorded in the log.

    Attributes:
        sql: its text; names in it are the source's.
        file, begin, end: the log file, and where the statement's event begins and ends in it.
        ts_ms: when it was committed, milliseconds since the epoch.
        server_id: id of the server that wrote it. gtid: GTID of its transaction; empty without one.
    """

    sql: str
    file: str = ""
    begin: int = 0
    end: int = 0
    ts_ms: int = 0
    server_id: int = 0
    gtid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The common part of all schema changes.

    Attributes:
        statement: the statement that made the change; None without one. Not part of the change's JSON, and ignored by
            comparisons.
    """

    statement: SourceStatement | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CreateTable(_Change):
    """The table exists from here on with this schema. A no-op for a table that already has it.

    Attributes:
        options: a rule's `table-options`, for sinks that support them.
        partition_keys: a rule's `partition-keys`, likewise.
    """

    table: TableId
    schema: TableSchema
    options: tuple[tuple[str, str], ...] = ()
    partition_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddColumn(_Change):
    """A new column; existing rows get its default (NULL when it has none)."""

    table: TableId
    column: Column
    position: Position = LAST


@dataclass(frozen=True, slots=True)
class AlterColumnType(_Change):
    """A column's new definition: type, nullability, default or comment. The name stays.

    Attributes:
        copied: the table is re-snapshotted from this change on, so existing rows count only until then. Set by the
            engine. Not part of the change's JSON.
        keeps: no server has converted the existing rows. The sink's column is widened for other values; existing
            values stay, converted to the new type by `cdc.types.casts`. Not part of the change's JSON.
    """

    table: TableId
    column: Column
    old: Column | None = None
    copied: bool = False
    keeps: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class RenameColumn(_Change):
    """A column's new name."""

    table: TableId
    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class RenameColumns(_Change):
    """New names of several columns at once, where a column gets the former name of another one.

    Separate renames, one after the other, would be a different change: in between, a name means another column.

    Attributes:
        names: old and new names.
    """

    table: TableId
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DropColumn(_Change):
    """A column was dropped, with its values."""

    table: TableId
    name: str


@dataclass(frozen=True, slots=True)
class AlterPrimaryKey(_Change):
    """The table's key columns from here on; empty means no key."""

    table: TableId
    primary_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameTable(_Change):
    """A table's new name. A swap arrives as several renames, with a temporary name as in the source's statement."""

    table: TableId
    new_table: TableId


@dataclass(frozen=True, slots=True)
class TruncateTable(_Change):
    """All rows were removed.

    Attributes:
        copied: the engine empties the sink table before a re-snapshot; the source table was not emptied. Not part of
            the change's JSON.
    """

    table: TableId
    copied: bool = False


@dataclass(frozen=True, slots=True)
class DropTable(_Change):
    """The table was dropped."""

    table: TableId


@dataclass(frozen=True, slots=True)
class AlterTableComment(_Change):
    """The table's new comment."""

    table: TableId
    comment: str = field(default="")


@dataclass(frozen=True, slots=True)
class CreateShadow(_Change):
    """Creates an empty shadow table for the table: it gets the rows of a re-snapshot until it is swapped in.

    Attributes:
        schema: the schema of the shadow table; None for the table's schema.
        options, partition_keys: as in CreateTable; for a shadow table with a schema.
    """

    table: TableId
    schema: TableSchema | None = None
    options: tuple[tuple[str, str], ...] = ()
    partition_keys: tuple[str, ...] = ()

    @property
    def created(self) -> CreateTable | None:
        """The change that would create the shadow table; None for one with the table's schema."""
        if self.schema is None:
            return None
        return CreateTable(self.table, self.schema, self.options, self.partition_keys)


@dataclass(frozen=True, slots=True)
class SwapShadow(_Change):
    """The shadow table is complete: it replaces the table in one step, and the old rows are removed.

    Attributes:
        schema: the table's schema afterwards; None when it does not change.
    """

    table: TableId
    schema: TableSchema | None = None


@dataclass(frozen=True, slots=True)
class DropShadow(_Change):
    """The engine abandons the re-snapshot: the shadow table is dropped with its rows."""

    table: TableId


SchemaChange = (
    CreateTable
    | AddColumn
    | AlterColumnType
    | RenameColumn
    | RenameColumns
    | DropColumn
    | AlterPrimaryKey
    | RenameTable
    | TruncateTable
    | DropTable
    | AlterTableComment
    | CreateShadow
    | SwapShadow
    | DropShadow
)
