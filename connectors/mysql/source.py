"""The `mysql` source: a running MySQL or MariaDB server, its tables copied in chunks while its binary log is followed.

Spark unpickles the source in half a dozen processes, most of which only pass it on: what loads compiled kernels is
imported where it is used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cdc.block import ChangeBlock
from cdc.errors import PositionLost, SourceError, SourceUnavailable
from cdc.events import SourceEvent
from cdc.finding import Finding
from cdc.schema import TableId, TableSchema
from cdc.source import (
    Context,
    Count,
    Lag,
    Limits,
    Offset,
    Order,
    Report,
    Snapshots,
    Source,
    Split,
    TableProgress,
    TablesNow,
)
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.sequences import sequence_text
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import Parts
from connectors.mysql.schema.schemas import of_captured, shown_schema
from connectors.mysql.server.foreign_keys import told_cascades
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.not_logged import told_filter
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_check import check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import server_info
from connectors.mysql.snapshot.plan.lost_log import LostNote
from connectors.mysql.snapshot.plan.payloads import opened, stored
from connectors.mysql.snapshot.plan.splits import ChunkRead, CopiedRange

log = logging.getLogger(__name__)


class MySqlSource(Source):
    """Reads a server's tables and its log. Offsets are those of `MySqlOffset`."""

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._streams = Streams(options, context.stopping)
        self.bounded = options.startup_mode == "snapshot"
        # not where the log is read from an earlier place, where tables may have had other names
        self.lists_all_tables = options.startup_mode in ("initial", "snapshot", "latest-offset")
        self._forget()

    def _forget(self) -> None:
        """Drop what belongs to one process."""
        self._parts = Parts(self._options, self._context.store, self._streams, self._context.siblings)
        self._bounded = self._stopped = self._looked = False
        self._current: tuple[LogPosition, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        names = ("_options", "_context", "_streams", "bounded", "lists_all_tables")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as the server has them now. Warns of changes to them that its log will not hold.

        Raises SourceError when it cannot be captured from.
        """
        with self._streams.session() as connection:
            info = check_server(connection, self._parts.wanted)
            # MariaDB does not show a table while it takes its new definition: one look more.
            found = read_tables(connection, self._parts.wanted) or read_tables(connection, self._parts.wanted)
            if not found:
                raise explain_no_tables(table_ids(connection), self._parts.options.pattern, connection)
            check_select(connection, found)
            if filtered := told_filter(info):
                log.warning("%s", filtered)
            for told in told_cascades(connection, info, found.keys(), copied=self._options.cascades == "copy"):
                if self._options.cascades != "ignore":
                    log.warning("%s", told)
        return {table: shown_schema(definition, self._options) for table, definition in found.items()}

    def initial_offset(self) -> Offset:
        """Where `scan.startup.mode` says; writes the definitions of the captured tables to the schema history."""
        from connectors.mysql.follow.startup import start_of

        start = start_of(self._parts.options, self._streams)
        self._parts.schemas.begin(start.known, self._parts.wanted, start.position, start.info.dialect)
        self._parts.coordinator.begin(table.id for table in start.known.tables)
        self._parts.pattern.keep()
        return MySqlOffset(start.position, start.gtids, server=start.info.identity).to_json()

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """The end of the next batch, as the contract says. The first batch may hold only creations of sink tables."""
        at = MySqlOffset.from_json(start)
        end = self._latest(at, limits, wait_s)
        return start if end == at else end.to_json()

    def _latest(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        if start.schemas == 0 and (first := self._first(start)) != start:
            return first
        self._parts.coordinator.open(start)
        if not self._looked and not self._parts.pattern.kept:
            self._looked = True
            joined = self._added_tables(start)
            self._parts.pattern.note()
            if joined != start:
                return joined
        deadline = time.monotonic() + self._options.retry_timeout_s
        while True:
            copying = self._bounded and self._parts.coordinator.unfinished(
                start
            )  # the log is read to its end after that
            end = self._next(start, limits, wait_s)
            if end != start or self._stopped or not copying:
                return end
            if time.monotonic() > deadline:
                raise SourceError(
                    "tables cannot be copied: they are other tables on the server than in its log",
                    where=", ".join(map(str, self._parts.coordinator.blocked)),
                    hint="leave them out with tables.exclude, or start anew with an empty state directory",
                )

    def _next(self, start: MySqlOffset, limits: Limits | None, wait_s: float) -> MySqlOffset:
        """One try of `_latest`. A bounded run reads the log without end while tables are copied, as the end is
        where the last chunk was read."""
        tail, snapshot = self._parts.tail, self._parts.coordinator
        if self._bounded:
            snapshot.hurry = True
            end_of_log = None if snapshot.unfinished(start) else self._end_of_log(start)
            if self.bounded and end_of_log is None and not snapshot.unfinished(start):
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
        """A task has found its part of the log purged, and no jump up to `at` has answered that."""
        entries = LostNote(self._context.store).entries()
        return entries is not None and not self._parts.coordinator.jumped(entries, at)

    def _jump(self, start: MySqlOffset) -> MySqlOffset:
        """The log behind `start` is purged: everything is copied anew."""
        from connectors.mysql.follow.opened import forget_opened
        from connectors.mysql.snapshot.plan.lost_log import jump

        self._parts.tail.stop()
        forget_opened(self._context.store)
        return jump(
            start, self._parts.options, self._streams, self._parts.schemas, self._parts.coordinator, self._parts.wanted
        )

    def _added_tables(self, start: MySqlOffset) -> MySqlOffset:
        """Tables that match since the pipeline file was edited begin in a batch of their own."""
        from connectors.mysql.snapshot.plan.added_tables import added_tables, without_rows

        schemas, pattern = self._parts.schemas, self._parts.pattern
        followed = schemas.history.followed(start.schemas)
        left_out = {table for table in followed if self._parts.wanted(table) and not pattern.matched(table)}
        known, allowed = followed - left_out, self._options.newly_added
        try:
            found = added_tables(start, known, self._parts.wanted, self._streams, allowed=allowed)
        except SourceUnavailable:
            found = None  # the log's follower waits for a server that is away
        if found is None:
            self._looked = False
            return start
        self._parts.notices += without_rows(found, left_out, self._parts.options)
        if not found and not left_out:
            return start
        count = schemas.capture(start.schemas, found, left_out, self._parts.wanted, start.position)
        chunks = self._parts.coordinator.begin_new(start, [table.id for table in found])
        return replace(start, schemas=count, chunks=chunks)

    def _first(self, start: MySqlOffset) -> MySqlOffset:
        """The first batch: the definitions and tables there were at the start."""
        schemas, chunks = self._parts.schemas.first_entries(), self._parts.coordinator.first_entries()
        return replace(start, schemas=schemas, chunks=chunks)

    def _end_of_log(self, start: MySqlOffset) -> tuple[LogPosition, str] | None:
        """Where a bounded run ends: behind all chunks, and (but for a snapshot alone) what was there at its start."""
        behind = self._parts.coordinator.behind(start)
        ends = [] if behind is None else [(behind, start.server)]
        if self._current is not None:
            ends.append(self._current)
        return max(ends, key=lambda end: end[0], default=None)

    def stop_at_current(self) -> None:
        """Remember the server's current end of log; `latest_offset` goes no further."""
        self._bounded = True
        if self.bounded:
            return
        with self._streams.session() as connection:
            info = server_info(connection)
        self._current = LogPosition(info.file, info.position), info.identity

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Parts of the log, then chunks."""
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        log_parts = self._parts.tail.splits(begin, stop, parallelism)
        return stored(self._parts.splits.splits(begin, stop, log_parts, parallelism))

    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """The history's entries between the two offsets, and the snapshots that end and begin there."""
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        logged = self._parts.schemas.events(begin.schemas, stop.schemas)
        return of_captured(self._parts.splits.events(logged, begin, stop), self._parts.wanted)

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range of the log, or copy chunks, over connections of its own."""
        split = opened(split)
        if isinstance(split.payload, ChunkRead):
            from connectors.mysql.snapshot.read.reading import read_chunks

            return read_chunks(
                split, self._parts.options, self._context.store, self._streams, self._parts.wanted, count, report
            )
        if isinstance(split.payload, CopiedRange):
            from connectors.mysql.snapshot.read.reading import tail_filter, uncertain

            copied: CopiedRange = split.payload
            kept = tail_filter(copied, self._context.store, self._streams, self._parts.schemas)
            moved = partial(uncertain, copied, kept, report)
            return kept.blocks(self._read_log(copied.part, split.index, count, report, moved))
        log_range: LogRange = split.payload
        return self._read_log(log_range, split.index, count, report, lambda: None)

    def _read_log(
        self, part: LogRange, index: int, count: Count, report: Report, moved: Callable[[], None]
    ) -> Iterator[ChangeBlock]:
        """One range. With `scan.on-purged: resnapshot` a purged one ends early, and is reported: all is copied anew."""
        try:
            blocks = self._decoded(part, index, count, moved)
            if self._options.cascades == "copy":
                from connectors.mysql.snapshot.cascades import place_of, watched

                blocks = watched(blocks, self._context.store, place_of(part))
            yield from blocks
        except PositionLost as error:
            if self._options.on_purged == "fail":
                raise
            count(f"log-purged {error.where or part.start}", 1)
            report({"lost": str(part.start)})

    def _decoded(self, part: LogRange, index: int, count: Count, moved: Callable[[], None]) -> Iterator[ChangeBlock]:
        """One range, of which another run may have the rows; `moved` is called when it is read on another server."""
        from connectors.mysql.log_reader import LogReader

        return LogReader(self._options, self._context, self._streams, self._parts).blocks(part, index, count, moved)

    def position_text(self, sequence: int) -> str:
        """Number of the log file and position in it."""
        return sequence_text(sequence)

    def decided(self, reports: Sequence[dict[str, Any]]) -> None:
        """Keep the positions at which chunks were read."""
        self._parts.driver.decided(reports)

    def progress(self) -> Sequence[TableProgress]:
        """How far the copying of tables is."""
        return self._parts.driver.progress()

    def commit(self, end: Offset) -> None:
        """Requests up to there are done with, and tables that newly match are in."""
        done = MySqlOffset.from_json(end)
        self._parts.coordinator.commit(done)
        if self._looked:
            self._parts.pattern.keep()
        if not self._is_lost(done):
            LostNote(self._context.store).remove()

    def lag(self) -> Lag | None:
        """Bytes read ahead, and what the log's reader and the planner of chunks have met."""
        return self._parts.lag()

    def captures(self, table: TableId) -> bool:
        """Whether its name is among those that the options say."""
        return self._parts.wanted(table)

    def snapshots(self, table: TableId) -> Snapshots:
        """Whenever it is needed, unless the options let nothing be copied that nobody asked for."""
        if not self._parts.wanted(table):
            return Snapshots.NEVER
        return Snapshots.ALWAYS if self._options.copies_uncertain(table) else Snapshots.WHEN_ASKED

    def order(self, orders: Mapping[TableId, Order]) -> None:
        """Snapshots that begin with the next batch."""
        self._parts.coordinator.order(orders)
        self._parts.tail.ordered = frozenset(orders)

    def now(self) -> TablesNow:
        """Reads the captured tables beside the pipeline."""
        from connectors.mysql.snapshot.read.now import ServerNow

        return ServerNow(self._parts.options, self._streams)

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Settings, privileges, retention, tables. Opens a session."""
        from connectors.mysql.examine import examine

        at = None if committed is None else MySqlOffset.from_json(committed)
        return examine(self._streams.session, lambda: self._parts.options, at)

    def start_at(self, position: str) -> tuple[Offset, str]:
        """The initial offset of a pipeline that goes on where another tool is, with its schema history written."""
        from connectors.mysql.follow.imported import imported

        try:
            found = imported(position, self._streams)
            options = self._options.model_copy(update=dict(found.options))
            begun = MySqlSource(options, self._context)
            offset = MySqlOffset.from_json(begun.initial_offset())
            told = ""
            if found.inside is not None:
                from connectors.mysql.follow.delivered import behind_delivered

                offset, told = behind_delivered(offset, found.inside, self._streams.at, begun.between)
        except PositionLost as error:
            hint = "run the pipeline without `cdc import`: with scan.startup.mode: initial it copies the tables first"
            raise PositionLost(error.message, where=error.where, hint=hint) from error
        return offset.to_json(), f"{found.tool}, at {offset.position}{told}{found.notes}"

    def between(self, start: MySqlOffset, end: MySqlOffset) -> Iterator[ChangeBlock]:
        """Rows of the log between two offsets, before any batch, by the definitions that the log begins with."""
        from connectors.mysql.log.segment import splits_of

        first = self._parts.schemas.first_entries()
        for split in splits_of(None, start, replace(end, schemas=first), 1):
            yield from self._read_log(split.payload, 0, lambda reason, number: None, lambda report: None, lambda: None)

    def reach(self) -> None:
        """Log in to the server. Executor."""
        self._streams.session(patient=False).close()

    def stop(self) -> None:
        """End the threads; also while `latest_offset` waits in another."""
        self._stopped = True
        self._parts.stop()

    def warm(self) -> None:
        """Load the decoder's kernels; on a machine's first run this compiles them."""
        from connectors.mysql.rows.warm import warm_kernels
        from connectors.mysql.snapshot.read.warm import warm_snapshot_kernels

        warm_kernels()
        if self._options.startup_mode in ("initial", "snapshot"):
            warm_snapshot_kernels()
