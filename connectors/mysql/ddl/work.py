"""One statement under way: what it changes is collected here, and taken over by the catalog only when all went well."""

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
    """The catalog as it is before the statement."""

    tables: dict[TableId, MySqlTable]
    databases: dict[str, str]
    marks: dict[TableId, Mark]
    captures: Callable[[TableId], bool]
    tinyint1_as_boolean: bool
    online_schema_changes: bool
    copied: Callable[[TableId], bool]
    copied_when_uncertain: Callable[[TableId], bool]

    def known_name(self, table: TableId) -> TableId:
        """The name by which the server knows a table that a statement writes so."""
        ...


COPY_IT = (
    "where a server is read, run `cdc resync` on the table and start again: it is copied as it is there; or leave it "
    "out with tables.exclude"
)
"""The way out of a change to a table whose rows the log does not tell: a snapshot that was asked for does."""


class StatementWork:
    """The catalog as the statement has left it so far: `known` below, changed names on top.

    `charset` is the server's default character set; `changes` are for the sink, `notices` for the user; `unknown` are
    captured tables whose definition the server has to tell, with the reason.
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
        """The log does not tell what rows of the table are; False when it is not re-snapshotted for that."""
        if not (self.captures(table) and self.known.copied_when_uncertain(table)):
            return False
        before, why = self.uncertain.get(table), Uncertain(reason, same_rows)
        self.uncertain[table] = why if before is None else before.followed_by(why)
        return True

    def captures(self, table: TableId) -> bool:
        """The table is captured."""
        return self.known.captures(table)

    def table(self, table: TableId) -> MySqlTable | None:
        """The definition as of now, None when there is no such table or it is not known."""
        return self.tables[table] if table in self.tables else self.known.tables.get(table)

    def mark(self, table: TableId) -> Mark | None:
        """The mark under the name, other than a table."""
        return self.marks[table] if table in self.marks else self.known.marks.get(table)

    def marked(self, marks: Collection[Mark]) -> list[TableId]:
        """The names with one of the marks."""
        names = dict.fromkeys((*self.known.marks, *self.marks))
        return [name for name in names if self.mark(name) in marks]

    def put(self, table: TableId, definition: MySqlTable | None) -> None:
        """The definition from here on; None when the table is gone or no longer known."""
        if definition is not None or self.table(table) is not None:
            self.tables[table] = definition

    def put_mark(self, table: TableId, mark: Mark | None) -> None:
        """Set the mark under the name from here on."""
        if self.mark(table) != mark:
            self.marks[table] = mark

    def remove_mark(self, table: TableId, *marks: Mark) -> None:
        """Take one of these marks away from the name, if it has one."""
        if self.mark(table) in marks:
            self.put_mark(table, None)

    def forget(self, tables: Iterable[TableId]) -> None:
        """Forget tables of others that were changed in a way that is not understood."""
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
        """The changes from one definition to another, for the sink; arguments as in `diff`."""
        boolean = self.known.tinyint1_as_boolean
        self.changes += diff(old, new, origins=origins, fills=fills, tinyint1_as_boolean=boolean)

    def free_name(self, table: TableId) -> None:
        """A captured name comes into use: what a table that was renamed away left in the sink goes now."""
        if self.mark(table) == "left":
            self.changes.append(DropTable(table))
        self.put_mark(table, None)

    def database_charset(self, database: str) -> str:
        """The default character set of a database."""
        charset = self.databases[database] if database in self.databases else self.known.databases.get(database)
        return charset or self.charset

    def tables_of(self, database: str) -> list[TableId]:
        """The known tables of a database."""
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
    """The changes that lead from `old` to `new`, in the order and with the exceptions of `cdc.evolution.diff`.

    An added NOT NULL column without default carries MySQL's implicit one (0, empty text, first ENUM member), because
    that is what rows already there get.

    Args:
        origins: which old column each new one comes from; None matches columns by name.
        fills: what rows already there get for added columns, by name, where it is not what `fill_text` says.

    Raises ValueError for a column type that this tool does not know.
    """
    before, after = _table(old, tinyint1_as_boolean), _table(new, tinyint1_as_boolean)
    values = {} if new is None else {column.name: fill_text(column) for column in new.columns}
    return schema_diff(before, after, Hints(origins, values | dict(fills or {})))


def _table(table: MySqlTable | None, tinyint1_as_boolean: bool) -> Table | None:
    if table is None:
        return None
    return Table(table.id, table_schema(table, tinyint1_as_boolean=tinyint1_as_boolean))
