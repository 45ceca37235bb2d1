"""One chunk of a table, read so that it is exactly the table's rows at a position of the log.

A view is opened without a lock and the few rows that changed while it was opened are read from the log first; then the
SELECT is streamed without those rows, and their last images follow. So the chunk is the table at `high`, complete and
without duplicates, also for sinks that can only append, and it is never held in memory.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import SchemaUnknown, SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from cdc.source import Count
from connectors.mysql.gtid import GtidSet
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.server.connection import RETRY
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.same_server import AnotherServer
from connectors.mysql.server.server_info import where_of
from connectors.mysql.snapshot.chunk import Chunk
from connectors.mysql.snapshot.plan.bounds import condition
from connectors.mysql.snapshot.read.read_settings import Access, ChunkReport, Inside, ReadSettings
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp, select_from
from connectors.mysql.snapshot.read.result_stream import DefinitionChanged, ResultStream, RowPackets
from connectors.mysql.snapshot.read.session import ChunkSessions, SessionPool
from connectors.mysql.snapshot.read.throttle import Throttle
from connectors.mysql.snapshot.read.view import TableAltered, View, open_view
from connectors.mysql.snapshot.read.window import Unusable, Window, read_window
from connectors.mysql.table import MySqlTable

VIEW_TRIES = 100
"""Views opened one after the other until one has a usable window."""
VIEW_PAUSE_S = 0.02


@dataclass(slots=True)
class _Opened:
    """A view with its window, and the SELECT's first rows."""

    sessions: ChunkSessions
    view: View
    window: Window
    invalid: Counter[str]
    stream: ResultStream
    first: RowPackets | None


def read_chunk(
    access: Access,
    chunk: Chunk,
    table: MySqlTable,
    inside: Inside,
    settings: ReadSettings,
    count: Count,
    *,
    pool: SessionPool | None = None,
    throttle: Throttle | None = None,
    clock: Callable[[], float] = time.time,
    retry: RetryPolicy = RETRY,
) -> Generator[ChangeBlock, None, ChunkReport]:
    """The chunk's rows as +I, all with the sequence of one position; returns the report (`yield from`). Executor.

    Args:
        table: as the schema history has it where the chunk was planned.
        count: told about invalid dates that became NULL.
        pool: sessions for several chunks that are read one after the other; the caller closes it.
        throttle: for all of them together; None for no limit.

    A repeat gives the table's rows of then, with another position: only the report of the attempt whose rows are used
    counts. Sessions are ended, also when the caller stops early; those of a chunk that was read may be kept.

    Raises:
        SourceUnavailable: the connection broke after the first row, or no view could be had; start over.
        SourceError: the server refuses, or the table's engine has no views.
        CorruptLog, UnsupportedChange, SchemaUnknown: as the decoder.
    """
    sessions = pool or SessionPool()
    work = _Chunk(access, chunk, table, inside, settings, count, sessions, throttle or Throttle(None), clock, retry)
    try:
        opened = work.open()
        if isinstance(opened, ChunkReport):
            return opened
        try:
            report = yield from work.read(opened)
            sessions.release(opened.sessions)
        except BaseException:
            opened.sessions.close()
            raise
        return report
    finally:
        if pool is None:
            sessions.close()


