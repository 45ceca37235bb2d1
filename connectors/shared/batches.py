"""Combines small record batches to larger ones, bounded in size."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa

_MOST_BYTES = 1 << 30
"""Texts of one array are at most 2 GiB."""


def gather_batches(
    batches: Iterable[pa.RecordBatch], least_bytes: int, least_rows: int = sys.maxsize
) -> Iterator[pa.RecordBatch]:
    """Combine batches to at least `least_bytes` or `least_rows`; drops empty ones.

    The last one may be smaller, and one before a very large batch.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if waiting and size + batch.nbytes > _MOST_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= least_rows or size >= least_bytes:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
