"""The decoder's knowledge of the tables of a log: the TABLE_MAPs seen, and per table its plan and statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cdc.errors import CorruptLog, SchemaUnknown
from cdc.schema import TableId
from connectors.mysql.charsets.conversion import canonical
from connectors.mysql.events import MARIADB_GTID
from connectors.mysql.kernels import ops
from connectors.mysql.kernels import table_maps as scan
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.addresses import address
from connectors.mysql.rows.arena import Arena
from connectors.mysql.rows.collations import charset_of
from connectors.mysql.rows.column_plan import RowPlan, plan_table
from connectors.mysql.rows.image_plan import plan_image
from connectors.mysql.rows.table_map import TableMapEvent, parse_table_map, table_name
from connectors.mysql.table import MySqlTable

_BLOCK_BYTES = 64 << 20
_BODY = 25
"""Bytes of a TABLE_MAP event before its constant part: header and table id."""


class Slot:
    """One table in one storage layout.

    Attributes:
        plan: how its rows are decoded.
        image: the layout of its values in row images.
        state: ops.STATE[1], the kernel's state, one for all layouts of the table; sequence and row number persist
            between buffers.
        averages: bytes per row of variable-length columns; None until rows were seen.
    """

    __slots__ = ("averages", "bytes_per_row", "documents", "found", "image", "pending", "plan", "state")

    def __init__(self, plan: RowPlan, found: TableMapEvent, state: Any) -> None:
        self.found, self.state = found, state
        self.use(plan)

    def use(self, plan: RowPlan) -> None:
        """Decode rows with this plan from here on."""
        self.plan = plan
        self.image = plan_image(plan.numbers, self.found.nullable)
        self.averages: Any = None
        self.bytes_per_row = 0.0
        self.documents = np.zeros(2 * plan.json_columns, np.int64)
        self.pending = np.zeros(2 * len(plan.numbers) + 1, np.int64)

    def arena(self, size: int, *, exact: bool, rows: int = 0) -> Arena:
        """Create an arena for rows from `size` bytes of log; `exact` means for the worst case."""
        most = size // ((len(self.plan.numbers) + 7) >> 3) + 2
        if exact or self.averages is None:
            unknown = np.full(len(self.plan.numbers), -1.0)
            return Arena(self.plan, min(most, rows or _EXACT_ROWS), size, unknown)
        expected = int(min(size, _BLOCK_BYTES) / self.bytes_per_row * 1.05) + 64
        return Arena(self.plan, min(most, expected), size, self.averages)

    def learn(self, arena: Arena, rows: int, size: int) -> None:
        """Record the space taken by `rows` rows from `size` bytes of log."""
        seen = arena.averages(rows)
        self.averages = seen if self.averages is None else np.maximum(seen, self.averages * 0.9)
        self.bytes_per_row = max(size / rows, 1.0)


_EXACT_ROWS = 512


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows events of a buffer by table: `order` holds event numbers; entries are (slot, first, last, bytes)."""

    order: Any
    entries: list[tuple[Slot, int, int, int]]

    def in_log_order(self, buffer: ReceiveBuffer) -> Groups:
        """Return runs of one layout in log order where a table has several, as when its TABLE_MAP has other metadata.

        A layout may come back: with `binlog_row_metadata`, a collation or a long unique key that is set and reset.
        """
        numbers: dict[TableId, int] = {}
        tables = [numbers.setdefault(slot.found.table, len(numbers)) for slot, *_ in self.entries]
        if len(numbers) == len(tables):
            return self
        order = np.concatenate([self.order[first:last] for _, first, last, _ in self.entries])
        owner = np.repeat(np.arange(len(self.entries)), [last - first for _, first, last, _ in self.entries])
        sort = np.lexsort((order, np.array(tables)[owner]))
        order, owner = order[sort], owner[sort]
        cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), len(order)]
        sizes = np.add.reduceat(buffer.end[order] - buffer.start[order], cuts[:-1]).tolist()
        slots = [self.entries[int(owner[first])][0] for first in cuts[:-1]]
        return Groups(order, list(zip(slots, cuts[:-1], cuts[1:], sizes, strict=True)))