@dataclass
class _Chunk:
    """One attempt to read a chunk; the fields are `read_chunk`'s arguments."""

    access: Access
    chunk: Chunk
    table: MySqlTable
    inside: Inside
    settings: ReadSettings
    count: Count
    pool: SessionPool
    throttle: Throttle
    clock: Callable[[], float]
    retry: RetryPolicy

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that tell rows apart."""
        return self.table.primary_key if self.settings.key is None else self.settings.key

    def open(self) -> _Opened | ChunkReport:
        """Everything up to the first row. Tries again while the connection breaks."""
        return self.retry.call(self._open_once, f"copying chunk {self.chunk.number} of {self.table.id}")

    def read(self, opened: _Opened) -> Generator[ChangeBlock, None, ChunkReport]:
        """The rows of the SELECT and of the window."""
        view, window, settings = opened.view, opened.window, self.settings
        at = self._position(view)
        sequence = sequence_of(at.file, at.position, settings.files_ahead)
        where = f"{self.table.id} on {where_of(opened.sessions.side)}"
        stamp = Stamp(sequence, 0, view.opened_ms)
        reader = RowReader(self.table, opened.stream.columns, stamp, self.count, settings.rules, where=where)
        rows = 0
        for reason, found in opened.invalid.items():
            self.count(reason, found)
        for block in reader.blocks(self._packets(opened)):
            keep = window.without(block.rows)
            block = block if keep is None else block.filter(keep)
            rows += len(block)
            yield block
            self.throttle.acquire(len(block))
        number = reader.rows
        for batch in self._last_images(window):
            yield _as_block(self.table, reader.schema, batch, sequence, number, view.opened_ms)
            number, rows = number + batch.num_rows, rows + batch.num_rows
        return self._report(opened.sessions, at, done=True, rows=rows, gtids=_with_window(view.gtids, window))

    def _open_once(self) -> _Opened | ChunkReport:
        sessions = self.pool.acquire(self.access.session, self.settings.lock_wait_s)
        try:
            server = self.settings.server
            if not server or sessions.info.identity == server:
                return self._first_rows(sessions)
            report = self._not_done(sessions, None, f"the server is {sessions.info.identity}, it was {server}")
        except TableAltered as altered:
            report = self._not_done(sessions, altered.position, altered.reason)
        except AnotherServer as error:
            report = self._not_done(sessions, None, error.message)
        except BaseException:
            sessions.close()
            raise
        self.pool.release(sessions)
        return report

    def _first_rows(self, sessions: ChunkSessions) -> _Opened:
        """Views one after the other until one is usable. Raises TableAltered."""
        reason = ""
        pauses = Backoff(replace(self.retry, first_pause_s=VIEW_PAUSE_S, longest_pause_s=VIEW_PAUSE_S), "views")
        for _ in range(VIEW_TRIES):
            # Without its window a chunk counts as of `low`, which then must not be an old place.
            note = {} if self.settings.skip_window else self.chunk.note
            view = open_view(
                sessions, self.table, note=note, margin_s=self.settings.margin_s, clock=self.clock,
                retry=self.retry, is_old=self._is_old,
            )  # fmt: skip
            try:
                self._check_age(view)
                invalid: Counter[str] = Counter()
                window = self._window(view, invalid)
                stream = self._stream(sessions, view)
                return _Opened(sessions, view, window, invalid, stream, stream.read())
            except (Unusable, DefinitionChanged) as error:
                reason = str(error)
                if not pauses.pause(reason):
                    break
        raise SourceUnavailable(
            f"{VIEW_TRIES} views were opened at most, none at a quiet moment: {reason}",
            where=f"{self.table.id} on {where_of(sessions.side)}",
            hint="give the table a primary key, or copy it when it is written to less",
        )

    def _position(self, view: View) -> LogPosition:
        """Where the chunk's rows are the table's."""
        return view.low if self.settings.skip_window and view.low is not None else view.high

    def _check_age(self, view: View) -> None:
        """Raises Unusable for a view from before `least`. MariaDB's log runs a moment ahead of what views show."""
        at = self._position(view)
        if self._is_old(at):
            raise Unusable(f"the view stands at {at}, before what was read of the log")

    def _is_old(self, at: LogPosition) -> bool:
        return sequence_of(at.file, at.position, self.settings.files_ahead) < self.settings.least

    def _window(self, view: View, invalid: Counter[str]) -> Window:
        """The changes while the view was opened; invalid dates in them are counted into `invalid`."""
        if view.low == view.high or (self.settings.skip_window and view.low is not None):
            return Window(self.key)
        stream = self.access.after(view.gtids or "") if view.low is None else self.access.at(view.low)

        def add(reason: str, number: int) -> None:
            invalid[reason] += number

        known = {self.table.id: self.table}
        decoder = Decoder(known, captures=known.__contains__, count=add, rules=self.settings.rules)
        try:
            return read_window(stream, view.high, self.table, self.key, decoder, self.settings.most_window_rows)
        except SchemaUnknown as error:  # rows from before an ALTER that is in the window, too
            raise Unusable(f"the table was altered: {error.message}") from error

    def _stream(self, sessions: ChunkSessions, view: View) -> ResultStream:
        try:
            return ResultStream(sessions.reader, self._select(sessions, view), str(self.table.id))
        except SourceError as error:
            if not self.settings.where or error.retryable:
                raise
            hint = f"is the filter right? {self.settings.where}"
            raise SourceError(error.message, where=error.where, hint=hint) from error

    def _select(self, sessions: ChunkSessions, view: View) -> str:
        text, values = condition(self.chunk, self.table)
        with sessions.reader.cursor() as cursor:
            text = str(cursor.mogrify(text, tuple(values)))
        # The line feed ends a comment at the filter's end.
        text = f"({text}) AND ({self.settings.where}\n)" if self.settings.where else text
        return select_from(self.table, text, versions=view.versioned)

    def _packets(self, opened: _Opened) -> Iterator[RowPackets]:
        packets = opened.first
        opened.first = None
        while packets is not None:
            yield packets
            try:
                packets = opened.stream.read()
            except DefinitionChanged as error:
                raise SourceUnavailable(
                    f"the table changed inside a SELECT: {error}", where=str(self.table.id)
                ) from error

    def _last_images(self, window: Window) -> Iterator[pa.RecordBatch]:
        """The last images that belong to the chunk."""
        for batch in window.last_images():
            if self.chunk.columns:
                mine = self.inside(batch.select(list(self.chunk.columns)))
                batch = batch.filter(pa.array(np.asarray(mine, bool)))
            if batch.num_rows:
                yield batch

    def _not_done(self, sessions: ChunkSessions, at: LogPosition | None, reason: str) -> ChunkReport:
        return self._report(sessions, at, done=False, reason=reason)

    def _report(
        self,
        sessions: ChunkSessions,
        at: LogPosition | None,
        *,
        done: bool,
        rows: int = 0,
        gtids: str | None = None,
        reason: str = "",
    ) -> ChunkReport:
        file, position = ("", 0) if at is None else (at.file, at.position)
        sequence = 0 if at is None else sequence_of(file, position, self.settings.files_ahead)
        return ChunkReport(
            self.chunk.number, done, rows, sequence, file, position, gtids, sessions.info.identity, reason
        )


def _with_window(gtids: str | None, window: Window) -> str | None:
    """The transactions done at the window's end."""
    if gtids is None or not window.gtids:
        return gtids
    return str(GtidSet.parse(gtids).add_all(window.gtids))


def _as_block(
    table: MySqlTable, schema: Any, rows: pa.RecordBatch, sequence: int, number: int, time_ms: int
) -> ChangeBlock:
    count = rows.num_rows
    return ChangeBlock(
        table.id, schema, rows, pa.array(np.zeros(count, np.uint8)), pa.array(np.full(count, sequence, np.int64)),
        pa.array(np.arange(number, number + count, dtype=np.int32)), pa.array(np.full(count, time_ms, np.int64)),
    )  # fmt: skip
