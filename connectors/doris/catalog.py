"""What is in the server: tables with their columns and model, read when first asked for.

Columns come from SHOW FULL COLUMNS, as `information_schema` lacks defaults and tells LARGEINT and JSON only in some
versions; the model (UNIQUE, DUPLICATE, AGGREGATE) and the properties from SHOW CREATE TABLE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from cdc.schema import Column, TableId, TableSchema
from connectors.doris.types import SqlType, data_type, read_type
from connectors.shared.conversion.target import TargetKind, TargetTable
from connectors.shared.sql.client import Session, quoted, text_literal

UNIQUE, DUPLICATE = "UNIQUE", "DUPLICATE"
_MODEL = re.compile(r"^\s*(UNIQUE|DUPLICATE|AGGREGATE) KEY\s*\((.*)\)", re.MULTILINE)
_SEQUENCE = re.compile(r"[\"']function_column\.sequence_col[\"']\s*=\s*[\"']([^\"']+)[\"']")
_HASHED = re.compile(r"^DISTRIBUTED BY HASH\s*\((.*)\)", re.MULTILINE)
_NAME = re.compile(r"`((?:[^`]|``)*)`")


@dataclass(frozen=True, slots=True)
class ActualColumn:
    """A column that exists, as it is spelled there."""

    name: str
    type: SqlType
    nullable: bool = True
    default: str | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ActualTable:
    """A table that exists.

    Attributes:
        model: UNIQUE, DUPLICATE or AGGREGATE.
        key: the columns of that model's key; of a DUPLICATE table they only sort.
        distribution: the columns that say where a row is, which cannot be altered; empty when it is random.
        sequence: the column that decides which of two rows is newer, empty when it is the order of loads.
    """

    id: TableId
    columns: tuple[ActualColumn, ...]
    model: str = DUPLICATE
    key: tuple[str, ...] = ()
    comment: str = ""
    distribution: tuple[str, ...] = ()
    sequence: str = ""

    def column(self, name: str) -> ActualColumn | None:
        """The column of that name, None when there is none. Names are the same whatever their case."""
        return next((column for column in self.columns if same(column.name, name)), None)

    def in_key(self, name: str) -> bool:
        """Whether the column is part of the model's key."""
        return any(same(part, name) for part in self.key)

    def is_fixed(self, name: str) -> bool:
        """Whether the column cannot be altered or dropped in place."""
        return any(same(part, name) for part in (*self.unique_key, *self.distribution))

    @property
    def unique_key(self) -> tuple[str, ...]:
        """What tells rows apart; empty for a table that keeps every row."""
        return self.key if self.model == UNIQUE else ()

    def schema(self) -> TableSchema:
        """The table in this tool's types."""
        columns = (
            Column(column.name, data_type(column.type), column.nullable, column.default, column.comment)
            for column in self.columns
        )
        return TableSchema(tuple(columns), self.unique_key, self.comment)

    def target(self, longest_string: int) -> TargetTable:
        """What rows have to fit into; columns of types that cannot be loaded are left out."""
        found = []
        for column in self.columns:
            is_key = any(same(part, column.name) for part in self.unique_key)
            sized = SqlType("STRING", longest_string) if column.type.name == TargetKind.STRING else column.type
            target = sized.target(column.name, nullable=column.nullable, is_key=is_key)
            if target is not None:
                found.append(target)
        kept = (self.sequence,) if self.sequence else ()
        return TargetTable(self.id, tuple(found), self.unique_key, bool(self.unique_key), kept)


@dataclass
class Layout:
    """Databases and tables as they are, or as they will be after the statements planned so far.

    With a session, what was not asked for yet is read; without one there is nothing but what was put.
    """

    session: Session | None = None
    _names: dict[str, dict[str, str]] = field(default_factory=dict)
    _tables: dict[TableId, ActualTable | None] = field(default_factory=dict)
    _databases: set[str] | None = None

    @property
    def databases(self) -> set[str]:
        """Names of all databases."""
        if self._databases is None:
            query = "SELECT SCHEMA_NAME FROM information_schema.schemata"
            self._databases = {str(row[0]) for row in self.session.rows(query)} if self.session else set()
        return self._databases

    def get(self, table: TableId) -> ActualTable | None:
        """The table, None when there is none. Names of tables and databases are told apart by case."""
        if table not in self._tables:
            names = self._comments(table.database)
            known = self.session is not None and table.table in names
            self._tables[table] = read_table(self.session, table, names[table.table]) if known else None  # type: ignore[arg-type]
        return self._tables[table]

    def exists(self, table: TableId) -> bool:
        """Whether there is such a table; its columns are not read for that."""
        return (
            self._tables[table] is not None if table in self._tables else table.table in self._comments(table.database)
        )

    def put(self, table: ActualTable) -> None:
        """Add the table or replace the one of its name."""
        self.databases.add(table.id.database)
        self._tables[table.id] = table

    def remove(self, table: TableId) -> None:
        """Forget the table."""
        self._tables[table] = None

    def _comments(self, database: str) -> dict[str, str]:
        """Names of the tables of a database with their comments."""
        if database not in self._names:
            query = (
                "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.tables "
                f"WHERE TABLE_SCHEMA = {text_literal(database)}"
            )
            rows = self.session.rows(query) if self.session and database in self.databases else []
            self._names[database] = {str(name): str(comment or "") for name, comment in rows}
        return self._names[database]


def same(left: str, right: str) -> bool:
    """Whether Doris takes two column names for the same."""
    return left.casefold() == right.casefold()


def read_table(session: Session, table: TableId, comment: str = "") -> ActualTable:
    """Read one table that exists. Raises Refused when it does not, SinkUnavailable."""
    name = quoted(table.database, table.table)
    columns = tuple(_column(record) for record in session.records(f"SHOW FULL COLUMNS FROM {name}"))
    created = str(session.rows(f"SHOW CREATE TABLE {name}")[0][1])
    # What follows the columns: their comments may hold anything.
    rest = created[max(created.rfind("\n) ENGINE"), 0) :]
    model, hashed, sequence = _MODEL.search(rest), _HASHED.search(rest), _SEQUENCE.search(rest)
    return ActualTable(
        table,
        columns,
        model[1] if model else DUPLICATE,
        _names(model[2]) if model else (),
        # A table without a comment shows the engine's name in older versions.
        "" if comment == "OLAP" else comment,
        _names(hashed[1]) if hashed else (),
        sequence[1] if sequence else "",
    )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(part.replace("``", "`") for part in _NAME.findall(listed))


def _column(record: dict[str, Any]) -> ActualColumn:
    default = record.get("Default")
    return ActualColumn(
        str(record["Field"]),
        read_type(str(record["Type"])),
        nullable=str(record["Null"]).strip().lower() in ("yes", "true", "1"),
        # A column without a default shows as a default of NULL; some versions print the word.
        default=None if default is None or str(default) in ("NULL", "null", "\\N") else str(default),
        comment=str(record.get("Comment") or ""),
    )