class TableSlots:
    """Finds the slot of each rows event; see `Decoder` for the arguments."""

    def __init__(
        self, tables: Mapping[TableId, MySqlTable], *, captures: Callable[[TableId], bool], tinyint1_as_boolean: bool
    ) -> None:
        self._tables, self._captures, self._boolean = tables, captures, tinyint1_as_boolean
        self._slots: list[Slot] = []
        self._by_layout: dict[TableMapEvent, int] = {}
        self._index = np.full(512, -1, np.int64)
        self._known = np.zeros(256, ops.KNOWN)
        self._entries = 0
        self._texts = np.zeros(64 << 10, np.uint8)
        self._used = 0
        self._ids = np.full(1024, -1, ops.IDS)
        self._epoch = 0
        self._mariadb = False  # set by the first event of a transaction, with which decoding begins

    def group(self, buffer: ReceiveBuffer) -> Groups:
        """Group rows events of captured tables by slot, a table's events in log order. Raises as `Decoder.decode`."""
        events, slots = np.empty(len(buffer), np.int64), np.empty(len(buffer), np.int64)
        self._mariadb = self._mariadb or bool(np.any(buffer.type == MARIADB_GTID))
        found = self._scan(buffer, events, slots)
        if found == 0:
            return Groups(events, [])
        firsts, sizes = np.zeros(len(self._slots) + 1, np.int64), np.zeros(len(self._slots), np.int64)
        order = np.empty(found, np.int64)
        scan.group_events(
            address(buffer.start), address(buffer.end), address(events), address(slots), found, len(sizes),
            address(firsts), address(sizes), address(order),
        )  # fmt: skip
        used = np.flatnonzero(sizes)
        used = used[np.argsort(order[firsts[used]], kind="stable")].tolist()
        for number in used:
            self._refresh(self._slots[number], buffer, int(order[firsts[number]]))
        groups = Groups(order, [(self._slots[n], int(firsts[n]), int(firsts[n + 1]), int(sizes[n])) for n in used])
        return groups.in_log_order(buffer)

    def _scan(self, buffer: ReceiveBuffer, events: Any, slots: Any) -> int:
        state = np.zeros(1, ops.SCAN)
        state["epoch"] = self._epoch
        while True:
            code = scan.scan_events(
                address(buffer.data), len(buffer.data), address(buffer.start), address(buffer.end),
                address(buffer.type), len(buffer), address(self._index), len(self._index) - 1, address(self._known),
                address(self._texts),
                address(self._ids), len(self._ids) - 1, address(events), address(slots), address(state),
            )  # fmt: skip
            event, found, self._epoch = state.tolist()[0]
            if code == ops.DONE:
                return int(found)
            if code == ops.UNKNOWN_MAP:
                self._learn(buffer, event)
            elif code == ops.IDS_FULL:
                self._more_ids()
            else:
                what = (
                    "rows of a table that no TABLE_MAP announced" if code == ops.UNKNOWN_TABLE_ID else "a short event"
                )
                raise CorruptLog(what, where=buffer.where(event), hint="start from the beginning of a transaction")

    def _learn(self, buffer: ReceiveBuffer, event: int) -> None:
        """Register a new TABLE_MAP."""
        start, end = int(buffer.start[event]) + _BODY, int(buffer.end[event])
        body = buffer.data[start:end].tobytes()
        try:
            name = table_name(body)
        except (IndexError, ValueError) as error:
            raise CorruptLog("a TABLE_MAP event is cut short", where=buffer.where(event)) from error
        slot = ops.UNWANTED
        if self._captures(name):
            slot = self._slot(parse_table_map(body, f"{name} at {buffer.where(event)}"), buffer, event)
        self._remember(body, slot)

    def _slot(self, found: TableMapEvent, buffer: ReceiveBuffer, event: int) -> int:
        if found not in self._by_layout:
            state = next((slot.state for slot in self._slots if slot.found.table == found.table), None)
            if state is None:
                state = np.zeros(1, ops.STATE)
                state["sequence"] = -1
            self._slots.append(Slot(self._plan(found, buffer, event), found, state))
            self._by_layout[found] = len(self._slots) - 1
        return self._by_layout[found]

    def _plan(self, found: TableMapEvent, buffer: ReceiveBuffer, event: int) -> RowPlan:
        where = f"{found.table} at {buffer.where(event)}"
        table = self._tables.get(found.table)
        if table is None:
            raise SchemaUnknown(
                "rows of a table whose definition is not known",
                where=where,
                hint="start from a position after its CREATE TABLE was seen, or exclude the table",
            )
        return plan_table(
            table, found, _charsets(table, found), where=where, tinyint1_as_boolean=self._boolean,
            mariadb=self._mariadb,
        )  # fmt: skip

    def _refresh(self, slot: Slot, buffer: ReceiveBuffer, event: int) -> None:
        """Renew the plan if the table was redefined since the slot was made."""
        table = self._tables.get(slot.found.table)
        if table is not slot.plan.table and table != slot.plan.table:
            slot.use(self._plan(slot.found, buffer, event))

    def _remember(self, body: bytes, slot: int) -> None:
        """Add a TABLE_MAP to the known ones."""
        size, entry = len(body), self._entries
        if self._used + size > len(self._texts):
            self._texts = _longer(self._texts, self._used + size)
        self._texts[self._used : self._used + size] = np.frombuffer(body, np.uint8)
        code = scan.hash_bytes(address(self._texts) + self._used, size)
        if entry == len(self._known):
            self._known = _longer(self._known, entry + 1)
            self._index = np.full(2 * len(self._known), -1, np.int64)
            scan.fill_index(address(self._index), len(self._index) - 1, address(self._known), 0, entry)
        self._known[entry] = (code, self._used, size, slot)
        self._entries += 1
        scan.fill_index(address(self._index), len(self._index) - 1, address(self._known), entry, entry + 1)
        self._used += size

    def _more_ids(self) -> None:
        """Quadruple the space for table ids of one statement."""
        old = self._ids[self._ids["epoch"] == self._epoch]
        self._ids = np.full(4 * len(self._ids), -1, ops.IDS)
        for number, epoch, entry in old.tolist():
            scan.remember_id(number, entry, address(self._ids), len(self._ids) - 1, epoch)


def _longer(array: Any, size: int) -> Any:
    """Return a copy with space for at least `size` entries, and at least twice as long."""
    longer = np.zeros(max(2 * len(array), size), array.dtype)
    longer[: len(array)] = array
    return longer


def _charsets(table: MySqlTable, found: TableMapEvent) -> list[str | None]:
    """Return the charset of each column's text, None if unknown; that of the log takes precedence."""
    names = []
    for column, collation in zip(table.columns, found.collations, strict=False):
        name = (None if collation is None else charset_of(collation)) or column.charset
        names.append(None if name is None else canonical(name))
    return names + [None] * (len(table.columns) - len(names))
