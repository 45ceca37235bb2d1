"""A sink with tables: it says what they can be and carries out operations, the core plans, orders and repeats.

Carries out the schema changes of a batch in a sink whose changes are planned. Driver.

    read the tables -> plan all changes -> per change: its steps, then a note in the journal

All is planned before anything is executed, so that a change that the sink cannot do leaves those before it undone too.
In order, but for tables that are created: a CREATE TABLE takes a server tens of milliseconds, most of which it waits,
and a new pipeline has a thousand of them. They show in the tables, so a row of creations is noted as one.
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
from cdc.evolution.steps import ChangeRemark, Check, PlannedChange, Step
from cdc.evolution.table import Layout, T
from cdc.process.faults import crash_point
from cdc.schema import CreateTable, SchemaChange, SwapShadow, TableId, TableSchema, shadow_of
from cdc.sink import Sink
from cdc.source import Context
from cdc.state.store import Store

log = logging.getLogger(__name__)
Sessions = Callable[[], AbstractContextManager[TableSession[T]]]


class TableSink(Sink, Generic[T]):
    """Schema changes and `cdc plan` for a sink that can open a `TableSession`. Picklable, as every sink."""

    shadows: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self._store = context.store

    @abstractmethod
    def schema_session(self, *, write: bool) -> AbstractContextManager[TableSession[T]]:
        """A session for schema changes, or only to look. Driver. Raises SinkError."""

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out schema changes in order, each from the tables as they are. Driver."""
        SchemaChanges(lambda: self.schema_session(write=True), self._store).apply(batch, changes)

    def describe(self, table: TableId) -> TableSchema | None:
        """The table as it is, None when it does not exist. Driver."""
        with self.schema_session(write=False) as session:
            actual = session.read([table]).get(table)
            return None if actual is None else session.rules.schema(actual)

    def holds_rows(self, table: TableId) -> bool:
        """Whether the table has rows. Driver."""
        with self.schema_session(write=False) as session:
            return session.read([table]).get(table) is not None and session.holds_rows(table)

    def missing_tables(self, tables: Sequence[TableId]) -> list[TableId]:
        """The tables of these that do not exist. Driver."""
        with self.schema_session(write=False) as session:
            return session.missing(tables)

    def plan_text(self, changes: Sequence[SchemaChange]) -> Sequence[str]:
        """The statements or operations that `apply` would carry out now. Driver."""
        with self.schema_session(write=False) as session:
            rules, changes = session.rules, in_turn(changes)
            planned = plan(rules, session.read(tables_of(rules, changes)), changes)
            steps = [step for change in planned for step in change.steps if isinstance(step, Operation)]
            return [text for step in steps for text in session.texts(step)]


class SchemaChanges(Generic[T]):
    """Plans and runs.

    Args:
        sessions: opens a session of the sink.
        store: the sink's part of the state directory, for the journal.
    """

    def __init__(self, sessions: Sessions[T], store: Store) -> None:
        self._sessions, self._store = sessions, store

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out what the journal does not have yet; may repeat after a crash, and for the same batch.

        Raises ChangeRefused for what the sink cannot do, SinkError, and StateError when the journal cannot be written.
        """
        changes = in_turn(changes)
        journal = Journal(self._store, batch, changes)
        left = changes[journal.done :]
        if not left:
            return
        with self._sessions() as session:
            tables = tables_of(session.rules, left)
            session.wait_for_earlier(tables)
            layout = session.read(tables)
            if journal.begun is not None and was_swapped(session, layout, left[0].table, journal.begun["identity"]):
                journal.note(journal.done + 1)
                left = left[1:]
            planned = plan(session.rules, layout, left)
            _Run(self._sessions, session, batch).run(planned, journal)


class _Run(Generic[T]):
    """One call: `session` is the first one, others are opened to create tables side by side."""

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
        """The first table of a database comes with it, and goes ahead."""
        limit = self._session.rules.sessions
        work, databases = [], set[str]()
        for planned in new:
            database = planned.change.table.database
            if limit > 1 and database in databases:
                work.append(planned.steps)
            else:
                self._steps(self._session, planned.steps)
                databases.add(database)
        side_by_side(self._sessions, work, self._steps, limit)

    def _steps(self, session: TableSession[T], steps: Sequence[Step]) -> None:
        for step in steps:
            for _ in run_step(session, step):
                crash_point("mid-apply", self._batch)


def run_step(session: TableSession[T], step: Step) -> Iterator[None]:
    """Carry out one step, with an item wherever a crash may leave it.

    Raises ChangeRefused when a check finds a row, else as `TableSession.carry_out`.
    """
    match step:
        case ChangeRemark(table=table, text=text):
            log.warning("%s: %s", table, text)
            yield
        case Check(table=table, reason=reason):
            if session.has_rows(step):
                hint = (
                    "the values of such rows are not in the log: where a server is read, run `cdc resync` on the table"
                )
                hint += f" and start again: it is re-snapshotted; else change or remove them in {session.rules.name}"
                raise ChangeRefused(reason, where=str(table), hint=hint, curable=True)
            yield
        case _:
            yield from session.carry_out(step)


def creations(planned: Sequence[PlannedChange], first: int) -> list[PlannedChange]:
    """The CreateTables from `first` on up to the next other change, or the next one for the same table."""
    found: dict[object, PlannedChange] = {}
    for item in planned[first:]:
        if not isinstance(item.change, CreateTable) or item.change.table in found:
            break
        found[item.change.table] = item
    return list(found.values())


def side_by_side(
    sessions: Sessions[T],
    work: Sequence[Sequence[Step]],
    run: Callable[[TableSession[T], Sequence[Step]], None],
    limit: int,
) -> None:
    """Carry out pieces of work that do not depend on each other, in up to `limit` sessions.

    Raises the first error once every piece that had begun is through; those that had not are left.
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
    """Whether a copy that was about to take its table's place, when a run ended, has done so; ends it then. Driver.

    `identity` is that of the copy before. `layout` is left as it is then. Raises as `TableSession.carry_out`.
    """
    copy = shadow_of(table)
    if layout.get(copy) is None:
        return True
    if identity is None or session.identity(table) != identity:
        return False
    for _ in session.carry_out(DropShadowOp(table, copy)):
        pass
    layout.remove(copy)
    return True
