"""Plans the end of the next batch: how far the log goes, which chunks are included, and what restarts.

Stream reader process. Combines the log reader and the snapshot planner, and decides the order between them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from cdc.errors import PositionLost, SourceError, SourceUnavailable, first_of
from cdc.events import SourceEvent
from cdc.source import Limits, Split
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.parts import Parts
from connectors.mysql.schema.schemas import of_captured
from connectors.mysql.server.positions import LogPosition, log_end
from connectors.mysql.server.server_info import server_info
from connectors.mysql.snapshot.plan.lost_log import LostNote
from connectors.mysql.snapshot.plan.payloads import dump_payloads


class BatchPlanner:
    """Plans batches one after the other."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._options, self._store = parts, parts.given, parts.context.store
        self._snapshot_only = parts.given.startup_mode == "snapshot"
        self._bounded = self._stopped = self._looked = False
        self._current: tuple[LogPosition, str] | None = None

    def begin(self) -> MySqlOffset:
        """Return the start of a new pipeline; write the definitions of the captured tables to the schema history.

        Raises SourceError.
        """
        from connectors.mysql.follow.startup import start_of

        parts = self._parts
        start = start_of(parts.options, parts.streams)
        parts.schemas.begin(start.known, parts.captures, start.position, start.info.dialect)
        parts.coordinator.begin(table.id for table in start.known.tables)
        parts.pattern.remember()
        return MySqlOffset(start.position, start.gtids, server=start.info.identity)

    def next(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        """Return the end of the batch after `start`; `start` itself when nothing arrived within `wait_s` seconds.

        Raises SourceError, PositionLost.
        """
        if start.schemas == 0 and (first := self._first_batch(start)) != start:
            return first
        coordinator = self._parts.coordinator
        coordinator.open(start)
        if not self._looked and not self._parts.pattern.unchanged:
            self._looked = True
            joined = self._added_tables(start)
            self._parts.pattern.note()
            if joined != start:
                return joined
        deadline = time.monotonic() + self._options.retry_timeout_s
        while True:
            copying = self._bounded and coordinator.is_unfinished(start)  # its end of log is known only afterwards
            end = self._try_next(start, limits, wait_s)
            if end != start or self._stopped or not copying:
                return end
            if time.monotonic() > deadline:
                raise self._no_progress(start)

    def _no_progress(self, start: MySqlOffset) -> SourceError:
        """Return the error for a bounded run whose tables cannot finish their snapshot."""
        if blocked := self._parts.coordinator.blocked:
            return SourceError(
                "tables cannot be copied: they are other tables on the server than in its log",
                where=first_of(blocked),
                hint="leave them out with tables.exclude, or start over with an empty state directory",
            )
        return SourceError(
            f"the snapshot has made no progress for {self._options.retry_timeout_s:g} s",
            where=first_of(self._parts.coordinator.unfinished(start)),
            hint="run it again; SHOW PROCESSLIST on the server names what its queries wait for, if it is a lock",
        )

    def _try_next(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        """Make one attempt of `next`.

        While tables are copied, a bounded run reads the log without an end: the end is the position of the last chunk
        read.
        """
        tail, snapshot = self._parts.tail, self._parts.coordinator
        if self._bounded:
            snapshot.due.hurry = True
            end_of_log = None if snapshot.is_unfinished(start) else self.end_of_log(start)
            if self._snapshot_only and end_of_log is None and not snapshot.is_unfinished(start):
                return start
            tail.follow_until(end_of_log)
        if self._is_lost(start):
            return self._jump(start)
        try:
            end = tail.offset(start, limits, 0.0 if snapshot.ready(start) else wait_s)
        except PositionLost:
            if self._options.on_purged == "fail":
                raise
            return self._jump(start)
        return snapshot.plan(start, end, limits, wait_s)

    def _is_lost(self, at: MySqlOffset) -> bool:
        """Return whether a task found its part of the log purged and no jump up to `at` has handled that."""
        entries = LostNote(self._store).entries()
        return entries is not None and not self._parts.coordinator.skips_lost_log(entries, at)

    def _jump(self, start: MySqlOffset) -> MySqlOffset:
        """Skip the purged log after `start` and re-snapshot every table."""
        from connectors.mysql.follow.opened import forget_opened
        from connectors.mysql.snapshot.plan.lost_log import jump

        parts = self._parts
        parts.tail.stop()
        forget_opened(self._store)
        return jump(start, parts.options, self._parts.streams, parts.schemas, parts.coordinator, parts.captures)

    def _added_tables(self, start: MySqlOffset) -> MySqlOffset:
        """Start tables that match since the pipeline file was edited, in a batch of their own."""
        from connectors.mysql.snapshot.plan.added_tables import added_tables, unknown_tables, without_rows

        schemas, pattern, captures = self._parts.schemas, self._parts.pattern, self._parts.captures
        followed = schemas.history.followed(start.schemas)
        left_out = {table for table in followed if captures(table) and not pattern.matched(table)}
        known, allowed = followed - left_out, self._options.newly_added
        defined = set(filter(captures, schemas.history.tables(start.schemas))) - known
        try:
            added = added_tables(start, known, defined, captures, self._parts.streams, allowed=allowed)
        except SourceUnavailable:
            added = None  # the log follower waits for a server that is down
        if added is None:
            self._looked = False
            return start
        found, unknown = added.tables, unknown_tables(added.tables, self._parts.options)
        self._parts.notices += without_rows(found, left_out, self._parts.options)
        self._parts.notices += [
            f"{table}: the unread log alters it; it is copied from the last change on" for table in unknown
        ]
        if not found and not left_out and not added.leaving:
            return start
        tables = [definition for definition in found.values() if definition is not None]
        undefined = [*unknown, *added.leaving]
        count = schemas.capture(start.schemas, tables, undefined, left_out, captures, start.position)
        chunks = self._parts.coordinator.begin_new(start, [table.id for table in tables])
        return replace(start, schemas=count, chunks=chunks)

    def splits(self, start: MySqlOffset, end: MySqlOffset, parallelism: int) -> list[Split]:
        """Return the splits of a batch: ranges of the log, then chunks."""
        log = self._parts.tail.splits(start, end, parallelism)
        return dump_payloads(self._parts.splits.splits(start, end, log, parallelism))

    def events(self, start: MySqlOffset, end: MySqlOffset) -> Sequence[SourceEvent]:
        """Return the events of a batch: schema history entries, and snapshots that end and begin in it."""
        self._parts.pattern.note()
        logged = self._parts.schemas.events(start.schemas, end.schemas)
        return of_captured(self._parts.splits.events(logged, start, end), self._parts.captures)

    def _first_batch(self, start: MySqlOffset) -> MySqlOffset:
        """Return the end of the first batch: it holds only the definitions and tables present at the start."""
        schemas, chunks = self._parts.schemas.first_entries(), self._parts.coordinator.first_entries()
        return replace(start, schemas=schemas, chunks=chunks)

    def end_of_log(self, start: MySqlOffset) -> tuple[LogPosition, str] | None:
        """Position and server where a bounded run ends; None while unknown.

        The end is after all chunks and, except for a snapshot alone, after the end of the log when the run was told
        to end.
        """
        behind = self._parts.coordinator.position_to_reach(start)
        ends = [] if behind is None else [(behind, start.server)]
        if self._current is not None:
            ends.append(self._current)
        return max(ends, key=lambda end: end[0], default=None)

    def stop_at_current(self) -> None:
        """Remember the server's current end of log; `next` goes no further. Raises SourceError."""
        self._bounded = True
        if self._snapshot_only:
            return
        with self._parts.streams.session() as connection:
            info = server_info(connection)
        self._current = log_end(info), info.identity

    def commit(self, done: MySqlOffset) -> None:
        """Finish snapshot requests up to `done`, and record newly matching tables as captured. Raises StateError."""
        self._parts.coordinator.commit(done)
        if self._looked:
            self._parts.pattern.remember()
        if not self._is_lost(done):
            LostNote(self._store).remove()

    def stop(self) -> None:
        """Stop the threads of the parts; callable while `next` waits in another thread."""
        self._stopped = True
        self._parts.stop()
