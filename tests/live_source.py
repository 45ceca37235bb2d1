"""A source over a list that snapshots tables when the engine orders it, as a live one does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc import events as on
from cdc.block import ChangeBlock, Stream
from cdc.schema import DropTable, RenameTable, TableId, TruncateTable
from cdc.source import Order, Snapshots
from cdc.testing import ListSource

LOG, ROWS, SNAPSHOT_LOG = (frozenset({stream}) for stream in (Stream.LOG, Stream.SNAPSHOT_ROWS, Stream.SNAPSHOT_LOG))
_ENDS = (on.SnapshotDone, on.SnapshotVoid, on.CaptureEnded, DropTable, RenameTable, TruncateTable)


class LiveSource(ListSource):
    """`now` has what a snapshot reads of each table. One comes after all items there are when it is ordered."""

    def __init__(self, items: Sequence[Any], now: Mapping[TableId, ChangeBlock]) -> None:
        super().__init__(items)
        self.now, self.requests = dict(now), dict[str, TableId]()
        self.allowed = True
        self.left_out: set[TableId] = set()

    def snapshots(self, table: TableId) -> Snapshots:
        return Snapshots.ALWAYS if self.allowed and self.captures(table) else Snapshots.NEVER

    def captures(self, table: TableId) -> bool:
        return table not in self.left_out

    def order(self, orders: Mapping[TableId, Order]) -> None:
        for table, order in orders.items():
            self.begin(table, order.id)

    def begin(self, table: TableId, request: str) -> None:
        """Snapshot a table, for a request that counts once."""
        if request not in self.requests and self.captures(table):
            self.requests[request] = table
            void = [on.SnapshotVoid(table)] if self._is_running(table) else []
            copied = replace(self.now[table], streams=ROWS)
            self.add(*void, on.SnapshotBegun(table), copied, on.SnapshotDone(table))

    def add(self, *items: Any) -> None:
        """The list grows."""
        self._items = (*self._items, *items)

    def _is_running(self, table: TableId) -> bool:
        last = [item for item in self._items if getattr(item, "table", None) == table]
        begun = (item for item in reversed(last) if isinstance(item, (on.SnapshotBegun, *_ENDS)))
        return isinstance(next(begun, None), on.SnapshotBegun)
