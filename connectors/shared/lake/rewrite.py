"""Prepares rows of a lake for files: batches of a file's size, filled columns, files synced to disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from cdc.state.durable import sync_file

_MOST_BYTES = 1 << 30
"""Texts of one array are at most 2 GiB."""


def gather_batches(batches: Iterable[pa.RecordBatch], least_bytes: int) -> Iterator[pa.RecordBatch]:
    """Combine batches to at least `least_bytes`, except the last one and those before a very large one; drops empty
    ones."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if waiting and size + batch.nbytes > _MOST_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
        if size >= least_bytes:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def fill_nulls(rows: pa.RecordBatch, fill: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """Replace NULL in some columns, by name."""
    arrays = [
        array.fill_null(fill[name].cast(array.type)) if name in fill else array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def sync_to_disk(path: str) -> None:
    """Sync a lake's local file, and its name, to disk; an object store needs no sync."""
    path = path.removeprefix("file://")
    if "://" not in path:
        sync_file(Path(path))
