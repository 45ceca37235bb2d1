"""The pending snapshots of a pipeline, as orders for its source.

An order is open while a pair of the source table is in a state that waits for a snapshot, or another snapshot is
requested after the running one. Orders are not stored: they are derived from the states.
"""

from __future__ import annotations

import hashlib

from cdc.errors import ChangeRefused
from cdc.schema import TableId
from cdc.source import Order, Snapshots, Source
from cdc.tables.states import OPEN_ORDERS, PairState, Tables


def open_orders(tables: Tables) -> dict[TableId, Order]:
    """The open orders, by source table."""
    waiting: dict[TableId, list[PairState]] = {}
    for (source, _), pair in tables.pairs.items():
        if pair.state in OPEN_ORDERS or pair.ordered:
            waiting.setdefault(source, []).append(pair)
    return {source: _order(source, pairs) for source, pairs in sorted(waiting.items())}


def check_orders(tables: Tables, batch: int, source: Source) -> None:
    """Raise ChangeRefused for an order of this batch that the source cannot execute."""
    new = {table for (table, _), pair in tables.pairs.items() if pair.since == batch}
    for table, order in open_orders(tables).items():
        needed = Snapshots.ALWAYS if order.limited else Snapshots.ON_REQUEST
        able = source.snapshots(table) in (Snapshots.ALWAYS, needed)
        if table in new and not able and source.captures(table):
            hint = "revert the edit, or start over with another --state-dir"
            raise ChangeRefused(f"{order.reason}, and its source does not re-snapshot it", where=str(table), hint=hint)


def _order(source: TableId, pairs: list[PairState]) -> Order:
    newest = max(pairs, key=lambda pair: pair.since)
    limited = not any(pair.by_user or pair.ordered for pair in pairs)
    digest = hashlib.sha256(str(source).encode()).hexdigest()[:16]
    return Order(f"{newest.since}-{digest}", newest.why, limited)
