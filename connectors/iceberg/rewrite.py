"""Rewrite rows of a table: into fewer, larger files, or with a column filled. Runs in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.iceberg.parquet import read_columns, write_rows
from connectors.iceberg.partitions import split_by_partition
from connectors.iceberg.places import SnapshotFiles
from connectors.iceberg.tables import LakeTable
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.rewrite import fill_nulls, gather_batches

_FLUSH_BYTES = 128 << 20


def rewritten(
    table: LakeTable,
    there: SnapshotFiles,
    chosen: Iterable[Any],
    prefix: str,
    fill: Mapping[str, pa.Scalar] | None = None,
) -> list[Any]:
    """Write the live rows of data files into new ones, which no snapshot names yet.

    Args:
        there: the files of the table's head.
        chosen: the data files to rewrite.
        prefix: the prefix of the new files' names.
        fill: by column, the value that replaces NULL.
    """
    made: list[Any] = []
    for rows in gather_batches((live_rows(table, there, file) for file in chosen), _FLUSH_BYTES):
        stored = as_stored(table.id, fill_nulls(rows, fill or {}), table.columns)
        for part in split_by_partition(table.library, stored):
            some = stored if part.rows is None else stored.take(part.rows)
            name = f"{prefix}-{len(made)}.parquet"
            path = str(table.library.location_provider().new_data_location(data_file_name=name))
            made.append(write_rows(table.library, path, some, part.values))
    return made


def live_rows(table: LakeTable, there: SnapshotFiles, file: Any) -> pa.RecordBatch:
    """The rows of one data file that no position delete names, with the table's present columns."""
    io = table.library.io
    found = read_columns(io, file.file_path, table.library.schema().fields)
    gone = there.deleted(io, file.file_path)
    if len(gone):
        kept = np.ones(found.num_rows, bool)
        kept[gone] = False
        found = found.filter(pa.array(kept))
    batches = found.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], found.schema)
