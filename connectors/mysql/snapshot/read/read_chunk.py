"""Reads one chunk of a table as exactly the table's rows at a position of the log.

A view is opened without a lock, and the few rows that changed while it was opened are read from the log. Then the
SELECT is streamed without those rows, followed by their last images. So the chunk is the table at `high`, complete and
without duplicates, even for append-only sinks, and it is never held in memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import SourceUnavailable
from cdc.retry import RetryPolicy
from cdc.source import Count
from connectors.mysql.rows.metadata import at_position
from connectors.mysql.server.connection import RETRY
from connectors.mysql.snapshot.chunk import Chunk, Watermark
from connectors.mysql.snapshot.read.opening import OpenedView, ViewOpener
from connectors.mysql.snapshot.read.read_settings import Access, Inside, ReadSettings
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_stream import DefinitionChanged, RowPackets
from connectors.mysql.snapshot.read.session import SessionPool
from connectors.mysql.snapshot.read.throttle import Throttle
from connectors.mysql.snapshot.read.window import Window
from connectors.mysql.table import MySqlTable


@dataclass(frozen=True, slots=True)
class ChunkReader:
    """Reads chunks one after the other. Executor.

    Attributes:
        count: receives invalid dates that became NULL.
        pool: keeps the sessions of a read chunk for the next one; the caller closes it.
        throttle: shared by all chunks.
    """

    access: Access
    count: Count
    pool: SessionPool
    throttle: Throttle
    retry: RetryPolicy = RETRY
    clock: Callable[[], float] = time.time

    def read(
        self, chunk: Chunk, table: MySqlTable, inside: Inside, settings: ReadSettings
    ) -> Generator[ChangeBlock, None, Watermark]:
        """Yield the chunk's rows as +I, all with the sequence of one position; return the watermark (`yield from`).

        `table` is its definition in the schema history when the chunk was planned. A retry yields the table's rows of
        that time, at another position: only the watermark of the attempt whose rows are used counts. Sessions are
        closed when the caller stops early.

        Raises:
            SourceUnavailable: the connection broke after the first row, or no view could be opened; start over.
            SourceError: the server refuses, or the table's engine has no views.
            CorruptLog, UnsupportedChange, SchemaUnknown: as the decoder.
        """
        opener = ViewOpener(self.access, chunk, table, settings, self.pool, self.clock, self.retry)
        opened = opener.open()
        if isinstance(opened, Watermark):
            return opened
        try:
            watermark = yield from self._rows(opener, opened, inside)
            self.pool.release(opened.sessions)
        except BaseException:
            opened.sessions.close()
            raise
        return watermark

    def _rows(self, opener: ViewOpener, opened: OpenedView, inside: Inside) -> Generator[ChangeBlock, None, Watermark]:
        """Yield the rows of the SELECT and of the window."""
        view, window, table, chunk = opened.view, opened.window, opener.table, opener.chunk
        at = opener.position(view)
        sequence, metadata = opener.sequence(at), at_position(at)
        reader = RowReader(
            table, opened.stream.columns, Stamp(sequence, 0, view.opened_ms), self.count, opener.settings.rules,
            where=opener.where(opened.sessions),
        )  # fmt: skip
        rows = 0
        for reason, found in opened.invalid.items():
            self.count(reason, found)
        for block in reader.blocks(_packets(opened, str(table.id))):
            keep = window.without(block.rows)
            block = block if keep is None else block.filter(keep)
            rows += len(block)
            yield replace(block, metadata=metadata)
            self.throttle.acquire(len(block))
        number = reader.rows
        for batch in _last_images(window, chunk.columns, inside):
            yield replace(_as_block(table, reader.schema, batch, sequence, number, view.opened_ms), metadata=metadata)
            number, rows = number + batch.num_rows, rows + batch.num_rows
        return Watermark(chunk.number, True, sequence, at.file, at.position, rows)


def _packets(opened: OpenedView, table: str) -> Iterator[RowPackets]:
    packets = opened.first
    opened.first = None
    while packets is not None:
        yield packets
        try:
            packets = opened.stream.read()
        except DefinitionChanged as error:
            raise SourceUnavailable(f"the table changed inside a SELECT: {error}", where=table) from error


def _last_images(window: Window, columns: Sequence[str], inside: Inside) -> Iterator[pa.RecordBatch]:
    """Yield the last images that belong to the chunk."""
    for batch in window.last_images():
        if columns:
            mine = inside(batch.select(list(columns)))
            batch = batch.filter(pa.array(np.asarray(mine, bool)))
        if batch.num_rows:
            yield batch


def _as_block(
    table: MySqlTable, schema: Any, rows: pa.RecordBatch, sequence: int, number: int, time_ms: int
) -> ChangeBlock:
    count = rows.num_rows
    return ChangeBlock(
        table.id, schema, rows, pa.array(np.zeros(count, np.uint8)), pa.array(np.full(count, sequence, np.int64)),
        pa.array(np.arange(number, number + count, dtype=np.int32)), pa.array(np.full(count, time_ms, np.int64)),
    )  # fmt: skip
