"""A task's rows into data files that no snapshot names yet. Executor.

A load is one table of one task: each flush is folded to the last image of each key, split by partition, and written as
a file for each, with a file of all changed keys beside them. The handle's payload has the files (`handles`).
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
from connectors.iceberg.handles import Flush, packed
from connectors.iceberg.parquet import write_keys, write_rows
from connectors.iceberg.partitions import split
from connectors.iceberg.tables import LakeTable, Tables
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.two_phase import check_source, last_images
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.sending.sender import Written


@dataclass(frozen=True)
class Loader:
    """Begins loads for `connectors.shared.lake.two_phase.prepare`. Thread safe.

    Args:
        pipeline: part of the names of files.
        keyless: what becomes of updates and deletes of tables without a key.
        note: keeps the paths of files that are about to be written.
    """

    tables: Tables
    pipeline: str
    keyless: KeylessChanges
    note: Callable[[Any], None]

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> Load:
        """Open the table. Raises SinkError when it is not one that can be written to."""
        table = self.tables.get(first.table)
        table.check()
        check_source(first, table.columns, table.key)
        attempt = f"p{task.partition}-a{task.attempt}-g{task.generation}-l{part}"
        return Load(self, table, f"{table.file_prefix(self.pipeline)}-b{task.batch}-{attempt}")


class Load:
    """One table of one task attempt. Flushes come one after another; `cancel` may come from another thread."""

    def __init__(self, loader: Loader, table: LakeTable, prefix: str) -> None:
        self._loader, self._table, self._prefix = loader, table, prefix
        self._flushes: list[Flush] = []
        self._cancelled = threading.Event()

    def write(self, blocks: Sequence[ChangeBlock]) -> Written:
        """Write a flush as files. Raises SinkError."""
        left = last_images(blocks, self._table.key, self._loader.keyless)
        rows = as_stored(self._table.id, left.rows, self._table.columns)
        delete = left.delete.astype(bool)
        there = rows.filter(pa.array(~delete)) if delete.any() else rows
        if self._cancelled.is_set():
            raise SinkError("the load was cancelled", where=str(self._table.id))
        with self._loader.tables.catalog.guard(str(self._table.id)):
            flush, size = self._write(there, rows.filter(pa.array(delete)))
        self._flushes.append(flush)
        return Written(size, left.inserts, left.updates, left.deletes, dict(left.counts))

    def finish(self) -> Any:
        """The handle `{"id": the table's UUID}`, and the flushes as its payload."""
        return {"id": self._table.identity}, packed(self._table.library, self._flushes)

    def cancel(self) -> None:
        """Let go of what is written: its paths are noted."""
        self._cancelled.set()

    def _write(self, rows: pa.RecordBatch, gone: pa.RecordBatch) -> tuple[Flush, int]:
        library, number = self._table.library, len(self._flushes)
        places = library.location_provider()
        parts = list(split(library, rows)) if rows.num_rows else []
        names = [f"{self._prefix}-f{number}-{count}.parquet" for count in range(len(parts))]
        paths = [str(places.new_data_location(data_file_name=name)) for name in names]
        keys_path = str(places.new_data_location(data_file_name=f"{self._prefix}-f{number}-keys.arrow"))
        self._loader.note([*paths, *([keys_path] if self._table.key else [])])
        files, keys, size = [], [self._keys(gone, -1)], 0
        for count, (part, path) in enumerate(zip(parts, paths, strict=True)):
            some = rows if part.rows is None else rows.take(part.rows)
            files.append(write_rows(library, path, some, part.values))
            size += int(files[-1].file_size_in_bytes)
            keys.append(self._keys(some, count))
        if not self._table.key:
            return Flush(tuple(files), ""), size
        size += write_keys(library.io, keys_path, pa.concat_tables(keys))
        return Flush(tuple(files), keys_path), size

    def _keys(self, rows: pa.RecordBatch, file: int) -> pa.Table:
        columns = [rows.column(name) for name in self._table.key]
        number = pa.array(np.full(rows.num_rows, file, np.int32))
        place = pa.array(np.arange(rows.num_rows, dtype=np.int64))
        return pa.table([*columns, number, place], names=[*self._table.key, "file", "pos"])
