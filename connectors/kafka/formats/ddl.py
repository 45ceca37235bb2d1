"""DDL in messages: find what a statement does to tables and columns from its text. Pure.

Messages do not tell the server's `sql_mode` and flavor, so a text is only understood if it means the same with all that
could have run it. A statement with a clause that may add or remove rows is not understood at all. The types of added
and altered columns follow from the rows.
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
"""By character, the dialects of servers that read a text with that character differently."""
_VERBS = frozenset({"ALTER", "DROP", "RENAME", "TRUNCATE"})
"""The first words of statements that are parsed completely; a CREATE TABLE, which may be long, is not."""
_BY_VERSION = ("/*!", "/*M!")
"""How comments begin that some servers execute: a statement with one is not understood."""


@dataclass(frozen=True, slots=True)
class AlteredColumns:
    """The columns that a statement drops and renames, all at the same time.

    Attributes:
        added: the added columns in which existing rows do not simply get NULL.
        not_null: old columns, by their new names, that the statement makes NOT NULL.
        computed: old columns, by their new names, that the statement makes generated ones.
    """

    table: TableId
    dropped: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    added: tuple[Added, ...] = ()
    not_null: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the rows alone tell everything that the statement does."""
        return not self.dropped and not self.renamed and not self.filled

    @property
    def filled(self) -> tuple[Added, ...]:
        """The added columns in which existing rows get a value that is certain."""
        return tuple(item for item in self.added if not item.uncertain)

    @property
    def uncertain(self) -> tuple[Added, ...]:
        """The added columns whose value in the existing rows of the source cannot be told."""
        return tuple(item for item in self.added if item.uncertain)

    def agrees(self, table: TableId, columns: Iterable[str]) -> bool:
        """Whether a table with these columns can be the result of the statement; ignores the case of names."""
        after = {name.casefold() for name in columns}
        added = {name.casefold() for name in (*(new for _, new in self.renamed), *(item.name for item in self.added))}
        removed = {name.casefold() for name in (*self.dropped, *(old for old, _ in self.renamed))}
        same = str(self.table).casefold() == str(table).casefold()
        return same and added <= after and not (removed - added) & after

    def renames(self, names: Collection[str]) -> dict[str, str | None]:
        """The new names of the table's columns that are renamed; None for a column that is dropped.

        Columns that no row ever had are ignored.
        """
        by_name = {name.casefold(): name for name in names}
        found = [*((name, None) for name in self.dropped), *self.renamed]
        return {by_name[old.casefold()]: new for old, new in found if old.casefold() in by_name}

    def fills(self, names: Collection[str]) -> tuple[Added, ...]:
        """The added columns with a certain value that a table with these columns gets."""
        columns = {name.casefold() for name in names}
        return tuple(item for item in self.filled if not (item.if_new and item.name.casefold() in columns))


Change = TruncateTable | DropTable | RenameTable | AlteredColumns
Changes = tuple[Change, ...]
"""The steps of one statement in order: changes of whole tables, or one `AlteredColumns` and perhaps a `RenameTable` of
its table. Empty for a statement that is not understood."""


def tables_of(changes: Changes) -> list[TableId]:
    """The tables that a statement changes."""
    return [table for change in changes for table in _tables_of(change)]


def _tables_of(change: Change) -> list[TableId]:
    return [change.table, change.new_table] if isinstance(change, RenameTable) else [change.table]


def changes_of(sql: str, database: str, *, of_new_name: bool = False) -> Changes:
    """The changes that a statement makes; empty when they are not certain, or when it does something else.

    Args:
        database: the database of names without one. If some names of a statement have a database and others do not, the
            database of the others cannot be told.
        of_new_name: `database` is that of a renamed table's new name, so of all names without one if the new name has
            none.
    """
    if any(mark in sql for mark in _BY_VERSION) or not _is_parsed(sql):
        return ()
    plain = _read(sql, "", _DIALECT) or ()
    owned = {bool(table.database) for table in tables_of(plain)}
    new_names = [change.new_table for change in plain if isinstance(change, RenameTable)] if of_new_name else []
    unambiguous = len(owned) == 1 or (len(new_names) == 1 and not new_names[0].database)
    found = _read(sql, database, _DIALECT) or () if unambiguous else ()
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
    """The changes on which two readings agree: only values may differ, which are then not certain; else none."""
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
    """The changes when read in one dialect; None when a server of that dialect would not have run the statement."""
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
    removed = {name.casefold() for name in (*dropped, *(old for old, _ in renamed))}
    if len(new_tables) > 1 or any(item.name.casefold() in removed for item in new):
        return ()  # a column name would mean different columns before and after the statement
    filled = tuple(item for item in new if item.uncertain or item.fill is not None)
    altered = AlteredColumns(table, tuple(dropped), tuple(renamed), filled, tuple(not_null), tuple(computed))
    return (altered, *(RenameTable(table, name) for name in new_tables if name != table))
