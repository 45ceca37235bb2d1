"""Follows the log without looking at rows, and cuts it into segments. Stream reader process.

Only headers, table ids and statements are read, in vectors over a chunk: thousands of small transactions a second cost
no Python each. What has to be looked at one by one is rare: statements other than BEGIN and COMMIT, new table ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from cdc.errors import CorruptLog, UnsupportedChange
from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.chunk import EventChunk, Ints
from connectors.mysql.event_bodies import gtid_runs, mariadb_gtid_runs
from connectors.mysql.query_event import parse_query
from connectors.mysql.segment import Segment
from connectors.mysql.table_map import table_name

SEGMENT_BYTES = 256 << 10
"""Where the log comes in bulk a segment is about this big: a batch of a gigabyte is a few thousand of them."""

_ROW_BYTES = 40
"""Row estimate: at least one row an event, about one for every 40 bytes."""

_ROWS = np.array(sorted(events.ROWS_TYPES), np.uint8)


class SchemaTracker(Protocol):
    """What the planner tells about schemas; `connectors.mysql.schemas` keeps them."""

    @property
    def entries(self) -> int:
        """Entries in the schema history."""

    def statement(self, chunk: EventChunk, index: int) -> frozenset[TableId]:
        """A statement that may be DDL: the captured tables it changes, already in the history."""

    def table(self, chunk: EventChunk, index: int, table: TableId) -> frozenset[TableId]:
        """Rows of a captured table are coming, under an id not met before: the tables that become known by it."""


@dataclass(slots=True)
class _Open:
    """What has been read since the last segment."""

    bytes: int = 0
    rows: int = 0
    tables: set[TableId] = field(default_factory=set)
    changed: set[TableId] = field(default_factory=set)
    gtids: list[Any] = field(default_factory=list)


class _View:
    """A chunk with the vectors that planning needs, made once."""

    def __init__(self, chunk: EventChunk, position: int) -> None:
        self.chunk = chunk
        steps = np.diff(chunk.end_position, prepend=np.int64(position))
        self.bytes = np.concatenate(([0], np.cumsum(np.maximum(steps, 0))))
        is_rows = np.isin(chunk.type, _ROWS)
        estimate = np.where(is_rows, np.maximum((chunk.end - chunk.start) // _ROW_BYTES, 1), 0)
        self.rows = np.concatenate(([0], np.cumsum(estimate)))
        self.maps = np.flatnonzero(chunk.type == events.TABLE_MAP)
        self.ids = _table_ids(chunk, self.maps)
        self.mariadb = bool((chunk.type == events.MARIADB_GTID).any())
        is_query = chunk.type == events.QUERY
        self.statements = np.flatnonzero(is_query & (chunk.query_kind >= events.OTHER))
        is_end = (chunk.type == events.XID) | (chunk.type == events.XA_PREPARE)
        is_end |= is_query & (chunk.query_kind == events.COMMIT)
        self.is_end = is_end
        self.begins = np.flatnonzero(is_query & (chunk.query_kind == events.BEGIN))


class Planner:
    """Turns chunks, in log order, into segments.

    Args:
        schemas: told of every statement and of every new table id.
        wanted: the captured tables.
        file, position: where the first chunk begins.
    """

    def __init__(self, schemas: SchemaTracker, wanted: Callable[[TableId], bool], *, file: str, position: int) -> None:
        self._schemas, self._wanted = schemas, wanted
        self.file, self.position = file, position
        self._ids: dict[int, TableId | None] = {}
        self._in_transaction = False
        self._open = _Open()

    def feed(self, chunk: EventChunk) -> Iterator[Segment]:
        """Segments that end in this chunk, in log order. Raises SourceError for what cannot be followed."""
        if not len(chunk):
            return
        if chunk.file != self.file:
            self.file, self.position, self._ids = chunk.file, 4, {}
        view = _View(chunk, self.position)
        first = 0
        for index, is_statement in self._points(view):
            entries = self._schemas.entries
            changed = self._statement(view, first, index) if is_statement else self._new_table(view, index)
            if changed:
                stop = _stop_before(view, index)
                yield from self._segments(view, first, stop, entries)
                first = max(first, stop)
                self._open.changed |= changed
        stop = _stop_before(view, len(chunk))
        yield from self._segments(view, first, stop, self._schemas.entries)
        self._gather(view, max(first, stop), len(chunk))
        self._in_transaction = self._transaction_open_at(view, len(chunk))
        self.position = int(chunk.end_position[-1])

    def _points(self, view: _View) -> Iterator[tuple[int, bool]]:
        """Events to look at one by one: (index, is it a statement), in log order."""
        fresh = [] if not len(view.ids) else [int(i) for i in np.unique(view.ids, return_index=True)[1]]
        points = [(int(view.maps[i]), False) for i in fresh if int(view.ids[i]) not in self._ids]
        points += [(int(i), True) for i in view.statements]
        yield from sorted(points)

    def _new_table(self, view: _View, index: int) -> frozenset[TableId]:
        chunk = view.chunk
        try:
            table = table_name(chunk.body(index)[6:])
        except (IndexError, UnicodeDecodeError) as error:
            raise CorruptLog(f"a TABLE_MAP event cannot be read: {error}", where=chunk.where(index)) from error
        key = int(_table_ids(chunk, np.array([index], np.int64))[0])
        self._ids[key] = table if self._wanted(table) else None
        return self._schemas.table(chunk, index, table) if self._ids[key] is not None else frozenset()

    def _statement(self, view: _View, first: int, index: int) -> frozenset[TableId]:
        chunk = view.chunk
        if chunk.query_kind[index] == events.ROLLBACK:
            self._rollback(view, first, index)
            return frozenset()
        text = parse_query(chunk, index).sql.lstrip()[:40].upper()
        if text.startswith("XA ROLLBACK"):
            raise UnsupportedChange(
                "a prepared XA transaction was rolled back after its rows had been delivered",
                where=chunk.where(index),
                hint="start the pipeline anew after this position",
            )
        opened = self._transaction_open_at(view, index)
        changed = frozenset() if text.startswith("XA ") else self._schemas.statement(chunk, index)
        view.is_end[index] = not opened and not _goes_on(chunk, index)
        return changed

    def _rollback(self, view: _View, first: int, index: int) -> None:
        """ROLLBACK or ROLLBACK TO in the log: fine without rows of ours before it in the transaction, else refused."""
        begin = max(_stop_before(view, index), first)
        if self._tables(view, begin, index) or (begin == first and self._open.tables and self._in_transaction):
            raise UnsupportedChange(
                "the log holds rows that were rolled back (a transaction that mixes engines)",
                where=view.chunk.where(index),
                hint="leave the tables out that are not transactional, or start anew after this position",
            )
        text = parse_query(view.chunk, index).sql.upper().split()
        view.is_end[index] = "TO" not in text[:4]

    def _transaction_open_at(self, view: _View, index: int) -> bool:
        """Whether the event at `index` is inside BEGIN ... COMMIT."""
        begin = int(np.searchsorted(view.begins, index)) - 1
        last_begin = int(view.begins[begin]) if begin >= 0 else -1
        last_end = _stop_before(view, index) - 1
        if last_begin < 0 and last_end < 0:
            return self._in_transaction
        return last_begin > last_end

    def _segments(self, view: _View, first: int, stop: int, entries: int) -> Iterator[Segment]:
        """Close what is open with events `first` up to `stop`, in pieces of SEGMENT_BYTES."""
        ends = np.flatnonzero(view.is_end[:stop]) if stop > first else np.empty(0, np.int64)
        ends = ends[ends >= first]
        while len(ends):
            beyond = int(np.searchsorted(view.bytes[ends + 1], view.bytes[first] + SEGMENT_BYTES))
            last = int(ends[min(beyond, len(ends) - 1)])
            self._gather(view, first, last + 1)
            yield self._close(view.chunk, last, entries)
            first, ends = last + 1, ends[ends > last]

    def _gather(self, view: _View, first: int, stop: int) -> None:
        """Add events `first` up to `stop` to what is open."""
        if stop <= first:
            return
        self._open.bytes += int(view.bytes[stop] - view.bytes[first])
        self._open.rows += int(view.rows[stop] - view.rows[first])
        self._open.tables |= self._tables(view, first, stop)
        runs = mariadb_gtid_runs if view.mariadb else gtid_runs
        self._open.gtids += runs(view.chunk, first, stop)

    def _tables(self, view: _View, first: int, stop: int) -> set[TableId]:
        """Captured tables with a TABLE_MAP among events `first` up to `stop`."""
        low, high = np.searchsorted(view.maps, (first, stop))
        known = (self._ids.get(int(key)) for key in np.unique(view.ids[low:high]))
        return {table for table in known if table is not None}

    def _close(self, chunk: EventChunk, last: int, entries: int) -> Segment:
        done, self._open = self._open, _Open()
        return Segment(
            chunk.file,
            int(chunk.end_position[last]),
            done.bytes,
            done.rows,
            frozenset(done.tables),
            frozenset(done.changed),
            entries,
            tuple(done.gtids),
        )


def _table_ids(chunk: EventChunk, maps: Ints) -> Ints:
    """int64[m]: the 6-byte table id of each TABLE_MAP event."""
    at = chunk.start[maps] + events.HEADER_SIZE
    ids = np.zeros(len(maps), np.int64)
    for byte in range(6):
        ids |= chunk.buffer[at + byte].astype(np.int64) << (8 * byte)
    return ids


def _stop_before(view: _View, index: int) -> int:
    """One past the last transaction end before `index`; 0 when there is none in this chunk."""
    found = np.flatnonzero(view.is_end[:index])
    return int(found[-1]) + 1 if len(found) else 0


def _goes_on(chunk: EventChunk, index: int) -> bool:
    """CREATE TABLE ... SELECT: a statement outside BEGIN whose rows follow in the same transaction."""
    if parse_query(chunk, index).sql.rstrip().upper().endswith("START TRANSACTION"):
        return True
    after = index + 1
    return after < len(chunk) and chunk.type[after] in (events.TABLE_MAP, events.MARIADB_ANNOTATE_ROWS)
