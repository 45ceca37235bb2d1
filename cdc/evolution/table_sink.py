"""Base class of sinks with tables: the sink has table rules and executes operations, the core plans and repeats them.

Applies the schema changes of a batch. Driver.

    read the tables -> plan all changes -> per change: its steps, then an entry in the journal

All changes are planned before any is executed, so that one that the sink cannot apply prevents the earlier ones too.
They are executed in order, except that tables are created concurrently: a CREATE TABLE takes a server tens of
milliseconds, mostly waiting, and a new pipeline may have a thousand of them. Created tables are visible, so consecutive
creations get one journal entry.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import ClassVar, Generic

from cdc.errors import ChangeRefused
from cdc.evolution.journal import Journal
from cdc.evolution.operations import DropShadowOp, Operation
from cdc.evolution.planner import plan, tables_of
from cdc.evolution.renames import in_turn
from cdc.evolution.session import TableSession
from cdc.evolution.steps import ChangeRemark, Check, KeyCheck, PlannedChange, Step
from cdc.evolution.table import Layout, T
from cdc.process.faults import crash_point
from cdc.schema import CreateTable, SchemaChange, SwapShadow, TableId, TableSchema, shadow_of
from cdc.sink import Sink
from cdc.source import Context
from cdc.state.store import Store

log = logging.getLogger(__name__)
Sessions = Callable[[], AbstractContextManager[TableSession[T]]]


class TableSink(Sink, Generic[T]):
    """Implements schema changes and `cdc plan` for a sink that can open a `TableSession`. Picklable, as every sink."""

    shadows: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self._store = context.store

    @abstractmethod
    def schema_session(self, *, write: bool) -> AbstractContextManager[TableSession[T]]:
        """Open a session for schema changes, or read-only. Driver. Raises SinkError."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply schema changes in order, each planned from the existing tables. Driver."""
        SchemaChanges(lambda: self.schema_session(write=True), self._store).apply(batch, changes)

    def describe(self, table: TableId) -> TableSchema | None:
        """Return the table's actual schema, None when it does not exist. Driver."""
        with self.schema_session(write=False) as session:
            actual = session.read([table]).get(table)
            return None if actual is None else session.rules.schema(actual)

    def holds_rows(self, table: TableId) -> bool:
        """Whether the table has rows. Driver."""
        with self.schema_session(write=False) as session:
            return session.read([table]).get(table) is not None and session.holds_rows(table)

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """Return those of the tables that do not exist. Driver."""
        with self.schema_session(write=False) as session:
            return session.missing(tables)

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """Return the statements or operations that `apply` would execute now. Driver."""
        with self.schema_session(write=False) as session:
            rules, changes = session.rules, in_turn(changes)
            planned = plan(rules, session.read(tables_of(rules, changes)), changes)
            steps = [step for change in planned for step in change.steps if isinstance(step, Operation)]
            return [text for step in steps for text in session.texts(step)]


