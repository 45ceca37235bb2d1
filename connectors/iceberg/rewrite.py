"""Rewrite rows of a table: into fewer, larger files, or with a column filled. Runs in the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from connectors.iceberg.parquet import RowsFile, read_row_groups
from connectors.iceberg.partitions import split_by_partition
from connectors.iceberg.row_positions import SnapshotFiles
from connectors.iceberg.tables import LakeTable
from connectors.shared.batches import gather_batches
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.rewrite import fill_nulls

_PIECE_BYTES, _FILE_BYTES = 128 << 20, 128 << 20
"""The bytes of rows that are in memory at once, and the size from which on a file gets no more rows. Files are much
smaller than their rows in memory: of rows that fit in memory alone, merged files would be small files again."""


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
    files = sorted(chosen, key=lambda file: (file.spec_id, repr(file.partition)))
    batches = (rows for file in files for rows in live_rows(table, snapshot, file))
    with _Writer(table, prefix) as writer:
        for rows in gather_batches(batches, _PIECE_BYTES):
            writer.write(as_stored(table.id, fill_nulls(rows, fill or {}), table.columns))
        return writer.finish()


def live_rows(table: LakeTable, snapshot: SnapshotFiles, file: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one data file that no position delete names, with the table's present columns."""
    io = table.library.io
    live = np.ones(file.record_count, bool)
    live[snapshot.deleted(io, file.file_path)] = False
    start = 0
    for rows in read_row_groups(io, file.file_path, table.library.schema().fields):
        some = live[start : start + rows.num_rows]
        start += rows.num_rows
        yield from (rows if some.all() else rows.filter(pa.array(some))).to_batches()


class _Writer:
    """Writes files of a partition one after another: rows of one partition have to come together."""

    def __init__(self, table: LakeTable, prefix: str) -> None:
        self._table, self._prefix = table, prefix
        self._written: list[Any] = []
        self._partition: Any = None
        self._file: RowsFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.__exit__(*error)

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows; the file of the last partition stays open."""
        for part in split_by_partition(self._table.library, rows):
            some = rows if part.rows is None else rows.take(part.rows)
            file = self._file
            if file is None or part.values != self._partition or file.size_bytes >= _FILE_BYTES or not file.takes(some):
                file = self._begin_file(part.values)
            file.write(some)

    def finish(self) -> list[Any]:
        """Complete the last file; return the library's `DataFile` of each."""
        if self._file is not None:
            self._written.append(self._file.close())
            self._file = None
        return self._written

    def _begin_file(self, partition: Any) -> RowsFile:
        number = len(self.finish())
        locations = self._table.library.location_provider()
        path = str(locations.new_data_location(data_file_name=f"{self._prefix}-{number}.parquet"))
        self._partition, self._file = partition, RowsFile(self._table.library, path, partition)
        return self._file
