"""Write the rows of a task into data files that no snapshot names yet. Runs in executors.

A load is one table of one task. Each flush is reduced to the last row of each key, split by partition and bucket, and
written as one file for each. The handle's payload has Paimon's commit messages, in version 14 of Paimon's format.
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
from connectors.paimon.buckets import groups
from connectors.paimon.file_writer import sequence_number, write_files
from connectors.paimon.handles import Files, NotedFiles
from connectors.paimon.library import Catalog
from connectors.paimon.tables import LakeTable, claim, get_table
from connectors.shared.lake.columns import as_stored
from connectors.shared.lake.rewrite import sync_to_disk
from connectors.shared.lake.two_phase import check_source, last_images
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.sending.sender import FlushResult


@dataclass(frozen=True)
class Loader:
    """Begins loads for `connectors.shared.lake.two_phase.prepare`. Thread safe.

    Args:
        pipeline: the pipeline's id, a part of the names of files and of the option with the table's sequence base.
        keyless: the rules for updates and deletes of tables without a key.
        note: notes which files are about to be written, as the JSON of `NotedFiles`.
    """

    catalog: Catalog
    pipeline: str
    keyless: KeylessChanges
    note: Callable[[Any], None]

    def begin(self, task: TaskAttempt, first: ChangeBlock, part: int) -> Load:
        """Open the table. Raises SinkError when it is not the one that the pipeline writes to."""
        table = get_table(self.catalog, first.table)
        if table.identity:  # a table of an earlier pipeline, such as that of a savepoint
            table = claim(self.catalog, table, self.pipeline)
        table.check()
        check_source(first, table.columns, table.key)
        return Load(self, table, task)


class Load:
    """The load of one table in one task attempt. `write` is called from one thread; `cancel` may come from another."""

    def __init__(self, loader: Loader, table: LakeTable, task: TaskAttempt) -> None:
        self._table, self._task, self._note = table, task, loader.note
        self._catalog, self._keyless = loader.catalog, loader.keyless
        self._base = table.sequence_base(loader.pipeline)
        self._prefix = f"cdc-{loader.pipeline}-b{task.batch}-p{task.partition}-a{task.attempt}-g{task.generation}-"
        self._library = table.library.copy({"data-file.prefix": self._prefix})
        self._columns = table.columns
        self._flushes = 0
        self._messages: list[bytes] = []
        self._files: list[str] = []
        self._folders = set[str]()
        self._cancelled = threading.Event()

    def write(self, blocks: Sequence[ChangeBlock]) -> FlushResult:
        """Write a flush into files. Raises SinkError."""
        images = last_images(blocks, self._table.key, self._keyless)
        rows = as_stored(self._table.id, images.rows, self._columns)
        delete = images.delete.astype(bool)
        sequence = sequence_number(self._base, self._task.batch, self._task.partition, self._flushes)
        self._flushes += 1
        size = 0
        for group in groups(rows, self._table.partition_keys, self._table.bucket_keys, self._table.buckets):
            if self._cancelled.is_set():
                raise SinkError("the load was cancelled", where=str(self._table.id))
            some = rows if group.rows is None else rows.take(group.rows)
            deleted = delete if group.rows is None else delete[group.rows.to_numpy()]
            size += self._write(group.partition, group.bucket, some, deleted, sequence)
        return FlushResult(size, images.inserts, images.updates, images.deletes, dict(images.counts))

    def finish(self) -> Any:
        """The handle and its payload, see `connectors.paimon.handles`."""
        return Files(self._messages, self._files).handle(self._table.identity)

    def cancel(self) -> None:
        """Stop writing; the written files are removed later, because they are noted."""
        self._cancelled.set()

    def _write(
        self, partition: tuple[Any, ...], bucket: int, rows: pa.RecordBatch, delete: np.ndarray, sequence: int
    ) -> int:
        from pypaimon.utils.file_store_path_factory import canonical_data_file_path
        from pypaimon.write.commit_message import CommitMessage
        from pypaimon.write.commit_message_serializer import serialize_commit_message

        with self._catalog.guard(str(self._table.id)):
            self._note_folder(canonical_data_file_path(self._table.library, partition, bucket, ""))
            files = write_files(self._library, partition, bucket, rows, delete, sequence)
            self._files += [file.file_path for file in files]
            for file in files:
                sync_to_disk(file.file_path)
            message = CommitMessage(partition=partition, bucket=bucket, new_files=files)
            self._messages.append(serialize_commit_message(message, self._table.library.partition_keys_fields))
        return sum(file.file_size for file in files)

    def _note_folder(self, folder: str) -> None:
        if folder not in self._folders:
            self._note(NotedFiles(self._table.id, folder, self._prefix).to_json())
            self._folders.add(folder)