class SchemaChanges(Generic[T]):
    """Plans and executes schema changes.

    Args:
        sessions: opens a session of the sink.
        store: the sink's part of the state directory, for the journal.
    """

    def __init__(self, sessions: Sessions[T], store: Store) -> None:
        self._sessions, self._store = sessions, store

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply the changes that are not in the journal yet; may be repeated after a crash, for the same batch.

        Raises ChangeRefused for what the sink cannot do, SinkError, and StateError when the journal cannot be written.
        """
        changes = in_turn(changes)
        journal = Journal(self._store, batch, changes)
        todo = changes[journal.done :]
        if not todo:
            return
        with self._sessions() as session:
            tables = tables_of(session.rules, todo)
            session.wait_for_earlier(tables)
            layout = session.read(tables)
            if journal.begun is not None and was_swapped(session, layout, todo[0].table, journal.begun["identity"]):
                journal.note(journal.done + 1)
                todo = todo[1:]
            planned = plan(session.rules, layout, todo)
            _Run(self._sessions, session, batch).run(planned, journal)


class _Run(Generic[T]):
    """One call of `apply`: `session` is the first session, others are opened to create tables concurrently."""

    def __init__(self, sessions: Sessions[T], session: TableSession[T], batch: int) -> None:
        self._sessions, self._session, self._batch = sessions, session, batch

    def run(self, planned: Sequence[PlannedChange], journal: Journal) -> None:
        first, before = 0, journal.done
        while first < len(planned):
            change = planned[first].change
            if isinstance(change, SwapShadow):
                journal.note_begun(self._session.identity(shadow_of(change.table)))
            new = creations(planned, first)
            last = first + max(1, len(new))
            with self._session.transaction():
                if new:
                    self._create(new)
                else:
                    self._steps(self._session, planned[first].steps)
            journal.note(before + last)
            first = last

    def _create(self, new: Sequence[PlannedChange]) -> None:
        """Create tables: the first one of each database, with the database, before the others."""
        limit = self._session.rules.sessions
        work, databases = [], set[str]()
        for planned in new:
            database = planned.change.table.database
            if limit > 1 and database in databases:
                work.append(planned.steps)
            else:
                self._steps(self._session, planned.steps)
                databases.add(database)
        run_in_parallel(self._sessions, work, self._steps, limit)

    def _steps(self, session: TableSession[T], steps: Sequence[Step]) -> None:
        for step in steps:
            for _ in run_step(session, step):
                crash_point("mid-apply", self._batch)


def run_step(session: TableSession[T], step: Step) -> Iterator[None]:
    """Execute one step and yield wherever a crash may leave it.

    Raises ChangeRefused when a check finds a row, otherwise as `TableSession.carry_out`.
    """
    match step:
        case ChangeRemark(table=table, text=text):
            log.warning("%s: %s", table, text)
            yield
        case Check(table=table, reason=reason) | KeyCheck(table=table, reason=reason):
            if session.has_rows(step):
                hint = f"change or remove such values in {session.rules.name}: they are not in the log"
                raise ChangeRefused(reason, where=str(table), hint=hint, resnapshot_helps=True)
            yield
        case _:
            yield from session.carry_out(step)


def creations(planned: Sequence[PlannedChange], first: int) -> list[PlannedChange]:
    """Return the CreateTables from `first` on, up to the next other change or the next one for the same table."""
    found: dict[object, PlannedChange] = {}
    for item in planned[first:]:
        if not isinstance(item.change, CreateTable) or item.change.table in found:
            break
        found[item.change.table] = item
    return list(found.values())


def run_in_parallel(
    sessions: Sessions[T],
    work: Sequence[Sequence[Step]],
    run: Callable[[TableSession[T], Sequence[Step]], None],
    limit: int,
) -> None:
    """Execute independent pieces of work in up to `limit` sessions.

    Raises the first error once every running piece has ended; the others are not begun.
    """
    waiting = deque(work)

    def run_all() -> None:
        with sessions() as session:
            while True:
                try:
                    piece = waiting.popleft()
                except IndexError:
                    return
                try:
                    run(session, piece)
                except BaseException:
                    waiting.clear()
                    raise

    if not work:
        return
    with ThreadPoolExecutor(limit, thread_name_prefix="cdc-create") as pool:
        running = [pool.submit(run_all) for _ in work[:limit]]
    for one in running:
        one.result()


def was_swapped(session: TableSession[T], layout: Layout[T], table: TableId, identity: str | None) -> bool:
    """Whether a copy that was about to replace its table when a run ended has done so; then drop the old table. Driver.

    `identity` is the identity of the copy. `layout` is updated. Raises as `TableSession.carry_out`.
    """
    shadow = shadow_of(table)
    if layout.get(shadow) is None:
        return True
    if identity is None or session.identity(table) != identity:
        return False
    for _ in session.carry_out(DropShadowOp(table, shadow)):
        pass
    layout.remove(shadow)
    return True
