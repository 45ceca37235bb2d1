"""A statement in progress: its changes are collected here, and adopted by the catalog only on success."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from cdc.events import Uncertain
from cdc.evolution.diff import Hints, Origins, Table
from cdc.evolution.diff import diff as schema_diff
from cdc.schema import DropTable, SchemaChange, TableId
from connectors.mysql.ddl.defaults import fill_text
from connectors.mysql.ddl.delta import Mark
from connectors.mysql.table import MySqlTable, table_schema
from connectors.shared.ddl.dialect import DdlDialect


class DefinitionsBefore(Protocol):
    """The catalog before the statement."""

    tables: dict[TableId, MySqlTable]
    databases: dict[str, str]
    marks: dict[TableId, Mark]
    captures: Callable[[TableId], bool]
    tinyint1_as_boolean: bool
    online_schema_changes: bool
    copied: Callable[[TableId], bool]
    copied_when_uncertain: Callable[[TableId], bool]

    def known_name(self, table: TableId) -> TableId:
        """Return the server's name for a table as spelled in a statement."""
        ...


COPY_IT = (
    "where a server is read, run `cdc resync` on the table and start again: it is copied as it is there; or leave it "
    "out with tables.exclude"
)
"""Hint for a change to a table whose rows the log does not determine: an ordered snapshot settles them."""


class StatementWork:
    """The catalog as changed so far: `known` below, changed names on top.

    `charset` is the server's default character set; `changes` are for the sink, `notices` for the user; `unknown` are
    captured tables whose definition must be read from the server, with the reason.
    """

    def __init__(
        self, known: DefinitionsBefore, dialect: DdlDialect, charset: str, executed_at: datetime | None
    ) -> None:
        self.known, self.dialect, self.charset, self.executed_at = known, dialect, charset, executed_at
        self.tables: dict[TableId, MySqlTable | None] = {}
        self.databases: dict[str, str | None] = {}
        self.marks: dict[TableId, Mark | None] = {}
        self.changes: list[SchemaChange] = []
        self.notices: list[str] = []
        self.uncertain: dict[TableId, Uncertain] = {}
        self.unknown: dict[TableId, str] = {}

    def leave_uncertain(self, table: TableId, reason: str, *, same_rows: bool = True) -> bool:
        """Mark rows of the table as not determined by the log; False when it is not re-snapshotted for that."""
        if not (self.captures(table) and self.known.copied_when_uncertain(table)):
            return False
        before, why = self.uncertain.get(table), Uncertain(reason, same_rows)
        self.uncertain[table] = why if before is None else before.followed_by(why)
        return True

    def captures(self, table: TableId) -> bool:
        """Return whether the table is captured."""
        return self.known.captures(table)

    def table(self, table: TableId) -> MySqlTable | None:
        """Return the current definition, None when there is no such table or it is unknown."""
        return self.tables[table] if table in self.tables else self.known.tables.get(table)

    def mark(self, table: TableId) -> Mark | None:
        """Return the mark of a name that is not a table."""
        return self.marks[table] if table in self.marks else self.known.marks.get(table)

    def marked(self, marks: Collection[Mark]) -> list[TableId]:
        """Return the names with one of the marks."""
        names = dict.fromkeys((*self.known.marks, *self.marks))
        return [name for name in names if self.mark(name) in marks]

    def put(self, table: TableId, definition: MySqlTable | None) -> None:
        """Set the definition from here on; None when the table is dropped or no longer known."""
        if definition is not None or self.table(table) is not None:
            self.tables[table] = definition

    def put_mark(self, table: TableId, mark: Mark | None) -> None:
        """Set the mark of the name from here on."""
        if self.mark(table) != mark:
            self.marks[table] = mark

    def remove_mark(self, table: TableId, *marks: Mark) -> None:
        """Remove one of these marks from the name, if it has one."""
        if self.mark(table) in marks:
            self.put_mark(table, None)

    def forget(self, tables: Iterable[TableId]) -> None:
        """Forget uncaptured tables that were changed in a way that is not understood."""
        for table in (self.known.known_name(table) for table in tables):
            if not self.captures(table):
                self.put(table, None)

    def emit(
        self,
        old: MySqlTable | None,
        new: MySqlTable | None,
        origins: Origins | None = None,
        fills: Mapping[str, str | None] | None = None,
    ) -> None:
        """Emit the changes from one definition to another for the sink; arguments as in `diff`."""
        boolean = self.known.tinyint1_as_boolean
        self.changes += diff(old, new, origins=origins, fills=fills, tinyint1_as_boolean=boolean)

    def free_name(self, table: TableId) -> None:
        """Drop the sink table left behind under a captured name, as the name comes into use again."""
        if self.mark(table) == "left":
            self.changes.append(DropTable(table))
        self.put_mark(table, None)

    def database_charset(self, database: str) -> str:
        """Return the default character set of a database."""
        charset = self.databases[database] if database in self.databases else self.known.databases.get(database)
        return charset or self.charset

    def tables_of(self, database: str) -> list[TableId]:
        """Return the known tables of a database."""
        names = dict.fromkeys((*self.known.tables, *self.tables))
        return [table for table in names if table.database == database and self.table(table) is not None]


def diff(
    old: MySqlTable | None,
    new: MySqlTable | None,
    *,
    origins: Origins | None = None,
    fills: Mapping[str, str | None] | None = None,
    tinyint1_as_boolean: bool = False,
) -> list[SchemaChange]:
    """Return the changes from `old` to `new`, in the order and with the exceptions of `cdc.evolution.diff`.

    An added NOT NULL column without default has MySQL's implicit one (0, empty text, first ENUM member), because
    existing rows get that.

    Args:
        origins: the old column of each new one; None matches columns by name.
        fills: values of existing rows in added columns, by name, if they differ from `fill_text`.

    Raises ValueError for an unknown column type.
    """
    before, after = _table(old, tinyint1_as_boolean), _table(new, tinyint1_as_boolean)
    values = {} if new is None else {column.name: fill_text(column) for column in new.columns}
    return schema_diff(before, after, Hints(origins, values | dict(fills or {})))


def _table(table: MySqlTable | None, tinyint1_as_boolean: bool) -> Table | None:
    if table is None:
        return None
    return Table(table.id, table_schema(table, tinyint1_as_boolean=tinyint1_as_boolean))
