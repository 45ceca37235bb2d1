"""Statements as frozen values: names as written, without lookups or inherited defaults.

A table name is a `TableId` with the statement's default database filled in. `Unparsed` is a result, never an exception:
code that follows the log must re-read the tables it names, or stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from cdc.schema import LAST, Position, TableId


class DefaultKind(Enum):
    """The form of a DEFAULT. NOW is CURRENT_TIMESTAMP in all its spellings; EXPRESSION is anything computed."""

    NULL = "null"
    STRING = "string"
    NUMBER = "number"
    HEX = "hex"
    BIT = "bit"
    NOW = "now"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class Default:
    """A DEFAULT clause.

    Attributes:
        text: the literal's value, its digits for HEX and BIT, empty for NOW and EXPRESSION.
        bracketed: a literal in brackets, which MySQL keeps as an expression and MariaDB as the literal.
    """

    kind: DefaultKind
    text: str = ""
    bracketed: bool = False


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """A column type as written, with synonyms resolved.

    Attributes:
        name: base type as in `MySqlColumn.type`; a `text` or `blob` with a length stands for the class that fits it.
        length, scale: the numbers in brackets, None if not written.
        unsigned: UNSIGNED or ZEROFILL.
        labels: members of enum and set; bytes, in the column's character set, if they are hex or bit literals.
        charset: character set named by the type itself: CHARACTER SET, ASCII, UNICODE, BYTE, NATIONAL.
        serial: SERIAL, which implies NOT NULL AUTO_INCREMENT UNIQUE.
    """

    name: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    labels: tuple[str | bytes, ...] = ()
    charset: str | None = None
    serial: bool = False


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column as written. `nullable` and `default` are None if not specified."""

    name: str
    type: TypeSpec
    nullable: bool | None = None
    default: Default | None = None
    comment: str = ""
    collation: str | None = None
    generated: bool = False
    row_end: bool = False
    versioned: bool = False
    primary_key: bool = False
    auto_increment: bool = False
    invisible: bool = False
    updated_now: bool = False


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Table options that affect rows or schemas; None if not written."""

    charset: str | None = None
    collation: str | None = None
    default_charset: bool = False
    comment: str | None = None
    versioned: bool = False
    sequence: bool | None = None


@dataclass(frozen=True, slots=True)
class CreateTableStatement:
    """CREATE TABLE. `like` names the table to copy; with `select`, a query adds columns that are not written."""

    table: TableId
    columns: tuple[ColumnDefinition, ...] = ()
    primary_key: tuple[str, ...] = ()
    not_null: tuple[str, ...] = ()
    options: TableOptions = field(default_factory=TableOptions)
    like: TableId | None = None
    select: bool = False
    if_not_exists: bool = False
    or_replace: bool = False

    @property
    def row_end(self) -> str | None:
        """The declared column that ends a row's version (MariaDB), None without one."""
        return next((column.name for column in self.columns if column.row_end), None)


