"""Carries out the schema changes of a batch: in order, but tables that are created side by side. Driver.

A CREATE TABLE takes a server tens of milliseconds, most of which it waits, and a new pipeline has a thousand of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdc.schema import CreateTable, SchemaChange, TableId
from connectors.shared.sql.client import Session
from connectors.streamload.applied import Applied

_SESSIONS = 8

Step = TypeVar("Step")
Sessions = Callable[[], AbstractContextManager[Session]]
Work = Callable[[Session], None]


@dataclass(frozen=True, slots=True)
class SchemaWork(Generic[Step]):
    """How a connector plans and runs changes.

    Attributes:
        plan: the steps that are missing for a change, given the changes after it; called in the order of the changes.
        run: carries out the steps of one table in a session; also in threads of its own, each with another session.
        sessions: opens a session.
    """

    plan: Callable[[SchemaChange, Sequence[SchemaChange]], Iterable[Step]]
    run: Callable[[Session, TableId, Iterable[Step]], None]
    sessions: Sessions

    def carry_out(self, session: Session, record: Applied, changes: Sequence[SchemaChange]) -> None:
        """Do what the record does not have yet. Creations show in the tables, so a row of them is noted as one."""
        while record.done < len(changes):
            first = record.done
            new = creations(changes, first)
            last = first + max(1, len(new))
            if new:
                self._create(session, new, changes[last:])
            else:
                self.run(session, changes[first].table, self.plan(changes[first], changes[last:]))
            record.note(last)

    def _create(self, session: Session, new: Sequence[CreateTable], later: Sequence[SchemaChange]) -> None:
        """The first table of a database comes with it, and goes ahead."""
        work, databases = [], set[str]()
        for change in new:
            steps = list(self.plan(change, later))
            if change.table.database in databases:
                work.append(self._later(change.table, steps))
            else:
                self.run(session, change.table, steps)
                databases.add(change.table.database)
        side_by_side(self.sessions, work)

    def _later(self, table: TableId, steps: Sequence[Step]) -> Work:
        return lambda session: self.run(session, table, steps)


def creations(changes: Sequence[SchemaChange], first: int) -> list[CreateTable]:
    """The CreateTables from `first` on up to the next other change, or the next one for the same table."""
    found: dict[object, CreateTable] = {}
    for change in changes[first:]:
        if not isinstance(change, CreateTable) or change.table in found:
            break
        found[change.table] = change
    return list(found.values())


def side_by_side(sessions: Sessions, work: Sequence[Work]) -> None:
    """Carry out pieces of work that do not depend on each other, in several sessions.

    Raises the first error once every piece that had begun is through; those that had not are left.
    """
    waiting = deque(work)

    def run() -> None:
        with sessions() as session:
            while True:
                try:
                    piece = waiting.popleft()
                except IndexError:
                    return
                try:
                    piece(session)
                except BaseException:
                    waiting.clear()
                    raise

    with ThreadPoolExecutor(_SESSIONS, thread_name_prefix="cdc-create") as pool:
        running = [pool.submit(run) for _ in work[:_SESSIONS]]
    for one in running:
        one.result()
