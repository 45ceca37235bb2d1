"""Rewrite rows of a table: into fewer, larger files, or with a column filled. Runs in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.iceberg.parquet import read_columns, write_rows
from connectors.iceberg.partitions import split_by_partition
from connectors.iceberg.row_positions import SnapshotFiles
from connectors.iceberg.tables import LakeTable
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.rewrite import fill_nulls, gather_batches

_FLUSH_BYTES = 128 << 20


def rewrite_files(
    table: LakeTable,
    snapshot: SnapshotFiles,
    chosen: Iterable[Any],
    prefix: str,
    fill: Mapping[str, pa.Scalar] | None = None,
) -> list[Any]:
    """Write the live rows of data files into new ones, which no snapshot names yet.

    Args:
        snapshot: the files of the table's head.
        chosen: the data files to rewrite.
        prefix: the prefix of the new files' names.
        fill: by column, the value that replaces NULL.
    """
    files_written: list[Any] = []
    for rows in gather_batches((live_rows(table, snapshot, file) for file in chosen), _FLUSH_BYTES):
        stored = as_stored(table.id, fill_nulls(rows, fill or {}), table.columns)
        for part in split_by_partition(table.library, stored):
            some = stored if part.rows is None else stored.take(part.rows)
            name = f"{prefix}-{len(files_written)}.parquet"
            path = str(table.library.location_provider().new_data_location(data_file_name=name))
            files_written.append(write_rows(table.library, path, some, part.values))
    return files_written


def live_rows(table: LakeTable, snapshot: SnapshotFiles, file: Any) -> pa.RecordBatch:
    """The rows of one data file that no position delete names, with the table's present columns."""
    io = table.library.io
    found = read_columns(io, file.file_path, table.library.schema().fields)
    deleted = snapshot.deleted(io, file.file_path)
    if len(deleted):
        live = np.ones(found.num_rows, bool)
        live[deleted] = False
        found = found.filter(pa.array(live))
    batches = found.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], found.schema)