@dataclass(frozen=True, slots=True)
class AddColumnClause:
    """ADD [COLUMN]."""

    column: ColumnDefinition
    position: Position = LAST
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumnClause:
    """MODIFY (the old name is the new one) and CHANGE. `position` is None when the column stays where it is."""

    old_name: str
    column: ColumnDefinition
    position: Position | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumnClause:
    """RENAME COLUMN."""

    old_name: str
    new_name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumnClause:
    """DROP [COLUMN]."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetDefaultClause:
    """ALTER [COLUMN] ... SET DEFAULT or DROP DEFAULT (`default` None)."""

    name: str
    default: Default | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class VisibilityClause:
    """ALTER [COLUMN] ... SET VISIBLE or INVISIBLE."""

    name: str
    visible: bool


@dataclass(frozen=True, slots=True)
class AddPrimaryKeyClause:
    """ADD PRIMARY KEY, also by a column's own PRIMARY KEY."""

    columns: tuple[str, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPrimaryKeyClause:
    """DROP PRIMARY KEY, also by its index or constraint name `PRIMARY`."""


@dataclass(frozen=True, slots=True)
class NotNullClause:
    """ADD PERIOD FOR (MariaDB): its two columns become NOT NULL."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConvertClause:
    """CONVERT TO CHARACTER SET; `charset` None means the database's own."""

    charset: str | None


@dataclass(frozen=True, slots=True)
class OptionsClause:
    """Table options: default character set, comment."""

    options: TableOptions


@dataclass(frozen=True, slots=True)
class RenameToClause:
    """RENAME [TO | AS | =]."""

    table: TableId


@dataclass(frozen=True, slots=True)
class VersioningClause:
    """ADD or DROP SYSTEM VERSIONING (MariaDB), or WITH SYSTEM VERSIONING, which adds it too."""

    on: bool


@dataclass(frozen=True, slots=True)
class MoveRowsClause:
    """Adds or removes rows (partitions, files, duplicates, engines) without row events in the log.

    Attributes:
        what: the clause's words.
        other: the table that rows come from or go to.
        makes: the statement creates `other`, with the same columns.
        drops: the statement drops `other`.
    """

    what: str
    brings: bool
    other: TableId | None = None
    makes: bool = False
    drops: bool = False


Clause = (
    AddColumnClause
    | ChangeColumnClause
    | RenameColumnClause
    | DropColumnClause
    | SetDefaultClause
    | VisibilityClause
    | AddPrimaryKeyClause
    | DropPrimaryKeyClause
    | NotNullClause
    | ConvertClause
    | OptionsClause
    | RenameToClause
    | VersioningClause
    | MoveRowsClause
)


@dataclass(frozen=True, slots=True)
class AlterTableStatement:
    """ALTER TABLE: the relevant clauses, in order; indexes, constraints and storage are skipped."""

    table: TableId
    clauses: tuple[Clause, ...] = ()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTableStatement:
    """RENAME TABLE: pairs of (old, new), applied left to right."""

    pairs: tuple[tuple[TableId, TableId], ...]


@dataclass(frozen=True, slots=True)
class DropTableStatement:
    """DROP TABLE of one or several tables; with `sequences` DROP SEQUENCE, which leaves tables of these names."""

    tables: tuple[TableId, ...]
    sequences: bool = False


@dataclass(frozen=True, slots=True)
class TruncateStatement:
    """TRUNCATE [TABLE]."""

    table: TableId


@dataclass(frozen=True, slots=True)
class CreateSequenceStatement:
    """CREATE SEQUENCE (MariaDB): its rows are logged like a table's but are not data."""

    table: TableId
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateViewStatement:
    """CREATE VIEW: a name that no table can have until it is dropped."""

    table: TableId


@dataclass(frozen=True, slots=True)
class DropViewStatement:
    """DROP VIEW of one or several."""

    tables: tuple[TableId, ...]


@dataclass(frozen=True, slots=True)
class CreateDatabaseStatement:
    """CREATE DATABASE; `charset` None means the server's own. `or_replace` drops an existing one."""

    database: str
    charset: str | None = None
    if_not_exists: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterDatabaseStatement:
    """ALTER DATABASE; `charset` None when it stays."""

    database: str
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class DropDatabaseStatement:
    """DROP DATABASE, with all its tables."""

    database: str


@dataclass(frozen=True, slots=True)
class StatementDml:
    """A row change logged as a statement (statement format): `tables` is empty when they are unknown."""

    kind: str
    tables: tuple[TableId, ...] = ()


@dataclass(frozen=True, slots=True)
class Irrelevant:
    """A statement that changes no table's columns, key or name: `kind` is its first words."""

    kind: str


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A statement that was not understood. `tables` are those it names, empty if unknown; `complete`: no others."""

    reason: str
    tables: tuple[TableId, ...] = ()
    complete: bool = False


Statement = (
    CreateTableStatement
    | AlterTableStatement
    | RenameTableStatement
    | DropTableStatement
    | TruncateStatement
    | CreateSequenceStatement
    | CreateViewStatement
    | DropViewStatement
    | CreateDatabaseStatement
    | AlterDatabaseStatement
    | DropDatabaseStatement
    | StatementDml
    | Irrelevant
    | Unparsed
)


def renamed(statement: Statement) -> Iterator[tuple[TableId, TableId]]:
    """Yield old and new names of the tables that a statement renames.

    Of several names in one ALTER, servers use the last.
    """
    match statement:
        case AlterTableStatement(table=table, clauses=clauses):
            yield from [(table, clause.table) for clause in clauses if isinstance(clause, RenameToClause)][-1:]
        case RenameTableStatement(pairs=pairs):
            yield from pairs
