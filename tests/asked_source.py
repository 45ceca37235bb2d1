"""A source over a list that copies tables anew when the engine asks for it, as a live one does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc.block import ChangeBlock, During
from cdc.schema import CreateShadow, SwapShadow, TableId
from cdc.testing import ListSource


class AskedSource(ListSource):
    """`now` has what a copy reads of each table. A copy comes behind all items there are when it is asked for."""

    def __init__(self, items: Sequence[Any], now: Mapping[TableId, ChangeBlock]) -> None:
        super().__init__(items)
        self.now, self.requests = dict(now), dict[str, TableId]()
        self.allowed = True
        self.left_out: set[TableId] = set()

    def copies_anew(self, table: TableId) -> bool:
        return self.allowed and self.captures(table)

    def captures(self, table: TableId) -> bool:
        return table not in self.left_out

    def copy_anew(self, table: TableId, request: str, reason: str, *, asked: bool, fits: bool = False) -> None:
        if request not in self.requests:
            self.requests[request] = table
            copied = self.now[table]
            begun = CreateShadow(table, None if fits else copied.schema)
            self.add(begun, replace(copied, during=During.NEW), SwapShadow(table))

    def add(self, *items: Any) -> None:
        """The list grows."""
        self._items = (*self._items, *items)
