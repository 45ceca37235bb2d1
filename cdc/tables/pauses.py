"""The paused tables of a pipeline, including pending requests. Any process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc.errors import NotNow
from cdc.schema import TableId
from cdc.state.directory import StateDir
from cdc.tables.entry import TableViews
from cdc.tables.log import ANY_BATCH, TableLog
from cdc.tables.requests import Mailbox, Request, RequestKind
from cdc.tables.states import TableState


@dataclass(frozen=True, slots=True)
class PausedTables:
    """Source tables whose rows are skipped: those `paused`, and those `resumed` whose snapshot has not begun."""

    paused: frozenset[TableId] = frozenset()
    resumed: frozenset[TableId] = frozenset()


class PauseReader:
    """Reads which tables are paused. Any process, any time; cheap, as it caches what it has read."""

    def __init__(self, state: StateDir) -> None:
        self._log, self._requests = TableLog(state.store), Mailbox(state.store)

    def requested_tables(self) -> PausedTables | None:
        """The result of `tables`, None if no request is pending. Raises StateError."""
        requests = self._requests.open()
        return paused_tables(self._log.at(ANY_BATCH), requests) if requests else None

    def tables(self) -> PausedTables:
        """The paused tables, with pending requests applied. Raises StateError."""
        return paused_tables(self._log.at(ANY_BATCH), self._requests.open())


def paused_tables(views: TableViews, requests: Iterable[Request]) -> PausedTables:
    """The tables that are paused once these requests are taken in. Pure."""
    tables = views.tables
    paused = set(tables.in_state(TableState.PAUSED))
    resumed = set(tables.in_state(TableState.RESUMED)) - paused
    for request in requests:
        if request.kind is RequestKind.PAUSE:
            paused.add(request.table)
            resumed.discard(request.table)
        elif request.kind is RequestKind.RESUME and request.table in paused:
            paused.discard(request.table)
            resumed.add(request.table)
    return PausedTables(frozenset(paused), frozenset(resumed))


def check_not_paused(state: StateDir, table: TableId) -> None:
    """Raise NotNow for a paused table: a snapshot of it would be skipped."""
    if table in PauseReader(state).tables().paused:
        raise NotNow("it is paused", where=str(table), hint="`cdc resume` re-snapshots it")
