"""Rows on their way from staged files into DuckDB, in pieces of the size that suits it. Driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from cdc.errors import SinkError

ROW_GROUP = 122_880
PIECE_BYTES = 32 << 20


def in_row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of DuckDB's row groups, which it then takes by several threads, compressed as they come.

    Pieces of wide rows are smaller: about 32 MB.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        while rows + batch.num_rows >= ROW_GROUP:
            waiting.append(batch.slice(0, ROW_GROUP - rows))
            batch = batch.slice(ROW_GROUP - rows)
            rows = size = 0
            yield _drain(waiting)
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size >= PIECE_BYTES:
            rows = size = 0
            yield _drain(waiting)
    if rows:
        yield _drain(waiting)


def _drain(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One piece of all of them, which are not held any longer."""
    piece = pa.concat_batches(waiting)
    waiting.clear()
    return piece


class Pieces:
    """Batches for a scan of DuckDB's, none of which is held here once it is handed on.

    Keeps the error that ends them, of which DuckDB would only pass on the text.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Takes the first batch, which has to exist, for its schema."""
        self._batches = batches
        self._first: pa.RecordBatch | None = next(batches)
        self.schema: pa.Schema = self._first.schema
        self.error: SinkError | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        pa.default_memory_pool().release_unused()  # it would keep what was freed: 35 MB
        try:
            return next(self._batches)
        except SinkError as error:
            self.error = error
            raise
