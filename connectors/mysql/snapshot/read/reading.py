"""The task's work with chunks, and with the log of tables that are being snapshotted. Executor."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import md5
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from cdc.block import ChangeBlock, Stream
from cdc.errors import SourceUnavailable
from cdc.faults import crash_point
from cdc.schema import TableId
from cdc.source import Count, Report, Split
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import RUNS, Schemas
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.server_info import query
from connectors.mysql.snapshot.chunk import Chunk, Watermark
from connectors.mysql.snapshot.filter.membership import InChunk
from connectors.mysql.snapshot.filter.tail_filter import TailFilter
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.requests import MOVED
from connectors.mysql.snapshot.plan.splits import ChunkRead, CopiedRange
from connectors.mysql.snapshot.read.read_chunk import read_chunk
from connectors.mysql.snapshot.read.read_settings import Access, ChunkReport, ReadSettings
from connectors.mysql.snapshot.read.session import SessionPool
from connectors.mysql.snapshot.read.throttle import Throttle

_ROWS = frozenset({Stream.SNAPSHOT_ROWS})


@lru_cache(maxsize=RUNS)
def _plan(store: Store) -> ChunkPlan:
    """One per process: a task then reads only what was added since the last one."""
    return ChunkPlan(store)


@lru_cache(maxsize=RUNS)
def _watermarks(store: Store) -> Watermarks:
    return Watermarks(store)


class AskServer:
    """Asks the server over a session of its own, opened when it is first needed."""

    def __init__(self, session: Callable[[], MySqlConnection]) -> None:
        self._session = session
        self._connection: MySqlConnection | None = None

    def __call__(self, statement: str) -> tuple[Any, ...]:
        """The statement's only row."""
        if self._connection is None:
            self._connection = self._session()
        (row,) = query(self._connection, statement)
        return row

    def close(self) -> None:
        """Close the session."""
        if self._connection is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._connection.close()
            self._connection = None


def tail_filter(wanted: CopiedRange, store: Store, streams: Streams, schemas: Schemas) -> TailFilter:
    """The filter for a range of the log."""
    start = wanted.part.start
    return TailFilter(
        _plan(store).copies(wanted.upto),
        wanted.before,
        _watermarks(store).refresh(),
        sequence_of(start.file, start.position, wanted.part.files_ahead),
        schemas.history.tables(wanted.part.schemas),
        AskServer(streams.session),
    )


def uncertain(wanted: CopiedRange, kept: TailFilter, report: Report) -> None:
    """Report the tables of a range that was read on another server and cannot be told exactly: they are re-snapshotted.

    A position of the one server means nothing on the other, so where a chunk was read inside the range, the changes
    around that place are left out or come twice.
    """
    part = wanted.part
    for table in kept.uncertain(sequence_of(part.end.file, part.end.position, part.files_ahead)):
        name = f"{MOVED}{wanted.upto}-{md5(str(table).encode(), usedforsecurity=False).hexdigest()[:16]}"
        report({"uncertain": [[table.database, table.table], name]})


def read_chunks(
    split: Split,
    options: MySqlSourceOptions,
    store: Store,
    streams: Streams,
    captured: Callable[[TableId], bool],
    count: Count,
    report: Report,
) -> Iterator[ChangeBlock]:
    """The rows of a split's chunks, one after the other; reports each chunk when its last row was given out.

    A chunk of a table that is not captured any more since it was planned is reported as not read: the next plan ends
    the copy. Raises as `read_chunk`.
    """
    wanted: ChunkRead = split.payload
    tables = Schemas(store, options).history.tables(wanted.schemas)
    asking, reader = AskServer(streams.session), 1 + split.index
    access = Access(
        streams.session,
        partial(streams.at, reader=reader, server=wanted.server),
        partial(streams.after, reader=reader, server=wanted.server),
    )
    order, pool, throttle = _Order(), SessionPool(), Throttle(wanted.rows_per_second)
    try:
        for number in wanted.chunks:
            chunk = _plan(store).chunk(number)
            table = tables.get(chunk.table)
            if table is None or not captured(chunk.table):
                report({"chunk": _not_read(chunk, wanted).to_json()})
                continue
            settings = _settings(options, chunk.table, wanted)
            inside = InChunk(chunk, table, asking)
            blocks = read_chunk(
                access, chunk, table, inside, settings, count, pool=pool, throttle=throttle, retry=streams.retry
            )
            crash_point("before-chunk", number)
            found = yield from _of_snapshot(order.blocks(blocks, wanted.least, number))
            crash_point("after-chunk", number)
            report({"chunk": _watermark(found, wanted.least).to_json()})
    finally:
        asking.close()
        pool.close()


def _of_snapshot(blocks: Generator[ChangeBlock, None, ChunkReport]) -> Generator[ChangeBlock, None, ChunkReport]:
    while True:
        try:
            block = next(blocks)
        except StopIteration as end:
            found: ChunkReport = end.value
            return found
        yield replace(block, streams=_ROWS)


def _settings(options: MySqlSourceOptions, table: TableId, wanted: ChunkRead) -> ReadSettings:
    return ReadSettings(
        server=wanted.server,
        files_ahead=wanted.files_ahead,
        least=wanted.least,
        rules=options.value_rules,
        where=options.snapshot_filter(table) or "",
        skip_window=options.backfill_skip,
    )


def _watermark(found: ChunkReport, least: int) -> Watermark:
    """A chunk that was not read is to be tried again behind this batch at the earliest."""
    sequence = found.sequence if found.done else max(found.sequence, least)
    return Watermark(found.number, found.done, sequence, found.file, found.position, found.rows)


def _not_read(chunk: Chunk, wanted: ChunkRead) -> Watermark:
    place = chunk.note
    return Watermark(chunk.number, False, wanted.least, place.get("file", ""), place.get("position", 0), 0)


class _Order:
    """Keeps (sequence, row) rising from chunk to chunk: on a quiet server two of them stand at one position."""

    def __init__(self) -> None:
        self._last: dict[TableId, tuple[int, int]] = {}

    def blocks(
        self, blocks: Generator[ChangeBlock, None, ChunkReport], least: int, number: int
    ) -> Generator[ChangeBlock, None, ChunkReport]:
        """A chunk's blocks. Raises SourceUnavailable when the view stands before `least`.

        MariaDB sends a transaction to readers of its log a moment before views show it; such a view is too old by one.
        """
        shift = 0
        while True:
            try:
                block = next(blocks)
            except StopIteration as end:
                found: ChunkReport = end.value
                if found.done:
                    _check_place(found.sequence, least)
                return found
            if not len(block):
                continue
            sequence, row = block.sequence[0].as_py(), block.row[0].as_py()
            _check_place(sequence, least)
            before, last = self._last.get(block.table, (0, -1))
            if sequence == before and row + shift <= last:
                shift = last + 1 - row
            if shift:
                block = replace(block, row=pc.add(block.row, pa.scalar(shift, pa.int32())))
            self._last[block.table] = sequence, block.row[-1].as_py()
            yield block
            crash_point("in-chunk", number)


def _check_place(sequence: int, least: int) -> None:
    if sequence < least:
        raise SourceUnavailable("a view of a table stands before the log that the batch holds; it is opened again")
