"""The sink's table as it actually is, which values must fit. Read from the server, never guessed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdc.schema import TableId


class TargetKind(StrEnum):
    """Kinds of column that Doris and StarRocks store; the value is the servers' own name.

    | kind | length means |
    |---|---|
    | DECIMAL | precision, with scale |
    | DATETIME | fractional digits kept, 0..6 (None: 6) |
    | CHAR, VARCHAR, STRING, VARBINARY | bytes (None: no limit known) |
    | JSON | bytes of text (None: no limit known) |
    | all others | - |
    """

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    LARGEINT = "LARGEINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    DATETIME = "DATETIME"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    STRING = "STRING"
    JSON = "JSON"
    VARBINARY = "VARBINARY"


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """One column of the sink's table, under the sink's name. `length` and `scale` as in `TargetKind`."""

    name: str
    kind: TargetKind
    length: int | None = None
    scale: int | None = None
    nullable: bool = True
    is_key: bool = False

    def __str__(self) -> str:
        if self.length is None:
            return self.kind.value
        inner = f"{self.length}, {self.scale or 0}" if self.kind is TargetKind.DECIMAL else f"{self.length}"
        return f"{self.kind.value}({inner})"


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The sink's table.

    Attributes:
        table: the sink's table id.
        columns: in the sink's order, without hidden columns.
        keys: names of the key columns in key order; empty for a table that keeps every row.
        upserts: whether a row replaces the one with its key and deletes can be sent (unique or primary key model).
        kept_in_deletes: value columns that a delete must carry as well (a column that decides which row is newer).
    """

    table: TableId
    columns: tuple[TargetColumn, ...]
    keys: tuple[str, ...] = ()
    upserts: bool = True
    kept_in_deletes: tuple[str, ...] = ()

    def column(self, name: str) -> TargetColumn:
        """Return the column of that name; the servers ignore case. Raises KeyError."""
        for column in self.columns:
            if column.name == name:
                return column
        folded = name.casefold()
        for column in self.columns:
            if column.name.casefold() == folded:
                return column
        raise KeyError(name)
