"""Follows the log without decoding rows, and splits it into segments. Stream reader process.

Only headers, table ids and statements are read, vectorized over a buffer, so that thousands of small transactions a
second cost no Python code each. Few events need individual treatment: statements other than BEGIN and COMMIT, new table
ids, prepared XA transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from cdc.errors import SourceError, UnsupportedChange
from cdc.schema import TableId
from cdc.source import Limits
from connectors.mysql import events
from connectors.mysql.ddl.work import COPY_IT
from connectors.mysql.follow.continuity import Continuity
from connectors.mysql.follow.log_progress import LogProgress
from connectors.mysql.follow.prepared_transactions import PreparedTransactions
from connectors.mysql.follow.table_id_map import TableIdMap
from connectors.mysql.log.buffer_view import BufferView
from connectors.mysql.log.event_bodies import gtid_runs, mariadb_gtid_runs, parse_gtid
from connectors.mysql.log.query_event import is_alone, parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.segment import ANONYMOUS, Segment
from connectors.mysql.server.positions import LogPosition

SEGMENT_BYTES = 256 << 10
"""Approximate size of a segment when the log arrives in bulk: a batch of a gigabyte is a few thousand of them."""
_NEAR = 16
"""Number of events before a statement that are first searched for its GTID."""

_OUTSIDE = events.FILE_HEADS - {events.FORMAT_DESCRIPTION}
"""Events at the start of a file, and MariaDB's checkpoint after a commit.

The end of the log, and so the position of a snapshot, can be after them, and the next transaction may come at any
time.
"""

_BEFORE_ALL = [*events.FILE_HEADS, events.ROTATE, events.STOP, events.HEARTBEAT, events.HEARTBEAT_V2]
_INSIDE = {events.TABLE_MAP, events.ROWS_QUERY, events.MARIADB_ANNOTATE_ROWS, *events.ROWS_TYPES}
_ANY_ROWS = 1 << 62


class SchemaTracker(Protocol):
    """Receives the segmenter's reports about schemas; implemented by `connectors.mysql.schema.tracker`."""

    @property
    def entries(self) -> int:
        """Number of entries in the schema history."""

    def statement(self, buffer: ReceiveBuffer, index: int, gtid: str) -> frozenset[TableId]:
        """Handle a statement that may be DDL; returns the captured tables it changes, already in the history.

        `gtid` is that of its transaction, empty if there is none.
        """

    def table(self, buffer: ReceiveBuffer, index: int, table: TableId) -> frozenset[TableId]:
        """Handle a new table id of a captured table, whose rows follow; returns tables that become known by it."""

    def uncertain(self, buffer: ReceiveBuffer, index: int, tables: Collection[TableId], reason: str) -> bool:
        """Mark tables whose rows the log does not determine from here on; returns False unless all are re-snapshotted.

        No tables: they are unknown; those with an ordered snapshot are assumed.
        """


@dataclass(slots=True)
class _Open:
    """Totals of the events read since the last segment."""

    bytes: int = 0
    rows: int = 0
    tables: set[TableId] = field(default_factory=set)
    changed: set[TableId] = field(default_factory=set)
    gtids: list[Any] = field(default_factory=list)


