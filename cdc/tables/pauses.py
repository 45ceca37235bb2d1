"""Which tables of a pipeline are paused, as far as that was asked for. Any process."""

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
    """Source tables that get nothing into the sink: those `paused`, and those `resumed` whose copy has not begun."""

    paused: frozenset[TableId] = frozenset()
    resumed: frozenset[TableId] = frozenset()


class PauseReader:
    """Looks which tables are paused. Any process, any time; cheap: what was read is kept."""

    def __init__(self, state: StateDir) -> None:
        self._log, self._requests = TableLog(state.store), Mailbox(state.store)

    def requested_tables(self) -> PausedTables | None:
        """The tables of `tables`; None when no request waits for a batch. Raises StateError."""
        requests = self._requests.open()
        return paused_tables(self._log.at(ANY_BATCH), requests) if requests else None

    def tables(self) -> PausedTables:
        """With what is asked for and no batch has taken in. Raises StateError."""
        return paused_tables(self._log.at(ANY_BATCH), self._requests.open())


def paused_tables(views: TableViews, requests: Iterable[Request]) -> PausedTables:
    """The tables that are left out, once these requests are taken in. Pure."""
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
    """Raise NotNow for a table that no copy could get into the sink."""
    if table in PauseReader(state).tables().paused:
        raise NotNow("it is paused", where=str(table), hint="`cdc resume` re-snapshots it")
