"""The definitions of all tables at one point of the log, and the effect of statements on them.

Tables that are not captured are tracked too, as far as the log defines them: CREATE TABLE ... LIKE, renames and online
schema changes need them. Rules for names that leave or enter the captured tables:

* renamed away: capturing stops with a notice, the sink table keeps its rows until the name is used again;
* renamed in: its earlier rows were not captured. It is a new table, marked `arrived`, if such tables are copied, else
it is refused; unless it is the end of a gh-ost or pt-osc change and `online_schema_changes` is on: then only its
definition changes, and if the log does not show that the rows are the same, the table is re-snapshotted.
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
from connectors.mysql.ddl.delta import UNDEFINED, UNREAD, Delta, Mark
from connectors.mysql.ddl.names import has_name, known_name, names_in, redefined
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
        touched: captured tables whose definition is new or removed, even without a resulting change (a column moved),
            and names that become or cease to be MariaDB sequences, whose logged rows are not data.
        delta: all differences in the catalog; stored in the schema history.
        notices: sentences for the user.
        dml: row changes in statement format that may concern captured tables, also through a view or a trigger, if not
            all captured ones are re-snapshotted: they cannot be followed.
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
        """Whether captured tables are concerned: a batch must end before this statement."""
        return bool(self.changes or self.touched or self.dml or self.unparsed or self.delta.uncertain)


class TableDefinitions:
    """Definitions at one point of the log. Mutable; not thread-safe.

    Args:
        captures: whether a table is captured.
        dialect: the server's flavor and version.
        lower_case_table_names: the server's variable: 1 folds names, 2 compares them folded.
        tinyint1_as_boolean: as in `table_schema`.
        online_schema_changes: treat the table swaps of gh-ost and pt-osc as ALTERs of the table.
        copied: whether the rows of a table that is renamed in can be copied.
        copied_when_uncertain: whether a table is re-snapshotted when the log does not determine its rows.
        warns_of_cascades: warn the user of foreign keys that change rows unlogged.
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
        """Whether a known table has its changes logged as statements by MariaDB."""
        return any(map(by_transaction, self.tables.values()))

    @property
    def unread(self) -> frozenset[TableId]:
        """Names whose logged rows are not read: MariaDB's sequences, and tables of unknown definition."""
        return frozenset(table for table, mark in self.marks.items() if mark in UNREAD)

    @property
    def unknown(self) -> frozenset[TableId]:
        """Captured tables of unknown definition."""
        return frozenset(table for table, mark in self.marks.items() if mark == "unknown" and self.captures(table))

    def update(self, delta: Delta) -> None:
        """Apply a statement's delta, as read from the schema history."""
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
        literals: str = "",
        executed_at: datetime | None = None,
        failed: bool = False,
    ) -> DdlResult:
        """Apply a logged statement.

        Args:
            database: its default database.
            sql_mode: bits of the QUERY event's Q_SQL_MODE.
            charset: the server's default character set (of `collation_server`), for databases that name none.
            explicit_timestamps: explicit_defaults_for_timestamp if the event has it.
            time_zone: the session's, if the event has it.
            literals: as in `DdlDialect`.
            executed_at: when the statement ran; see `diff`.
            failed: it failed half-way, and is logged for its partial effect.

        Raises UnsupportedChange or SchemaUnknown, and then nothing has changed here.
        """
        dialect = self.dialect.with_mode(
            sql_mode, explicit_timestamps=explicit_timestamps, time_zone=time_zone, literals=literals
        )
        work = StatementWork(self, dialect, charset, executed_at)
        dml: list[StatementDml] = []
        unparsed: list[Unparsed] = []
        links: list[Link] = []
        for statement in parse(sql, database=database, dialect=dialect, failed=failed):
            links += declared_links(statement, sql, dialect, self.known_name)
            if isinstance(statement, StatementDml):
                written = self._maybe_written(statement, sql, dialect)
                if written and all(map(self.copied_when_uncertain, written)):
                    reason = (
                        f"{statement.kind.upper()} was logged as a statement, so the rows it changed are not in the log"
                    )
                    for table in sorted(written):
                        work.leave_uncertain(table, reason, same_rows=False)
                elif written or self._is_concerned(statement.tables):
                    dml.append(statement)
                continue
            if not isinstance(statement, Unparsed):
                try:
                    carry_out(statement, work)
                    follow_copies(statement, sql, work)
                    work.unknown |= self._still_unknown(statement, work)
                    unparsed += [Unparsed(reason, (table,), complete=True) for table, reason in work.unknown.items()]
                    continue
                except SchemaUnknown as error:
                    statement = self._unexplained(statement, error)
                    work = StatementWork(self, dialect, charset, executed_at)
            if self._is_concerned(statement.tables) or names_in(sql, database, (*self.captured, *self.unknown)):
                unparsed.append(statement)
            work.forget((*statement.tables, *names_in(sql, database, self.tables)))
        if self._warns_of_cascades:
            work.notices += cascade_notices(links, self.captures)
        return self._result(work, tuple(dml), tuple(unparsed), tuple(links))

    def define(self, tables: Iterable[MySqlTable], *, databases: Mapping[str, str] | None = None) -> DdlResult:
        """Adopt definitions read from `information_schema`: at the start, or after an unparsed statement."""
        work = StatementWork(self, self.dialect, "utf8mb4", None)
        work.databases.update(databases or {})
        for table in tables:
            old = work.table(table.id)
            if old is None and self.captures(table.id):
                work.free_name(table.id)
            work.remove_mark(table.id, *UNDEFINED)
            if old != table:
                work.put(table.id, table)
                if self.captures(table.id):
                    work.emit(old, table)
        return self._result(work)

    def capture(
        self, tables: Iterable[MySqlTable], unknown: Iterable[TableId], leftover: Collection[TableId]
    ) -> DdlResult:
        """Capture tables from here on, with these definitions, known or not; the definition of others is `unknown`.

        `leftover` are tables that exist in the sink from an earlier time: they are dropped first, as they were not
        followed since.
        """
        work = StatementWork(self, self.dialect, "utf8mb4", None)
        work.changes += [DropTable(table) for table in sorted(leftover)]
        for table in tables:
            work.put(table.id, table)
            work.put_mark(table.id, None)
            work.emit(None, table)
        for name in unknown:
            work.put(name, None)
            work.put_mark(name, "unknown")
        return self._result(work)

    def mark(self, names: Mapping[TableId, Mark]) -> DdlResult:
        """Mark names from here on."""
        work = StatementWork(self, self.dialect, "utf8mb4", None)
        for name, mark in names.items():
            work.put_mark(name, mark)
        return self._result(work)

    def known_name(self, table: TableId) -> TableId:
        """Return the server's name for a table as a statement spells it."""
        return known_name(table, self.lower_case_table_names, self.tables)

    def _is_concerned(self, tables: tuple[TableId, ...]) -> bool:
        return not tables or any(self.captures(self.known_name(table)) for table in tables)

    def _still_unknown(self, statement: Statement, work: StatementWork) -> dict[TableId, str]:
        """Return the tables that the statement redefines and whose definition is unknown after it, with the reason."""
        unknown = self.unknown
        names = map(self.known_name, redefined(statement, unknown)) if unknown else ()
        return {
            table: "the log does not tell its definition before this change"
            for table in names
            if work.mark(table) == "unknown"
        }

    def _unexplained(self, statement: Statement, error: SchemaUnknown) -> Unparsed:
        """Convert an unexplained statement to Unparsed if its table is re-snapshotted or not captured; else raise.

        A table that is not captured becomes unknown.
        """
        if isinstance(statement, CreateTableStatement | AlterTableStatement):
            table = self.known_name(statement.table)
            error.where = error.where or str(table)
            renamed_in = any(self.captures(self.known_name(new)) for _, new in renamed(statement))
            if self.copied_when_uncertain(table) if self.captures(table) else not renamed_in:
                return Unparsed(error.message, (statement.table,))
        raise error

    def _maybe_written(self, dml: StatementDml, sql: str, dialect: DdlDialect) -> frozenset[TableId]:
        """Return the captured tables whose rows a statement may have changed.

        These are all captured tables, as a name may be a view, and a trigger or a function may write to tables of any
        database. None when it names tables, and neither they nor a function that it calls are in a database with
        captured tables.
        """
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
            if self.captures(table) and (new in UNREAD) != (self.marks.get(table) in UNREAD)
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
    """Return the databases among these, folded, of which a statement calls a function, as `shop.f()`.

    A long statement is only tokenized if it contains such a name. All names in it count if it cannot be parsed.
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
