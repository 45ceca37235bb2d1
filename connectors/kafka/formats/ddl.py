"""DDL in messages: what a statement does to tables and columns, by its text. Pure.

Messages do not tell the `sql_mode` and flavor of the server, so a text counts where it means the same in all of them
that could have run it. Of a statement with a clause that rows may come or go by, nothing is taken. Types of added
columns and new types are told by the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from cdc.schema import DropTable, RenameTable, TableId, TruncateTable
from connectors.kafka.formats.added import COMPUTED, Added, added_column
from connectors.shared.ddl import statements as ddl
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.parser import parse
from connectors.shared.ddl.tokens import Unreadable

_DIALECT = DdlDialect()
_OTHERS = {
    '"': replace(_DIALECT, ansi_quotes=True), "\\": replace(_DIALECT, backslash_escapes=False),
}  # fmt: skip
"""Servers that read a text with this character in another way."""
_VERBS = frozenset({"ALTER", "DROP", "RENAME", "TRUNCATE"})
"""The first words of statements that are parsed to their end: a CREATE TABLE may be long."""
_BY_VERSION = ("/*!", "/*M!")
"""Comments that some servers execute: a statement with one is not understood."""


@dataclass(frozen=True, slots=True)
class AlteredColumns:
    """Columns that a table loses, and old and new names of those that have another one, all at the same moment.

    Attributes:
        added: those of the new columns in which rows that are there do not just get NULL.
        not_null: columns of before, by their new names, that the statement says are NOT NULL.
        computed: columns of before, by their new names, that the statement says the server computes.
    """

    table: TableId
    dropped: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    added: tuple[Added, ...] = ()
    not_null: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the rows tell all that it does."""
        return not self.dropped and not self.renamed and not self.filled

    @property
    def filled(self) -> tuple[Added, ...]:
        """New columns in which rows that are there get a value that is certain."""
        return tuple(item for item in self.added if not item.uncertain)

    @property
    def uncertain(self) -> tuple[Added, ...]:
        """New columns in which rows that are there have a value in the source that nothing tells."""
        return tuple(item for item in self.added if item.uncertain)

    def agrees(self, table: TableId, columns: Iterable[str]) -> bool:
        """Whether a table with these columns can be what the statement has left, whatever the case of names."""
        after = {name.casefold() for name in columns}
        there = {name.casefold() for name in (*(new for _, new in self.renamed), *(item.name for item in self.added))}
        gone = {name.casefold() for name in (*self.dropped, *(old for old, _ in self.renamed))}
        same = str(self.table).casefold() == str(table).casefold()
        return same and there <= after and not (gone - there) & after

    def renames(self, names: Collection[str]) -> dict[str, str | None]:
        """The new name of each of a table's columns that gets one; None for a column that goes.

        A column that no row had is not there to be dropped or renamed.
        """
        by_name = {name.casefold(): name for name in names}
        found = [*((name, None) for name in self.dropped), *self.renamed]
        return {by_name[old.casefold()]: new for old, new in found if old.casefold() in by_name}

    def fills(self, names: Collection[str]) -> tuple[Added, ...]:
        """The columns with a certain value that a table with these columns gets."""
        there = {name.casefold() for name in names}
        return tuple(item for item in self.filled if not (item.if_new and item.name.casefold() in there))


Change = TruncateTable | DropTable | RenameTable | AlteredColumns
Changes = tuple[Change, ...]
"""The steps of one statement, one after the other: of whole tables, or one `AlteredColumns`, which a `RenameTable` of
its table may follow. Empty: not understood."""


def tables_of(changes: Changes) -> list[TableId]:
    """The tables that a statement is about."""
    return [table for change in changes for table in _tables_of(change)]


def _tables_of(change: Change) -> list[TableId]:
    return [change.table, change.new_table] if isinstance(change, RenameTable) else [change.table]


def changes_of(sql: str, database: str) -> Changes:
    """The changes that a statement makes; empty when they are not certain, or it is about something else.

    Args:
        database: that of names without one. Where one of several names has a database and another has not, whose the
            other one is cannot be told.
    """
    if any(mark in sql for mark in _BY_VERSION) or not _is_parsed(sql):
        return ()
    owned = {bool(table.database) for table in tables_of(_read(sql, "", _DIALECT) or ())}
    found = _read(sql, database, _DIALECT) or () if len(owned) == 1 else ()
    for dialect in (dialect for sign, dialect in _OTHERS.items() if sign in sql):
        other = _read(sql, database, dialect)
        if other is not None and other != found:
            found = _common(found, other)
    return found


def _is_parsed(sql: str) -> bool:
    try:
        return Cursor(sql, _DIALECT, "").peek().word in _VERBS
    except Unreadable:
        return False


def _common(one: Changes, other: Changes) -> Changes:
    """The changes of two readings: a value in which they differ is not certain, and nothing is where all else does."""
    match one, other:
        case (AlteredColumns() as mine, *rest), (AlteredColumns() as theirs, *others) if (
            replace(mine, added=()) == replace(theirs, added=()) and rest == others
        ):
            if [item.name for item in mine.added] == [item.name for item in theirs.added]:
                pairs = zip(mine.added, theirs.added, strict=True)
                both = (a if a == b else replace(a, fill=None, uncertain=COMPUTED) for a, b in pairs)
                return (replace(mine, added=tuple(both)), *rest)
    return ()


def _read(sql: str, database: str, dialect: DdlDialect) -> Changes | None:
    """The changes in one dialect; None when a server of this dialect would not have run the statement."""
    match parse(sql, database=database, dialect=dialect):
        case (ddl.Unparsed(),):
            return None
        case (ddl.TruncateStatement(table),):
            return (TruncateTable(table),)
        case (ddl.DropTableStatement(tables),):
            return tuple(map(DropTable, tables))
        case (ddl.RenameTableStatement(pairs),):
            return tuple(RenameTable(*pair) for pair in pairs)
        case (ddl.AlterTableStatement(table, (ddl.RenameToClause(new_table),)),):
            return (RenameTable(table, new_table),)
        case (ddl.AlterTableStatement(table, clauses),):
            return _altered(table, clauses)
    return ()


def _altered(table: TableId, clauses: Sequence[ddl.Clause]) -> Changes:
    dropped, renamed, new = list[str](), list[tuple[str, str]](), list[Added]()
    not_null, computed, new_tables = list[str](), list[str](), list[TableId]()
    for clause in clauses:
        match clause:
            case ddl.DropColumnClause(name):
                dropped.append(name)
            case ddl.RenameColumnClause(old_name, new_name):
                renamed.append((old_name, new_name))
            case ddl.ChangeColumnClause(old_name, column):
                renamed.append((old_name, column.name))
                not_null += [column.name] if column.nullable is False else []
                computed += [column.name] if column.generated else []
            case ddl.AddColumnClause():
                new.append(added_column(clause))
            case ddl.RenameToClause(new_table):
                new_tables.append(new_table)
            case ddl.MoveRowsClause() | ddl.VersioningClause():
                return ()
    renamed = [(old, name) for old, name in renamed if old != name]
    left = {name.casefold() for name in (*dropped, *(old for old, _ in renamed))}
    if len(new_tables) > 1 or any(item.name.casefold() in left for item in new):
        return ()  # its rows before and after the statement have different columns of one name
    filled = tuple(item for item in new if item.uncertain or item.fill is not None)
    altered = AlteredColumns(table, tuple(dropped), tuple(renamed), filled, tuple(not_null), tuple(computed))
    return (altered, *(RenameTable(table, name) for name in new_tables if name != table))
