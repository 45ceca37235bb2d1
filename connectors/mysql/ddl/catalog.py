"""The definitions of all tables at one point of the log, and what a statement does to them.

Tables that are not captured are tracked too, as far as the log defines them: CREATE TABLE ... LIKE, renames and online
schema changes need them. Rules for names that leave or enter the captured tables:

* renamed away: capturing stops with a notice, the sink table keeps its rows until the name is used again;
* renamed in: its rows were not followed. It is a new table, marked `arrived`, where such tables are copied, else it is
  refused; unless it is the end of a gh-ost or pt-osc change and `online_schema_changes` is on: then only its definition
  changes, and where the log does not show that the rows are the same, the table is re-snapshotted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from cdc.errors import SchemaUnknown
from cdc.schema import DropTable, SchemaChange, TableId
from connectors.mysql.ddl.actions import carry_out
from connectors.mysql.ddl.cascades import Link, cascade_notices, declared_links
from connectors.mysql.ddl.delta import NO_TABLES, Delta, Mark
from connectors.mysql.ddl.names import has_name, known_name, names_in
from connectors.mysql.ddl.online import follow_copies
from connectors.mysql.ddl.versions import by_transaction
from connectors.mysql.ddl.work import StatementWork
from connectors.mysql.table import MySqlTable
from connectors.shared.ddl.cursor import Cursor
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.parser import parse
from connectors.shared.ddl.statements import (
    AlterTableStatement,
    CreateTableStatement,
    Statement,
    StatementDml,
    Unparsed,
    renamed,
)
from connectors.shared.ddl.tokens import Unreadable

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class DdlResult:
    """The effect of one statement.

    Attributes:
        changes: for the sink, in order; of captured tables only.
        touched: captured tables whose definition is new or gone, also when no change came of it (a column moved), and
            names that a MariaDB sequence takes or leaves: what the log has as its rows is nobody's data only that long.
        delta: everything the catalog now knows differently; goes into the schema history.
        notices: what the user should see; each a sentence.
        dml: row changes in statement format that may concern captured tables, as a view or by a trigger too, where not
            all captured ones are re-snapshotted: they are not followed.
        unparsed: statements not understood that may concern captured tables: read the definitions again, or stop.
    """

    changes: tuple[SchemaChange, ...] = ()
    touched: frozenset[TableId] = frozenset()
    delta: Delta = field(default_factory=Delta)
    notices: tuple[str, ...] = ()
    dml: tuple[StatementDml, ...] = ()
    unparsed: tuple[Unparsed, ...] = ()

    @property
    def captured(self) -> bool:
        """Captured tables are concerned: a batch has to end before this statement."""
        return bool(self.changes or self.touched or self.dml or self.unparsed or self.delta.uncertain)


class TableDefinitions:
    """Definitions at one point of the log. Mutable; not for use by two threads.

    Args:
        captures: whether a table is captured.
        dialect: the server's flavor and version.
        lower_case_table_names: the server's variable: 1 folds names, 2 compares them folded.
        tinyint1_as_boolean: as in `table_schema`.
        online_schema_changes: understand gh-ost's and pt-osc's swaps as ALTERs of the table.
        copied: whether the rows of a table that is renamed in can be copied.
        copied_when_uncertain: whether a table is re-snapshotted when the log does not tell what became of its rows.
        warns_of_cascades: tell the user of foreign keys that change rows unlogged.
    """

    def __init__(
        self,
        *,
        captures: Callable[[TableId], bool],
        dialect: DdlDialect | None = None,
        lower_case_table_names: int = 0,
        tinyint1_as_boolean: bool = False,
        online_schema_changes: bool = False,
        copied: Callable[[TableId], bool] = lambda table: False,
        copied_when_uncertain: Callable[[TableId], bool] = lambda table: False,
        warns_of_cascades: bool = False,
    ) -> None:
        self.captures, self.dialect = captures, dialect or DdlDialect()
        self.lower_case_table_names = lower_case_table_names
        self.tinyint1_as_boolean, self.online_schema_changes = tinyint1_as_boolean, online_schema_changes
        self.copied, self.copied_when_uncertain = copied, copied_when_uncertain
        self._warns_of_cascades = warns_of_cascades
        self.tables: dict[TableId, MySqlTable] = {}
        self.databases: dict[str, str] = {}
        self.marks: dict[TableId, Mark] = {}

    @property
    def captured(self) -> dict[TableId, MySqlTable]:
        """The captured tables."""
        return {table: definition for table, definition in self.tables.items() if self.captures(table)}

    @property
    def has_transaction_versions(self) -> bool:
        """Whether a table is known whose changes MariaDB logs as statements."""
        return any(map(by_transaction, self.tables.values()))

    @property
    def sequences(self) -> frozenset[TableId]:
        """MariaDB sequences: the log has rows of theirs that are nobody's data."""
        return frozenset(table for table, mark in self.marks.items() if mark == "sequence")

    def update(self, delta: Delta) -> None:
        """Take over what a statement changed, as read from the schema history."""
        _fold(self.tables, delta.tables)
        _fold(self.databases, delta.databases)
        _fold(self.marks, delta.marks)

    def apply(
        self,
        sql: str,
        database: str,
        *,
        sql_mode: int = 0,
        charset: str = "utf8mb4",
        explicit_timestamps: bool | None = None,
        time_zone: str = "",
        executed_at: datetime | None = None,
        failed: bool = False,
    ) -> DdlResult:
        """Carry out a statement of the log.

        Args:
            database: its default database.
            sql_mode: bits of the QUERY event's Q_SQL_MODE.
            charset: the server's default character set (of `collation_server`), for databases that name none.
            explicit_timestamps: explicit_defaults_for_timestamp when the event tells it.
            time_zone: the session's, when the event tells it.
            executed_at: when the statement ran; see `diff`.
            failed: it failed half-way, and is logged for what it had done.

        Raises UnsupportedChange or SchemaUnknown, and then nothing has changed here.
        """
        dialect = self.dialect.with_mode(sql_mode, explicit_timestamps=explicit_timestamps, time_zone=time_zone)
        work = StatementWork(self, dialect, charset, executed_at)
        dml: list[StatementDml] = []
        unparsed: list[Unparsed] = []
        links: list[Link] = []
        for statement in parse(sql, database=database, dialect=dialect, failed=failed):
            links += declared_links(statement, sql, dialect, self.known_name)
            if isinstance(statement, StatementDml):
                written = self._maybe_written(statement, sql, dialect)
                if written and all(map(self.copied_when_uncertain, written)):
                    reason = f"a {statement.kind} was logged as a statement, so the rows it changed are not in the log"
                    for table in sorted(written):
                        work.leave_uncertain(table, reason, same_rows=False)
                elif written or self._is_concerned(statement.tables):
                    dml.append(statement)
                continue
            if not isinstance(statement, Unparsed):
                try:
                    carry_out(statement, work)
                    follow_copies(statement, sql, work)
                    unparsed += [Unparsed(reason, (table,)) for table, reason in work.unknown.items()]
                    continue
                except SchemaUnknown as error:
                    statement = self._unexplained(statement, error)
                    work = StatementWork(self, dialect, charset, executed_at)
            if self._is_concerned(statement.tables) or names_in(sql, database, self.captured):
                unparsed.append(statement)
            work.forget((*statement.tables, *names_in(sql, database, self.tables)))
        if self._warns_of_cascades:
            work.notices += cascade_notices(links, self.captures)
        return self._result(work, tuple(dml), tuple(unparsed), tuple(links))

    def define(self, tables: Iterable[MySqlTable], *, databases: Mapping[str, str] | None = None) -> DdlResult:
        """Take over definitions read from `information_schema`: at the start, or after an unparsed statement."""
        work = StatementWork(self, self.dialect, "utf8mb4", None)
        work.databases.update(databases or {})
        for table in tables:
            old = work.table(table.id)
            work.remove_mark(table.id, *NO_TABLES)
            if old != table:
                work.put(table.id, table)
                if self.captures(table.id):
                    work.emit(old, table)
        return self._result(work)

    def capture(self, tables: Iterable[MySqlTable], leftover: Collection[TableId]) -> DdlResult:
        """Tables are captured from here on, with these definitions, known or not.

        `leftover` are tables that the sink has from an earlier time: those go first, as nobody followed them since.
        """
        work = StatementWork(self, self.dialect, "utf8mb4", None)
        work.changes += [DropTable(table) for table in sorted(leftover)]
        for table in tables:
            work.put(table.id, table)
            work.put_mark(table.id, None)
            work.emit(None, table)
        return self._result(work)

    def mark(self, names: Mapping[TableId, Mark]) -> DdlResult:
        """Take over names that are no tables where the log is begun."""
        work = StatementWork(self, self.dialect, "utf8mb4", None)
        for name, mark in names.items():
            work.put_mark(name, mark)
        return self._result(work)

    def known_name(self, table: TableId) -> TableId:
        """The name by which the server knows a table that a statement writes so."""
        return known_name(table, self.lower_case_table_names, self.tables)

    def _is_concerned(self, tables: tuple[TableId, ...]) -> bool:
        return not tables or any(self.captures(self.known_name(table)) for table in tables)

    def _unexplained(self, statement: Statement, error: SchemaUnknown) -> Unparsed:
        """A statement about a table that is re-snapshotted when nothing here tells what it made, or about one that is
        not captured, which is known no more. Raises the error."""
        if isinstance(statement, CreateTableStatement | AlterTableStatement):
            table = self.known_name(statement.table)
            error.where = error.where or str(table)
            renamed_in = any(self.captures(self.known_name(new)) for _, new in renamed(statement))
            if self.copied_when_uncertain(table) if self.captures(table) else not renamed_in:
                return Unparsed(error.message, (statement.table,))
        raise error

    def _maybe_written(self, dml: StatementDml, sql: str, dialect: DdlDialect) -> frozenset[TableId]:
        """The captured tables whose rows a statement may have changed: all, as a name may be a view, and a trigger or a
        function may write to tables of any database. None when it names tables, and neither they nor a function that
        it calls are in a database with captured tables."""
        databases = {table.database.casefold() for table in dml.tables}
        databases |= called(sql, dialect, {table.database for table in self.tables})
        captured = frozenset(self.captured)
        named = not dml.tables or any(table.database.casefold() in databases for table in captured)
        return captured if named else frozenset()

    def _result(
        self,
        work: StatementWork,
        dml: tuple[StatementDml, ...] = (),
        unparsed: tuple[Unparsed, ...] = (),
        links: tuple[Link, ...] = (),
    ) -> DdlResult:
        delta = Delta(dict(work.tables), dict(work.databases), dict(work.marks), dict(work.uncertain), links)
        touched = frozenset(
            table for table, new in delta.tables.items() if self.captures(table) and new != self.tables.get(table)
        ) | frozenset(
            table for table, new in delta.marks.items()
            if self.captures(table) and (new == "sequence") != (self.marks.get(table) == "sequence")
        )  # fmt: skip
        self.update(delta)
        return DdlResult(tuple(work.changes), touched, delta, tuple(work.notices), dml, unparsed)


def _fold(into: dict[_K, _V], new: Mapping[_K, _V | None]) -> None:
    for name, value in new.items():
        if value is None:
            into.pop(name, None)
        else:
            into[name] = value


def called(sql: str, dialect: DdlDialect, databases: Iterable[str]) -> frozenset[str]:
    """The databases among these, folded, of which a statement calls a function, as `shop.f()`.

    A long statement is taken apart only where it has such a name somewhere. All that it names count where it cannot be
    read.
    """
    text, found = sql.casefold(), set[str]()
    near = frozenset(name for name in {database.casefold() for database in databases} if has_name(text, name))
    cursor = Cursor(sql, dialect, "")
    try:
        while near and not cursor.at_end():
            named = cursor.at_name() and cursor.at_symbol(".", 1) and cursor.at_symbol("(", 3)
            name = cursor.next().text.casefold()
            found |= {name} & near if named else set()
    except Unreadable:
        return near
    return frozenset(found)
