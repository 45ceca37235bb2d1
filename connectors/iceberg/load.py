"""Write the rows of a task into data files that no snapshot names yet. Runs in executors.

A load is one table of one task. Each flush is reduced to the last row of each key, split by partition, and written as
one file per partition. All changed keys are kept too: in the handle, or in a file of their own when there are many. The
handle's payload has the records of the files (`handles`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.sink import TaskAttempt
from connectors.iceberg.handles import Flush, pack_flushes
from connectors.iceberg.library import Catalog
from connectors.iceberg.parquet import keys_file, write_bytes, write_rows
from connectors.iceberg.partitions import Partition, split_by_partition
from connectors.iceberg.tables import LakeTable, table_for_files
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.keys import key_names
from connectors.shared.lake.two_phase import another_past, check_source, last_images
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.sending.sender import FlushResult

_INLINE_BYTES = 16 << 10
"""Keys of a flush up to this size go into the handle, which saves a file for each table of a small batch."""


@dataclass(frozen=True)
class Loader:
    """Begins loads for `connectors.shared.lake.two_phase.prepare`. Thread safe.

    Args:
        pipeline: the pipeline's id, a part of the names of files.
        keyless: the rules for updates and deletes of tables without a key.
        note: notes the paths of files that are about to be written.
    """

    catalog: Catalog
    pipeline: str
    keyless: KeylessChanges
    note: Callable[[Any], None]

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> Load:
        """Open the table. Raises SinkError when it cannot be written."""
        table = table_for_files(self.catalog, first.table)
        table.check()
        found = table.batch(self.pipeline)
        if found >= task.batch:  # a committed batch is not prepared again: that would overwrite its files
            raise another_past(table.id, found, task.batch)
        check_source(first, table.columns, table.key)
        attempt = f"p{task.partition}-a{task.attempt}-g{task.generation}-l{part}"
        return Load(self, table, f"{table.file_prefix(self.pipeline)}-b{task.batch}-{attempt}")


class Load:
    """The load of one table in one task attempt. `write` is called from one thread; `cancel` may come from another."""

    def __init__(self, loader: Loader, table: LakeTable, prefix: str) -> None:
        self._loader, self._table, self._prefix = loader, table, prefix
        self._flushes: list[Flush] = []
        self._cancelled = threading.Event()

    def write(self, blocks: Sequence[ChangeBlock]) -> FlushResult:
        """Write a flush into files. Raises SinkError."""
        images = last_images(blocks, self._table.key, self._loader.keyless)
        rows = as_stored(self._table.id, images.rows, self._table.columns)
        delete = images.delete.astype(bool)
        inserted = rows.filter(pa.array(~delete)) if delete.any() else rows
        if self._cancelled.is_set():
            raise SinkError("the load was cancelled", where=str(self._table.id))
        with self._loader.catalog.guard(str(self._table.id)):
            flush, size = self._write(inserted, rows.filter(pa.array(delete)))
        self._flushes.append(flush)
        return FlushResult(size, images.inserts, images.updates, images.deletes, dict(images.counts))

    def finish(self) -> Any:
        """The handle, `{"id": the table's UUID}` with the flushes as its payload."""
        return {"id": self._table.identity}, pack_flushes(self._table.library, self._flushes)

    def cancel(self) -> None:
        """Stop writing; the written files are removed later, because their paths are noted."""
        self._cancelled.set()

    def _write(self, rows: pa.RecordBatch, deleted: pa.RecordBatch) -> tuple[Flush, int]:
        library, number = self._table.library, len(self._flushes)
        parts = list(split_by_partition(library, rows)) if rows.num_rows else []
        paths = [self._path(f"f{number}-{count}.parquet") for count in range(len(parts))]
        keys = self._keys_of(rows, parts, deleted) if self._table.key else b""
        keys_path = self._path(f"f{number}-keys.arrow") if len(keys) > _INLINE_BYTES else ""
        self._loader.note([*paths, *filter(None, [keys_path])])
        files = [
            write_rows(library, path, _of_part(rows, part), part.values)
            for part, path in zip(parts, paths, strict=True)
        ]  # fmt: skip
        size = len(keys) + sum(int(file.file_size_in_bytes) for file in files)
        if keys_path:
            write_bytes(library.io, keys_path, keys)
            return Flush(tuple(files), keys_path=keys_path), size
        return Flush(tuple(files), keys), size

    def _path(self, name: str) -> str:
        return str(self._table.library.location_provider().new_data_location(data_file_name=f"{self._prefix}-{name}"))

    def _keys_of(self, rows: pa.RecordBatch, parts: Sequence[Partition], deleted: pa.RecordBatch) -> bytes:
        keys = rows.select(self._table.key)
        placed = (_numbered(_of_part(keys, part), number) for number, part in enumerate(parts))
        return keys_file(pa.concat_tables([_numbered(deleted.select(self._table.key), -1), *placed]))


def _of_part(rows: pa.RecordBatch, part: Partition) -> pa.RecordBatch:
    return rows if part.rows is None else rows.take(part.rows)


def _numbered(keys: pa.RecordBatch, file: int) -> pa.Table:
    """The keys with columns for their places: the number of the file, and the position in it."""
    number = pa.array(np.full(keys.num_rows, file, np.int32))
    row_numbers = pa.array(np.arange(keys.num_rows, dtype=np.int64))
    return pa.table([*keys.columns, number, row_numbers], names=[*key_names(keys.num_columns), "file", "pos"])
