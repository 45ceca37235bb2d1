"""Plans which chunks a batch reads, next to the log it reads. Stream reader process.

Each call of `plan` takes the offset reached by the log alone and adds the plan entries of this batch, which are on disk
by then. All state is in the two files and in the offset, so a new process plans the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import cache, partial

from cdc.schema import TableId
from cdc.source import Limits
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.snapshot.cascades import Cascading
from connectors.mysql.snapshot.chunk import DONE, Begin, LogLost, TableEnd
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.due_requests import DueRequests
from connectors.mysql.snapshot.plan.log_entries import LogEntries
from connectors.mysql.snapshot.plan.next_chunks import NextChunks
from connectors.mysql.snapshot.plan.requests import Requests, SnapshotRequest

GAP = "the server had purged a part of its log that was not read"
"""Reason for re-snapshotting all tables when a part of the log is lost."""


class Coordinator:
    """Plans the snapshots of tables for one pipeline.

    Args:
        store: the connector's state.
        history: schema history; read only.
        captures: the captured tables.
        streams: opens sessions on the server.

    Attributes:
        due: the snapshots ordered and requested.
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
        self._options, self._history, self._captures = options, history, captures
        self._plan, self._marks = ChunkPlan(store), Watermarks(store)
        self._requests = Requests(store)
        self.due = DueRequests(self._requests, self._plan, options.cascades_interval_s)
        self._cascading = Cascading(options, store, history, streams, captures)
        self._next = NextChunks(options, streams, history, self._plan, self._marks)
        self._log_entries = LogEntries(
            options, (self._plan, self._marks, self._requests), history, captures, self._next.session, notices
        )
        self._opened = False

    @property
    def blocked(self) -> list[TableId]:
        """Tables that wait for the log because the server has altered them."""
        return sorted(self._next.blocked)

    def unfinished(self, start: MySqlOffset) -> list[TableId]:
        """Return the tables still being snapshotted."""
        return sorted(self._plan.snapshots(start.chunks))

    def begin(self, tables: Iterable[TableId]) -> None:
        """Start the plan of a new pipeline with the tables to snapshot. Repeatable."""
        self._plan.truncate(0)
        self._plan.append(Begin(table, "initial") for table in sorted(tables) if self._options.in_first_snapshot(table))

    def begin_new(self, start: MySqlOffset, tables: Iterable[TableId]) -> int:
        """Begin snapshots of tables that are new to a running pipeline, as the options say; returns the new count."""
        self.open(start)
        return self._plan.append(
            Begin(table, "new") for table in sorted(tables) if self._options.snapshotted_when_added(table)
        )

    def restart_all(self, start: MySqlOffset, tables: Collection[TableId]) -> int:
        """Restart all tables, as the log between the two offsets of a batch is lost; returns the plan's new count."""
        self._plan.truncate(start.chunks)
        self._opened = True
        self._next.forget()
        snapshots = self._plan.snapshots(start.chunks)
        ends = [TableEnd(table, "gone") for table in snapshots if table not in tables]
        return self._plan.append([LogLost(), *ends, *(Begin(table, "restart", reason=GAP) for table in sorted(tables))])

    def skips_lost_log(self, entries: int, at: MySqlOffset) -> bool:
        """Return whether a batch up to `at` has skipped lost log, after the first `entries` of the plan."""
        count = at.chunks
        return any(isinstance(entry, LogLost) for entry in self._plan.entries(min(entries, count), count))

    def first_entries(self) -> int:
        """Number of entries that the pipeline began with."""
        return self._plan.first_entries()

    def open(self, start: MySqlOffset) -> None:
        """Remove entries that a crashed run planned after `start`. Runs once, before the first `plan`."""
        if not self._opened:
            self._plan.truncate(start.chunks)
            self._opened = True

    def is_unfinished(self, start: MySqlOffset) -> bool:
        """Return whether tables are being or yet to be snapshotted: the log alone does not make the sink consistent."""
        return bool(self.unfinished(start)) or bool(self._new_requests(start))

    def position_to_reach(self, start: MySqlOffset) -> LogPosition | None:
        """Position up to which the log must be read until the sink is consistent; None when `start` is there."""
        before, marks = start.chunks, self._marks.refresh()
        highs = (snapshot.highest(before, marks) for snapshot in self._plan.snapshots(before).values())
        highest = max((mark for mark in highs if mark is not None), key=lambda mark: mark.sequence, default=None)
        if highest is None or highest.sequence <= start.sequence:
            return None
        return LogPosition(highest.file, highest.position)

    def ready(self, start: MySqlOffset) -> bool:
        """Return whether `plan` can add to a batch at once."""
        if self._finished(start, start.chunks) or self._new_requests(start):
            return True
        if self._next.started:
            return self._next.ready
        before, marks = start.chunks, self._marks.refresh()
        return not all(snapshot.is_done(before, marks) for snapshot in self._plan.snapshots(before).values())

    def plan(self, start: MySqlOffset, end: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        """Return `end` with the entries of this batch counted; unchanged when there is nothing to add.

        Waits up to `wait_s` for chunks to be found if the log has nothing either.
        """
        before = start.chunks
        self._cascading.refresh(start, end)
        requests = self._new_requests(start, self._log_entries.renamed(start, end))
        self.due.note_begun(requests)
        moved = start.moved_to(end)
        entries = self._log_entries.of(start, end, requests, moved=moved)
        if moved:
            self._next.session.close()
            self._next.blocked.clear()
        count = self._plan.append(entries) if entries else before
        if entries or not self._next.started or self._next.unblock(end) or self._redefined(start, end):
            self._next.start(end, count)
        wait_s = wait_s if end == start and not entries else 0.0
        count = self._plan.append(self._next.chunks(end, before, count, limits, wait_s))
        finished = self._finished(start, count)
        return replace(end, chunks=self._plan.append(finished) if finished else count)

    def commit(self, end: MySqlOffset) -> None:
        """Remove requests that batches up to `end` have started."""
        done = {entry.request for entry in self._plan.entries(0, end.chunks) if isinstance(entry, Begin)}
        self._requests.remove(done)

    def stop(self) -> None:
        """Stop the thread; callable while `plan` waits in another thread."""
        self._next.stop()

    def _new_requests(self, start: MySqlOffset, renamed: Collection[TableId] = ()) -> list[SnapshotRequest]:
        """Return the snapshots to begin after `start`."""
        tables = cache(partial(self._history.tables, start.schemas))

        def known(table: TableId) -> bool:
            return table in tables() and self._captures(table)

        return self.due.select(start.chunks, known, renamed=renamed)

    def _redefined(self, start: MySqlOffset, end: MySqlOffset) -> bool:
        """Return whether the batch redefines a table being snapshotted: found chunks may name columns it lacks."""
        if start.schemas == end.schemas:
            return False
        before, after = self._history.tables(start.schemas), self._history.tables(end.schemas)
        return any(before.get(table) != after.get(table) for table in self._plan.snapshots(start.chunks))

    def _finished(self, start: MySqlOffset, count: int) -> list[TableEnd]:
        """End the snapshots that the log has caught up with: these tables are like any other from here on."""
        before, marks, here = start.chunks, self._marks.refresh(), start.sequence
        return [
            TableEnd(table, DONE)
            for table, snapshot in self._plan.snapshots(count).items()
            if snapshot.is_finished(before, marks, here)
        ]
