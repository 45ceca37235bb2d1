"""Plans which chunks a batch copies, beside the log it reads. Stream reader process.

Each call of `plan` takes the offset that the log alone has come to and adds to it the plan's entries of this batch,
written to disk before. All it needs to know is in the two files and in the offset, so a new process goes on the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from cdc.errors import SchemaUnknown, SourceUnavailable, StateError
from cdc.schema import TableId
from cdc.source import Limits, Order
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.cascades import Cascading, DueRequests
from connectors.mysql.snapshot.chunk import DONE, Begin, Chunk, LogLost, TableEnd
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.copies import TableCopy
from connectors.mysql.snapshot.plan.finder import Finder, to_cut
from connectors.mysql.snapshot.plan.following import GAP
from connectors.mysql.snapshot.plan.info_session import InfoSession
from connectors.mysql.snapshot.plan.log_entries import LogEntries
from connectors.mysql.snapshot.plan.requests import CopyRequest, Requests
from connectors.mysql.snapshot.plan.split_points import ChunkSize

MOST_CHUNKS = 512
"""In one batch: small tables come by the thousand."""

GATHER_S = 0.1
"""A batch that has a chunk waits so long for more that are being found: a batch for each small table takes longer."""

BYTES_FACTOR = 4
"""A batch may hold this many times `max-batch-bytes` of chunks: they are not read ahead and have no before images."""

PACED_S = 10
"""With `rows-per-second` a chunk and a batch hold no more rows than may be copied in so many seconds: what was read is
kept, no view stays open for long, and a run that is to stop does not wait for longer. A table that cannot be cut is one
chunk all the same."""

TRIES = 20
"""A chunk whose table has another definition than the log gave it is planned again so often."""


class Coordinator:
    """Plans the copying of tables for one pipeline.

    Args:
        store: what the connector keeps.
        history: of schemas; read only.
        captures: the captured tables.
        streams: opens sessions on the server.

    `hurry`: the run is to end, nothing that is asked for waits for its time.
    """

    def __init__(
        self,
        options: MySqlSourceOptions,
        store: Store,
        history: SchemaHistory,
        captures: Callable[[TableId], bool],
        streams: Streams,
        notices: list[str],
    ) -> None:
        self._options, self._history, self._captures, self._streams = options, history, captures, streams
        self._plan, self._marks = ChunkPlan(store), Watermarks(store)
        self._requests = Requests(store)
        self._orders: dict[str, CopyRequest] = {}
        self._due = DueRequests(self._requests, options.cascades_interval_s)
        self._cascading = Cascading(options, store, streams, captures)
        self.hurry = False
        self._finder: Finder | None = None
        self._blocked: dict[TableId, int] = {}
        self._session = InfoSession(streams)
        self._log_entries = LogEntries(
            options, (self._plan, self._marks, self._requests), history, captures, self._session, notices
        )
        self._opened = False
        self._away_since = 0.0

    @property
    def blocked(self) -> list[TableId]:
        """Tables that wait for the log, as the server has altered them."""
        return sorted(self._blocked)

    def begin(self, tables: Iterable[TableId]) -> None:
        """Begin a new pipeline's plan with the tables that are to be copied. Repeatable."""
        self._plan.truncate(0)
        self._plan.append(Begin(table, "initial") for table in sorted(tables) if self._options.copied_at_first(table))

    def begin_new(self, start: MySqlOffset, tables: Iterable[TableId]) -> int:
        """Tables that are new to a pipeline that runs: those to be copied begin; returns the plan's new count."""
        self.open(start)
        return self._plan.append(
            Begin(table, "new") for table in sorted(tables) if self._options.copied_when_added(table)
        )

    def order(self, orders: Mapping[TableId, Order]) -> None:
        """Snapshots of these tables begin with the next batch, unless they have begun."""
        self._orders = {
            order.id: CopyRequest(order.id, table, order.reason, order.limited) for table, order in orders.items()
        }

    def restart_all(self, start: MySqlOffset, tables: Collection[TableId]) -> int:
        """The log between the two offsets of a batch is lost: all tables begin again; returns the plan's new count."""
        self._plan.truncate(start.chunks)
        self._opened = True
        self._blocked.clear()
        if self._finder is not None:
            self._finder.stop()
            self._finder = None
        copies = self._plan.copies(start.chunks)
        ends = [TableEnd(table, "gone") for table in copies if table not in tables]
        return self._plan.append([LogLost(), *ends, *(Begin(table, "restart", reason=GAP) for table in sorted(tables))])

    def has_jumped(self, entries: int, at: MySqlOffset) -> bool:
        """Whether a batch up to `at` has left log out, behind the first `entries` of the plan."""
        count = at.chunks
        return any(isinstance(entry, LogLost) for entry in self._plan.entries(min(entries, count), count))

    def first_entries(self) -> int:
        """Entries that the pipeline began with."""
        return self._plan.first_entries()

    def open(self, start: MySqlOffset) -> None:
        """Cut off what a crashed run has planned behind `start`. Once, before the first `plan`."""
        if not self._opened:
            self._plan.truncate(start.chunks)
            self._opened = True

    def is_unfinished(self, start: MySqlOffset) -> bool:
        """Whether tables are being copied still, or are to be: the log alone does not make the sink equal."""
        return bool(self._plan.copies(start.chunks)) or bool(self._new_requests(start))

    def position_to_reach(self, start: MySqlOffset) -> LogPosition | None:
        """The position that the log has to be read to until the sink is equal; None when `start` is there."""
        before, marks = start.chunks, self._marks.refresh()
        highs = (copy.highest(before, marks) for copy in self._plan.copies(before).values())
        highest = max((mark for mark in highs if mark is not None), key=lambda mark: mark.sequence, default=None)
        if highest is None or highest.sequence <= start.sequence:
            return None
        return LogPosition(highest.file, highest.position)

    def ready(self, start: MySqlOffset) -> bool:
        """Whether `plan` has something to add to a batch at once."""
        if self._is_whole(start) or self._new_requests(start):
            return True
        if self._finder is not None:
            return self._finder.peek(0.0) is not None
        before, marks = start.chunks, self._marks.refresh()
        return not all(copy.is_done(before, marks) for copy in self._plan.copies(before).values())

    def plan(self, start: MySqlOffset, end: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        """`end` with the entries of this batch counted; as it is when there is nothing to add.

        Waits up to `wait_s` for chunks to be found when the log has nothing either.
        """
        before = start.chunks
        self._cascading.refresh(start, end)
        requests = self._new_requests(start, self._log_entries.renamed(start, end))
        self._due.note_begun([request.name for request in requests])
        moved = start.moved_to(end)
        entries = self._log_entries.of(start, end, requests, moved=moved)
        if moved:
            self._session.close()
            self._blocked.clear()
        count = self._plan.append(entries) if entries else before
        if entries or self._finder is None or self._is_unblocked(end):
            self._start_finder(end, count)
        wait_s = wait_s if end == start and not entries else 0.0
        count = self._plan.append(self._chunks(end, before, count, limits, wait_s))
        if count > before or end != start or self._is_whole(start):
            count = self._forget_finished(start, before, count)
        return replace(end, chunks=count)

    def commit(self, end: MySqlOffset) -> None:
        """Requests that came into a batch up to `end` are done with."""
        done = {entry.request for entry in self._plan.entries(0, end.chunks) if isinstance(entry, Begin)}
        self._requests.remove(done)

    def stop(self) -> None:
        """End the thread. Also while `plan` waits in another thread."""
        if self._finder is not None:
            self._finder.stop()

    def _new_requests(self, start: MySqlOffset, renamed: Collection[TableId] = ()) -> list[CopyRequest]:
        """Orders, and requests of tasks that are due, no snapshot of which has begun yet.

        The files of requests stay until the batch is in the sink.
        """
        names = self._requests.names()
        if not (names or self._orders):
            return []
        begun = self._plan.requests()
        due = self._due.select(names - begun, self._plan.copies(start.chunks), renamed=renamed, hurry=self.hurry)
        orders = [order for name, order in self._orders.items() if name not in begun]
        known = self._history.tables(start.schemas) if orders else {}
        able = [order for order in orders if order.table in known and self._captures(order.table)]
        return [*map(self._requests.get, sorted(due)), *able]

    def _is_whole(self, start: MySqlOffset) -> bool:
        """Whether a snapshot is done."""
        before, marks, here = start.chunks, self._marks.refresh(), start.sequence
        return any(copy.is_finished(before, marks, here) for copy in self._plan.copies(before).values())

    def _is_unblocked(self, end: MySqlOffset) -> bool:
        """Whether the log has come to where a table was found altered."""
        here = end.sequence
        free = [table for table, sequence in self._blocked.items() if sequence <= here]
        for table in free:
            del self._blocked[table]
        return bool(free)

    def _start_finder(self, end: MySqlOffset, count: int) -> None:
        """Start finding chunks, from where the plan is after `count` entries."""
        if self._finder is not None:
            self._finder.stop()
        known = self._history.tables(end.schemas)
        tasks = [
            to_cut(copy, known[table])
            for table, copy in self._plan.copies(count).items()
            if not copy.complete and table in known and table not in self._blocked
        ]
        options = self._options
        size = ChunkSize(self._rows_at_pace(options.chunk_rows), options.chunk_factor_low, options.chunk_factor_high)
        self._finder = Finder(self._streams, tasks, size, options.max_batch_bytes, options.chunk_key_column)
        self._finder.start()

    def _chunks(self, end: MySqlOffset, before: int, count: int, limits: Limits | None, wait_s: float) -> list[Chunk]:
        """The batch's chunks; none while the server is away, for as long as it may be. Raises SourceUnavailable."""
        try:
            chunks = self._chunks_to_reread(end, before, count)
            chunks += self._next_chunks(end, limits, wait_s, count + len(chunks))
            note = self._note() if chunks else {}
        except SourceUnavailable:
            self._away_since = self._away_since or time.monotonic()
            if time.monotonic() - self._away_since > self._options.retry_timeout_s:
                raise
            self.stop()
            self._finder = None  # what was taken from it is found again
            return []
        self._away_since = 0.0
        return [replace(chunk, note=note) for chunk in chunks]

    def _chunks_to_reread(self, end: MySqlOffset, before: int, number: int) -> list[Chunk]:
        """Chunks that could not be read, once the log has come to where the table was altered."""
        here, marks = end.sequence, self._marks.refresh()
        found: list[Chunk] = []
        for copy in self._plan.copies(number).values():
            self._check_marked(copy, before)
            for chunk in copy.waiting(before, marks):
                if marks[chunk.number].sequence <= here:
                    self._check_tries(chunk)
                    found.append(chunk.replacement(number + len(found), copy.table))
        return found

    def _check_marked(self, copy: TableCopy, before: int) -> None:
        for chunk in copy.unknown(before, self._marks):
            raise StateError(
                f"nothing is known of chunk {chunk.number} of {copy.table}, which a batch has read",
                where="watermarks.jsonl",
                hint="a part of the state directory was removed: restore it, or start over with an empty one",
            )

    def _check_tries(self, chunk: Chunk) -> None:
        if self._plan.tries(chunk) >= TRIES:
            raise SchemaUnknown(
                f"{chunk.table} is another table on the server than its definitions in the log make it",
                where=f"chunk {chunk.number}",
                hint="start over with an empty state directory, or leave the table out with tables.exclude",
            )

    def _next_chunks(self, end: MySqlOffset, limits: Limits | None, wait_s: float, number: int) -> list[Chunk]:
        """The next chunks that were found, as many as a batch may hold."""
        assert self._finder is not None
        chunks: list[Chunk] = []
        rows = size = 0
        most_rows = self._rows_at_pace(limits.max_rows) if limits is not None else 0
        gathered_at = 0.0
        while len(chunks) < MOST_CHUNKS:
            found = self._finder.peek(max(0.0, gathered_at - time.monotonic()) if chunks else wait_s)
            if found is None:
                break
            if found.part is None:
                self._finder.pop()
                self._block(found.table, end)
                continue
            rows += found.part.rows
            size += found.part.rows * found.row_bytes
            full = limits is not None and (rows > most_rows or size > BYTES_FACTOR * limits.max_bytes)
            if chunks and full:
                break
            chunks.append(self._finder.pop().chunk(number + len(chunks)))
            gathered_at = gathered_at or time.monotonic() + GATHER_S
        return chunks

    def _rows_at_pace(self, rows: int) -> int:
        """So many rows, or as many as are read in `PACED_S`."""
        rate = self._options.rows_per_second
        return rows if rate is None else min(rows, PACED_S * rate)

    def _block(self, table: TableId, end: MySqlOffset) -> None:
        """The server's table is another one than the log has made it so far: wait for the log."""
        info = self._session.info()
        here = end.sequence
        if info.identity == end.server:
            here = max(here, sequence_of(info.file, info.position, end.files_ahead))
        self._blocked[table] = here

    def _note(self) -> dict[str, Any]:
        """Where the server's log stands now."""
        info = self._session.info()
        at_ms = time.time_ns() // 1_000_000
        return {"file": info.file, "position": info.position, "gtids": info.executed, "at_ms": at_ms}

    def _forget_finished(self, start: MySqlOffset, before: int, count: int) -> int:
        """Tables whose copy lies behind the log are like any other from here on."""
        here, marks = start.sequence, self._marks.refresh()
        finished = [
            TableEnd(table, DONE)
            for table, copy in self._plan.copies(count).items()
            if copy.is_finished(before, marks, here)
        ]
        return self._plan.append(finished) if finished else count