class Segmenter:
    """Converts buffers, in log order, into segments.

    Args:
        schemas: receives every statement and every new table id.
        captures: the captured tables.
        file, position: where the first buffer begins.
        limits: of a batch; a segment exceeds them only if a single transaction does.
        done: the GTIDs committed there; None when unknown, which disables the check that files follow each other.
        inside: whether that place may be inside a transaction.
    """

    def __init__(
        self,
        schemas: SchemaTracker,
        captures: Callable[[TableId], bool],
        *,
        file: str,
        position: int,
        limits: Limits | None = None,
        done: str | None = None,
        inside: bool = False,
    ) -> None:
        self._schemas, self._captures = schemas, captures
        self.file, self.position = file, position
        self._segment_bytes = SEGMENT_BYTES if limits is None else min(SEGMENT_BYTES, limits.max_bytes)
        self._segment_rows = _ANY_ROWS if limits is None else limits.max_rows
        self._ids = TableIdMap(captures)
        self.prepared = PreparedTransactions()
        """The prepared XA transactions of the log read so far."""
        self._steps: list[tuple[int, int]] = []
        """Events of the current buffer, with the number of schema history entries written up to each."""
        self._in_transaction = self._announced = self._file_begins = False
        self._begun = inside
        self._gtid = ""
        self._open = _Open()
        self.files = Continuity(done)
        """The files and transactions that were read, including the current transaction."""

    @property
    def position_read(self) -> LogPosition:
        """The end of the log read so far."""
        return LogPosition(self.file, self.position)

    def has_read(self, end: LogPosition) -> bool:
        """Return whether all log up to `end` was read.

        The position alone does not tell: all events of a compressed transaction have the position of its end, and may
        come in several buffers.
        """
        return LogProgress(self.position_read, self._in_transaction).caught_up(end)

    @property
    def holds_rows(self) -> bool:
        """Whether the current transaction has rows of captured tables."""
        return bool(self._open.tables)

    def feed(self, buffer: ReceiveBuffer) -> Iterator[Segment]:
        """Yield segments that end in this buffer, in log order.

        Raises SourceError for log that cannot be followed, after the segments before it.
        """
        if not len(buffer):
            return
        if buffer.file != self.file:
            self._next_file(buffer)
        self.files.check(buffer)
        view = BufferView(buffer, self.position)
        if not self._begun:
            self._begin(buffer)
        self._steps = [(-1, self._schemas.entries)]
        first = 0
        for index, handle in self._special_events(view):
            try:
                changed = handle(view, first, index)
            except SourceError:
                yield from self._segments(view, first, view.stop_before(index))
                raise
            if changed:
                stop = view.stop_before(index)
                yield from self._segments(view, first, stop)
                first = max(first, stop)
                self._open.changed |= changed
            self._steps.append((index, self._schemas.entries))
        stop = view.stop_before(len(buffer))
        yield from self._segments(view, first, stop)
        self._gather(view, max(first, stop), len(buffer))
        self._in_transaction = view.open_at(len(buffer), self._in_transaction)
        self._announced = view.announces(len(buffer) - 1)
        alone = not self._in_transaction and is_alone(buffer, begun=bool(self._gtid))
        begun = self._in_transaction or int(buffer.type[-1]) in events.GTID_TYPES
        self._gtid = self._gtid_at(buffer, len(buffer)) if begun else ""
        self.position = int(buffer.end_position[-1])
        # Also for a file without transactions yet: the previous one may be purged.
        if not begun and (alone or self._file_begins or int(buffer.type[-1]) in _OUTSIDE):
            yield self._close(buffer, len(buffer) - 1)

    def _begin(self, buffer: ReceiveBuffer) -> None:
        """Look at the first event of all that is no head of a file. Raises UnsupportedChange inside a transaction."""
        found = np.flatnonzero(~np.isin(buffer.type, _BEFORE_ALL))
        self._begun = bool(len(found))
        if self._begun and buffer.type[found[0]] in _INSIDE:
            raise UnsupportedChange(
                "the position to start from is inside a transaction, of which the rows before it would be missing",
                where=buffer.where(int(found[0])),
                hint="start from the beginning of a transaction",
            )

    def _next_file(self, buffer: ReceiveBuffer) -> None:
        """Move to the next file. Transactions never span files, so an open one was cut off by a crash of the server."""
        if self._open.tables:
            raise UnsupportedChange(
                f"{self.file} ends inside a transaction: the server crashed while writing it, and rolled its rows back",
                where=f"{self.file}:{self.position}",
                hint=f"start over at {buffer.file}",
            )
        self.files.next_file(self.file, buffer)
        self.file, self.position, self._ids = buffer.file, 4, TableIdMap(self._captures)
        self._file_begins = True
        self._in_transaction = self._announced = False

    def _special_events(
        self, view: BufferView
    ) -> list[tuple[int, Callable[[BufferView, int, int], frozenset[TableId]]]]:
        """List events to handle individually, in log order, with handlers: (view, first, index) -> changed tables."""
        ids, of_id = np.unique(view.ids, return_inverse=True)
        behind = np.searchsorted(view.statements, view.maps)
        fresh = np.unique(behind * len(ids) + of_id, return_index=True)[1]
        fresh = [i for i in fresh if behind[i] or self._ids.is_new(int(view.ids[i]))]
        points = [(int(view.maps[i]), self._table_map) for i in fresh]
        points += [(int(i), self._statement) for i in view.statements]
        points += [(int(i), self._xa_prepare) for i in view.prepares]
        return sorted(points, key=lambda point: point[0])

    def _table_map(self, view: BufferView, first: int, index: int) -> frozenset[TableId]:
        table = self._ids.add(view.buffer, index)
        return frozenset() if table is None else self._schemas.table(view.buffer, index, table)

    def _statement(self, view: BufferView, first: int, index: int) -> frozenset[TableId]:
        buffer = view.buffer
        if buffer.query_kind[index] == events.ROLLBACK:
            self._rollback(view, first, index)
            return frozenset()
        text = parse_query(buffer, index).sql.lstrip()
        if text[:3].upper() == "XA ":
            self._xa_end(view, index, text)
            return frozenset()
        if view.announces(index - 1) if index else self._announced:
            view.is_end[index] = True
            return frozenset()
        view.is_end[index] = not view.open_at(index, self._in_transaction)
        changed = self._schemas.statement(buffer, index, self._gtid_at(buffer, index))
        self._ids.outdate(changed)
        return changed

    def _gtid_at(self, buffer: ReceiveBuffer, index: int) -> str:
        """Return the last GTID before an event, or that of the transaction begun in an earlier buffer."""
        for first in (max(0, index - _NEAR), 0):  # a single-statement transaction has it right before
            found = np.flatnonzero(np.isin(buffer.type[first:index], sorted(events.GTID_TYPES)))
            if len(found):
                return str(parse_gtid(buffer, first + int(found[-1])))
        return self._gtid

    def _xa_prepare(self, view: BufferView, first: int, index: int) -> frozenset[TableId]:
        buffer = view.buffer
        self.prepared.add(buffer.body(index), self._rows_before(view, first, index), buffer.where(index))
        return frozenset()

    def _xa_end(self, view: BufferView, index: int, text: str) -> None:
        """Handle XA COMMIT or XA ROLLBACK of a prepared transaction."""
        view.is_end[index] = True
        tables = self.prepared.end(text)
        if tables == frozenset():
            return
        reason = "a prepared XA transaction was rolled back after its rows may have been delivered"
        if not self._schemas.uncertain(view.buffer, index, tables or frozenset(), reason):
            which = "; which tables it wrote to is not known" if tables is None else _of(tables)
            raise UnsupportedChange(f"{reason}{which}", where=view.buffer.where(index), hint=COPY_IT)

    def _rollback(self, view: BufferView, first: int, index: int) -> None:
        """Handle a logged ROLLBACK or ROLLBACK TO: harmless if the transaction has no earlier captured rows.

        Otherwise the tables are re-snapshotted, or an error is raised.
        """
        tables = self._rows_before(view, first, index)
        reason = "the log holds rows that were rolled back (a transaction that mixes engines)"
        if tables and not self._schemas.uncertain(view.buffer, index, tables, reason):
            raise UnsupportedChange(f"{reason}{_of(tables)}", where=view.buffer.where(index), hint=COPY_IT)
        text = parse_query(view.buffer, index).sql.upper().split()
        view.is_end[index] = "TO" not in text[:4]

    def _rows_before(self, view: BufferView, first: int, index: int) -> frozenset[TableId]:
        """Return captured tables with rows earlier in the transaction of the event at `index`."""
        begin = view.stop_before(index)
        found = self._tables(view, max(begin, first), index)
        return frozenset(found | self._open.tables if begin == 0 else found)

    def _segments(self, view: BufferView, first: int, stop: int) -> Iterator[Segment]:
        """Close the open segment with events `first` up to `stop`, in pieces within the limits."""
        if stop <= first:
            return
        ends = np.flatnonzero(view.is_end[first:stop]) + first
        sizes, rows = view.bytes[ends + 1], view.rows[ends + 1]
        done = 0
        while done < len(ends):
            most_bytes = view.bytes[first] + self._segment_bytes - self._open.bytes
            most_rows = view.rows[first] + self._segment_rows - self._open.rows
            fits = min(
                int(np.searchsorted(sizes, most_bytes, side="right")),
                int(np.searchsorted(rows, most_rows, side="right")),
            )
            done = max(done + 1, fits)
            last = int(ends[done - 1])
            self._gather(view, first, last + 1)
            yield self._close(view.buffer, last)
            first = last + 1

    def _gather(self, view: BufferView, first: int, stop: int) -> None:
        """Add events `first` up to `stop` to the open segment."""
        if stop <= first:
            return
        self._open.bytes += int(view.bytes[stop] - view.bytes[first])
        self._open.rows += int(view.rows[stop] - view.rows[first])
        self._open.tables |= self._tables(view, first, stop)
        runs = mariadb_gtid_runs if view.mariadb else gtid_runs
        gtids: list[Any] = list(runs(view.buffer, first, stop))
        if np.any(view.buffer.type[first:stop] == events.ANONYMOUS_GTID):
            gtids.append(ANONYMOUS)
        self._open.gtids += gtids
        self.files.add(gtids)

    def _tables(self, view: BufferView, first: int, stop: int) -> set[TableId]:
        """Return captured tables with a TABLE_MAP among events `first` up to `stop`."""
        low, high = np.searchsorted(view.maps, (first, stop))
        return self._ids.captured(np.unique(view.ids[low:high]).tolist())

    def _close(self, buffer: ReceiveBuffer, last: int) -> Segment:
        done, self._open, self._file_begins = self._open, _Open(), False
        entries = next(entries for index, entries in reversed(self._steps) if index <= last)
        return Segment(
            buffer.file,
            int(buffer.end_position[last]),
            done.bytes,
            done.rows,
            frozenset(done.tables),
            frozenset(done.changed),
            entries,
            tuple(done.gtids),
        )


def _of(tables: Collection[TableId]) -> str:
    """Format tables for a message."""
    return f": {', '.join(map(str, sorted(tables)))}"
