"""Decodes binary log events to change blocks, columnar: two kernel passes per buffer, Python only per table and block.

First pass (`kernels.table_maps`): list the rows events of captured tables. Second pass (`kernels.rows`): decode all
rows events of one table into one arena, which becomes Arrow arrays without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cdc.block import ChangeBlock
from cdc.errors import UnsupportedChange
from cdc.schema import TableId
from cdc.source import Count
from connectors.mysql.kernels import ops
from connectors.mysql.kernels.json import STACK_BYTES
from connectors.mysql.kernels.rows import decode_rows
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.addresses import address
from connectors.mysql.rows.arena import Arena, text_patch
from connectors.mysql.rows.image_plan import Walk
from connectors.mysql.rows.row_faults import fault_error
from connectors.mysql.rows.table_slots import Slot, TableSlots
from connectors.mysql.table import MySqlTable
from connectors.mysql.value_rules import DEFAULT_RULES, ValueRules

_SEQUENCE_SHIFT = 40
_SAMPLE_BYTES = 32 << 10
_SAMPLE_ROWS = 512


class Decoder:
    """Decodes the buffers of one log in order; keeps the content of TABLE_MAP events between buffers.

    Not thread-safe. The kernels compile on first use, once per machine: the result is cached on disk.

    Args:
        tables: current definitions of the captured tables; may change between two calls of `decode`.
        captures: whether a table's rows are wanted; called once per distinct TABLE_MAP.
        count: receives values that were changed on purpose: `invalid-date-to-null shop.orders.shipped`.
        rules: rules for single values.
    """

    def __init__(
        self,
        tables: Mapping[TableId, MySqlTable],
        *,
        captures: Callable[[TableId], bool],
        count: Count,
        rules: ValueRules = DEFAULT_RULES,
    ) -> None:
        self._slots = TableSlots(tables, captures=captures, tinyint1_as_boolean=rules.tinyint1_as_boolean)
        self._count = count
        self._strict = rules.strict_dates
        self._replaced = count if rules.replaces_text else None
        self._slow = np.zeros(ops.SLOW_CAPACITY, ops.SLOW)
        self._json_stack = np.zeros(STACK_BYTES, np.uint8)
        self._fault = np.zeros(1, ops.FAULT)
        self._buffer = np.zeros(1, ops.BUFFER)
        self._context = np.zeros(1, ops.CONTEXT)
        self._walk = Walk()

    def decode(self, buffer: ReceiveBuffer) -> Iterator[ChangeBlock]:
        """Yield the row changes of a buffer: table by table, in log order within a table.

        Raises:
            CorruptLog: an event's lengths do not add up, or rows of a table that was never announced.
            SchemaUnknown: rows of a captured table whose definition is missing or does not fit them.
            UnsupportedChange: incomplete row images, or an invalid date when those are refused.
        """
        groups = self._slots.group(buffer)
        for slot, first, last, size in groups.entries:
            run = _RowsRun(buffer, slot, groups.order, last)
            slot.state["event"], slot.state["at"] = first, 0
            yield from self._blocks(run, size)

    def _blocks(self, run: _RowsRun, size: int) -> Iterator[ChangeBlock]:
        slot = run.slot
        if slot.averages is None:
            block, done = self._sample(run, size)
            if block is not None:
                yield block
            if done:
                return
        exact = False
        while True:
            left = run.bytes_left()
            arena = slot.arena(left, exact=exact)
            code = self._decode(run, arena, run.last)
            rows = int(slot.state["rows"][0])
            if rows == 0 and code == ops.FULL:
                if exact:
                    raise UnsupportedChange(
                        "one row needs more than 2 GB", where=run.where(), hint="exclude the table from the pipeline"
                    )
                exact = True
                continue
            exact = False
            if rows:
                slot.learn(arena, rows, left - run.bytes_left())
                yield self._finish(run, arena, rows)
            if code == ops.DONE:
                return

    def _sample(self, run: _RowsRun, size: int) -> tuple[ChangeBlock | None, bool]:
        """Decode the first events to learn the width of the columns; a small run is complete after that."""
        slot, before = run.slot, run.slot.state.copy()
        last, size = run.first_events(_SAMPLE_BYTES, size)
        arena = slot.arena(size, exact=True, rows=_SAMPLE_ROWS)
        code = self._decode(run, arena, last)
        rows = int(slot.state["rows"][0])
        if code == ops.DONE and last == run.last:
            return (self._finish(run, arena, rows) if rows else None), True
        if rows:
            slot.learn(arena, rows, size - run.bytes_left(last))
        slot.state[:] = before
        return None, False

    def _decode(self, run: _RowsRun, arena: Arena, last: int) -> int:
        slot, buffer, plan = run.slot, run.buffer, run.slot.plan
        slot.state["rows"], slot.state["slow"], slot.state["nulls_known"] = 0, 0, 1
        self._context[0] = (
            address(buffer.data), address(buffer.data) + len(buffer.data) - 64, self._strict, address(plan.labels),
            address(plan.text), plan.json_columns, address(self._json_stack), address(slot.documents),
            address(slot.pending), address(self._slow), address(slot.state), address(self._fault),
            self._walk.record(slot.image),
        )  # fmt: skip
        self._buffer[0] = (
            len(buffer.data), address(buffer.start), address(buffer.end), address(buffer.type),
            address(buffer.end_position), address(buffer.commit_ms), buffer.file_number << _SEQUENCE_SHIFT,
            address(run.order), last,
        )  # fmt: skip
        code = decode_rows(
            address(self._buffer), len(plan.numbers), address(arena.layout), address(arena.head), arena.rows,
            address(self._context),
        )  # fmt: skip
        if code not in (ops.DONE, ops.FULL):
            raise fault_error(code, self._fault[0], plan, buffer)
        return int(code)

    def _finish(self, run: _RowsRun, arena: Arena, rows: int) -> ChangeBlock:
        slot = run.slot
        slow = int(slot.state["slow"][0])
        patch = text_patch(run.buffer, self._slow[:slow], run.where()) if slow else None
        for index in np.flatnonzero(arena.layout["invalid"]).tolist():
            name = f"invalid-date-to-null {slot.plan.table.id}.{slot.plan.table.columns[index].name}"
            self._count(name, int(arena.layout["invalid"][index]))
        return arena.block(rows, bool(slot.state["nulls_known"][0]), patch, run.where(), self._replaced)


class _RowsRun:
    """The rows events of one table in one buffer: entries of `order` up to `last`."""

    __slots__ = ("buffer", "last", "order", "slot")

    def __init__(self, buffer: ReceiveBuffer, slot: Slot, order: Any, last: int) -> None:
        self.buffer, self.slot, self.order, self.last = buffer, slot, order, last

    def where(self) -> str:
        """Format table and position, for errors."""
        event = int(self.order[min(int(self.slot.state["event"][0]), self.last - 1)])
        return f"{self.slot.plan.table.id} at {self.buffer.where(event)}"

    def sizes(self, last: int) -> Any:
        """Return the sizes of the events from the next one up to `last`."""
        events = self.order[int(self.slot.state["event"][0]) : last]
        return self.buffer.end[events] - self.buffer.start[events]

    def bytes_left(self, last: int | None = None) -> int:
        """Return the bytes of log left to decode, up to entry `last`."""
        sizes = self.sizes(self.last if last is None else last)
        if len(sizes) == 0:
            return 0
        at = int(self.slot.state["at"][0])
        event = int(self.order[int(self.slot.state["event"][0])])
        return int(sizes.sum()) - (at - int(self.buffer.start[event]) if at else 0)

    def first_events(self, limit: int, size: int) -> tuple[int, int]:
        """Return the entry up to which the next events have about `limit` bytes, and their actual size."""
        if size <= limit:
            return self.last, size
        ends = np.cumsum(self.sizes(self.last))
        count = int(np.searchsorted(ends, limit)) + 1
        return int(self.slot.state["event"][0]) + count, int(ends[count - 1])
