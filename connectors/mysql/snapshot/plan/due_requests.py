"""Snapshots to begin: orders of the engine, and requests of tasks that are due. Stream reader process."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from cdc.schema import TableId
from cdc.source import Order
from connectors.mysql.snapshot.cascade_targets import REQUEST
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan
from connectors.mysql.snapshot.plan.requests import Requests, SnapshotRequest, short_name


class DueRequests:
    """Selects the snapshots that begin with a batch.

    Args:
        requests: of tasks.
        plan: tells which snapshots have begun.
        interval_s: minimum time between the beginnings of two snapshots of a table for foreign-key cascades.

    Attributes:
        hurry: the run is about to end, so the interval does not count.
    """

    def __init__(
        self, requests: Requests, plan: ChunkPlan, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requests, self._plan, self._interval_s, self._clock = requests, plan, interval_s, clock
        self._orders: dict[str, SnapshotRequest] = {}
        self._begun_at: dict[str, float] = {}
        self.hurry = False

    def order(self, orders: Mapping[TableId, Order]) -> None:
        """Order snapshots of these tables for the next batch, unless they have begun."""
        self._orders = {
            order.id: SnapshotRequest(order.id, table, order.reason, order.limited) for table, order in orders.items()
        }

    def select(
        self, count: int, known: Callable[[TableId], bool], *, renamed: Collection[TableId] = ()
    ) -> list[SnapshotRequest]:
        """Return the due requests, then the orders of known tables, after `count` entries of the plan.

        Of several requests for the same table, one is kept. `renamed` are tables that the batch renames, by the names
        before it, under which no later batch finds them.
        """
        names = self._requests.names()
        if not (names or self._orders):
            return []
        begun = self._plan.requests()
        due = self._due(names - begun, self._plan.snapshots(count), renamed)
        orders = [order for name, order in self._orders.items() if name not in begun and known(order.table)]
        return [*map(self._requests.get, sorted(due)), *orders]

    def note_begun(self, requests: Collection[SnapshotRequest]) -> None:
        """Record that snapshots for these requests have begun."""
        now = self._clock()
        self._begun_at |= {_table_part(request.name): now for request in requests if request.name.startswith(REQUEST)}

    def _due(self, names: Collection[str], running: Collection[TableId], renamed: Collection[TableId]) -> set[str]:
        """Return the names of requests that are due; those for other reasons than cascades always are."""
        by_table = {_table_part(name): name for name in sorted(names) if name.startswith(REQUEST)}
        others = {name for name in names if not name.startswith(REQUEST)}
        if not by_table:
            return others
        self._requests.remove(set(names) - others - set(by_table.values()))
        busy, last = set(map(short_name, running)), set(map(short_name, renamed))
        earliest = self._clock() - self._interval_s
        return others | {
            name
            for table, name in by_table.items()
            if table in last or (table not in busy and (self.hurry or self._begun_at.get(table, earliest) <= earliest))
        }


def _table_part(name: str) -> str:
    """Return the `short_name` of the table that a request for cascades is about."""
    return name.removeprefix(REQUEST)[:16]
