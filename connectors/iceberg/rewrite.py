"""Rows of a table written anew: into fuller files, or with a column filled. Driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.iceberg.file_writer import write_rows
from connectors.iceberg.partitions import split
from connectors.iceberg.places import Files
from connectors.iceberg.tables import LakeTable
from connectors.shared.lake.columns import as_stored

_FLUSH_BYTES = 128 << 20


def rewritten(
    table: LakeTable, prefix: str, *, files: Sequence[Any] | None = None, fill: Mapping[str, pa.Scalar] | None = None
) -> list[Any]:
    """New data files with the live rows of some data files, by default of all. No snapshot names them yet.

    Args:
        prefix: begins the names of the files.
        fill: values for rows where the column is NULL, by column.
    """
    there = Files.of(table)
    chosen = list(there.data.values()) if files is None else list(files)
    made: list[Any] = []
    for rows in _gathered(live_rows(table, there, file) for file in chosen):
        stored = as_stored(table.id, _filled(rows, fill or {}), table.columns)
        for part in split(table.library, stored):
            some = stored if part.rows is None else stored.take(part.rows)
            name = f"{prefix}-{len(made)}.parquet"
            path = str(table.library.location_provider().new_data_location(data_file_name=name))
            made.append(write_rows(table.library, path, some, part.values))
    return made


def live_rows(table: LakeTable, there: Files, file: Any) -> pa.RecordBatch:
    """The rows of one data file that no position delete has, with the table's present columns."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    io, fields = table.library.io, table.library.schema().fields
    with io.new_input(file.file_path).open() as stream:
        rows = pq.ParquetFile(stream).read()
    by_id = {int((field.metadata or {}).get(b"PARQUET:field_id", -1)): place for place, field in enumerate(rows.schema)}
    columns = []
    for field in fields:
        kind = schema_to_pyarrow(field.field_type)
        place = by_id.get(field.field_id)
        columns.append(pa.nulls(rows.num_rows, kind) if place is None else rows.column(place).cast(kind))
    found = pa.table(columns, names=[field.name for field in fields])
    gone = there.deleted(io, file.file_path)
    if len(gone):
        kept = np.ones(rows.num_rows, bool)
        kept[gone] = False
        found = found.filter(pa.array(kept))
    return _one([found])


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a file's worth."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= _FLUSH_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _one(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    rows = pa.concat_tables(tables).combine_chunks()
    batches = rows.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)


def _filled(rows: pa.RecordBatch, fill: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    arrays = [
        array.fill_null(fill[name].cast(array.type)) if name in fill else array
        for name, array in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)
