"""Rows of a lake on their way into new files: batches of a file's worth, columns filled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa


def gather_batches(batches: Iterable[pa.RecordBatch], least_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of at least so many bytes, the last one apart; none without rows."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= least_bytes:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def fill_nulls(rows: pa.RecordBatch, fill: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """The rows with a value for NULL in some columns, by name."""
    arrays = [
        array.fill_null(fill[name].cast(array.type)) if name in fill else array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)
