"""Reads the chunks of a split. Executor."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.block import ChangeBlock
from cdc.source import Count, Report, Split
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import Captures, Schemas
from connectors.mysql.server.lazy_session import LazySession
from connectors.mysql.snapshot.filter.membership import InChunk
from connectors.mysql.snapshot.plan.chunk_plan import shared_plan
from connectors.mysql.snapshot.plan.splits import ChunkRead
from connectors.mysql.snapshot.read.read_chunk import ChunkReader
from connectors.mysql.snapshot.read.read_settings import Access, ReadSettings
from connectors.mysql.snapshot.read.rising import Rising
from connectors.mysql.snapshot.read.session import SessionPool
from connectors.mysql.snapshot.read.throttle import Throttle


def read_chunks(
    split: Split,
    options: MySqlSourceOptions,
    store: Store,
    streams: Streams,
    captured: Captures,
    count: Count,
    report: Report,
) -> Iterator[ChangeBlock]:
    """Yield the rows of a split's chunks, one after the other; reports each chunk after its last row.

    A chunk whose table is no longer captured is reported as not read: the next plan ends the snapshot. Raises as
    `ChunkReader.read`.
    """
    wanted: ChunkRead = split.payload
    tables = Schemas(store, options).history.tables(wanted.schemas)
    session, reader = LazySession(streams.session), 1 + split.index
    pool, throttle, rising = SessionPool(), Throttle(wanted.rows_per_second), Rising()
    chunks = ChunkReader(Access.of(streams, reader, wanted.server), count, pool, throttle, streams.retry)
    try:
        for number in wanted.chunks:
            chunk = shared_plan(store).chunk(number)
            table = tables.get(chunk.table)
            if table is None or not captured(chunk.table):
                report({"chunk": chunk.not_read(wanted.least).to_json()})
                continue
            settings = ReadSettings.of(options, chunk.table, wanted)
            inside = InChunk(chunk, table, session.only_row)
            found = yield from rising.blocks(chunks.read(chunk, table, inside, settings), wanted.least, number)
            report({"chunk": found.to_json()})
    finally:
        session.close()
        pool.close()
