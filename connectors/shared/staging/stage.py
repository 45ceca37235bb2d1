"""Staged rows: one file per task, durable before the decision, loaded by the driver at commit.

    <state>/sink/staging/<batch>/<partition>-<attempt>.arrows

A file is a sequence of segments; each segment is a complete Arrow IPC stream with rows of one table. So a thousand
tables in a task cost one file and one fsync, and the driver reads a segment when it gets there. Uncompressed Arrow was
measured against Parquet: written twice as fast, loaded as fast.

The last column of a segment, `__cdc_kind`, holds the row kinds. Where a sink asks for them, the column before it,
`__cdc_position`, holds the positions in the source's log as text. For tables with a key, an update-before image whose
key equals that of its update-after image is left out, because only the last image of a key counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.block import ChangeBlock, RowKind, position_texts
from cdc.errors import SinkError
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from cdc.state.durable import new_file
from cdc.state.store import Store

KIND, POSITION = "__cdc_kind", "__cdc_position"
_TABLE_BYTES = 4 << 20
_TOTAL_BYTES = 64 << 20
_SMALL_BATCH_ROWS = 8192


class StagingWriter(Protocol):
    """Writes rows into one file."""

    @property
    def tables(self) -> Mapping[TableId, Any]:
        """The tables with rows in the file."""

    def add(self, block: ChangeBlock) -> None:
        """Add a block, and write what is full."""

    def flush(self) -> None:
        """Write what is left."""


W = TypeVar("W", bound=StagingWriter)


@dataclass(frozen=True, slots=True)
class StagingFolder:
    """The folder in the store of one sink. Picklable."""

    store: Store
    name: str = "staging"

    def path(self, file: str | int) -> Path:
        """Return the place of a file, by its name in a handle, or of a batch's folder."""
        return self.store.bulk(self.name) / str(file)

    def write(
        self, task: TaskAttempt, suffix: str, blocks: Iterator[ChangeBlock], open_writer: Callable[[Any], W]
    ) -> tuple[W, str]:
        """Write the blocks to the task's file and sync it; without rows no file is left. Executor. Raises SinkError.

        Returns the writer, and the name of the file for handles.
        """
        path = self.path(task.batch) / f"{task.partition}-{task.attempt}.{suffix}"
        try:
            with new_file(path) as file:
                writer = open_writer(file)
                for block in blocks:
                    writer.add(block)
                writer.flush()
            if not writer.tables:
                path.unlink()
        except OSError as error:
            hint = "free some space in the state directory, or choose another --state-dir"
            raise SinkError(f"cannot stage rows: {error.strerror or error}", where=str(path), hint=hint) from error
        if writer.tables:
            self.store.persist(path)
        return writer, f"{task.batch}/{path.name}"

    def drop(self, batch: int) -> None:
        """Remove the files of a batch that was never decided. Driver."""
        self.store.drop(self.path(batch))

    def clean(self, batch: int) -> None:
        """Remove the files of a committed batch, and those of earlier ones that a crash has left. Driver."""
        for folder in self.store.bulk(self.name).glob("*"):
            if folder.name.isdigit() and int(folder.name) <= batch:
                self.store.drop(folder)


def stage(
    staging: StagingFolder, task: TaskAttempt, blocks: Iterator[ChangeBlock], *, positions: bool = False
) -> list[Prepared]:
    """Write the blocks to the task's file; without rows there is none. Executor.

    Holds at most about 64 MB of rows in memory. With `positions`, each row's position in the log is written to the
    column `POSITION`. Handles are JSON: `{"file": "12/0-3.arrows", "segments": [[offset, length], ...], "key": ["id"],
    "others": 0}`; `others` is the number of images that are not inserts.
    """
    writer, name = staging.write(task, "arrows", blocks, partial(_SegmentWriter, positions=positions))
    return [table.handle(name, task.partition) for table in writer.tables.values()]


@dataclass
class _StagedChanges:
    """The changes of one table in this task: its buffered rows, the segments written, and counts of the changes."""

    id: TableId
    key: tuple[str, ...]
    schema: pa.Schema
    buffered: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    segments: list[tuple[int, int]] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])

    def handle(self, name: str, partition: int) -> Prepared:
        inserts, _, updates, deletes = self.counts
        handle = {
            "file": name, "segments": [list(segment) for segment in self.segments], "key": list(self.key),
            "others": sum(self.counts) - inserts,
        }  # fmt: skip
        return Prepared(self.id, partition, handle, inserts, updates, deletes)


class _SegmentWriter:
    """Collects small blocks per table and writes them as segments."""

    def __init__(self, file: Any, *, positions: bool) -> None:
        self._file, self._bytes, self._positions = file, 0, positions
        self.tables: dict[TableId, _StagedChanges] = {}

    def add(self, block: ChangeBlock) -> None:
        if not len(block):
            return
        table = self._table(block)
        refuse_null_keys(block)
        for kind, number in enumerate(np.bincount(block.kinds.to_numpy(), minlength=len(table.counts)).tolist()):
            table.counts[kind] += number
        rows = _staged(block, table.schema)
        size = int(rows.nbytes)
        table.buffered.append(rows)
        table.bytes += size
        self._bytes += size
        if table.bytes >= _TABLE_BYTES:
            self._write(table)
        elif self._bytes >= _TOTAL_BYTES:
            self.flush()

    def flush(self) -> None:
        for table in self.tables.values():
            if table.buffered:
                self._write(table)

    def _table(self, block: ChangeBlock) -> _StagedChanges:
        table = self.tables.get(block.table)
        schema = block.rows.schema if table is None else table.schema
        if table is None:
            schema = schema.append(pa.field(POSITION, pa.string())) if self._positions else schema
            schema = schema.append(pa.field(KIND, pa.uint8()))
            table = self.tables[block.table] = _StagedChanges(block.table, block.schema.primary_key, schema)
        elif schema.names[: len(block.schema.names)] != block.rows.schema.names:
            hint = "a schema change has to end the batch before it"
            raise SinkError("rows of two schemas in one batch", where=str(block.table), hint=hint)
        return table

    def _write(self, table: _StagedChanges) -> None:
        start = self._file.tell()
        with pa.ipc.new_stream(self._file, table.schema) as stream:
            for batch in _coalesced(table.buffered):
                stream.write_batch(batch)
        table.segments.append((start, self._file.tell() - start))
        self._bytes -= table.bytes
        table.bytes = 0
        table.buffered.clear()


def refuse_null_keys(block: ChangeBlock) -> None:
    """Raise SinkError for a row whose key is NULL, such as a zero date.

    A sink would refuse it only after the decision.
    """
    for name in block.schema.primary_key:
        values = block.rows.column(_index(block, name))
        if values.null_count:
            at = block.position_text(block.sequence[pc.index(pc.is_null(values), True).as_py()].as_py())
            raise SinkError(
                f"a value of the key column {name} is NULL (zero dates become NULL), and a key cannot be",
                where=f"{block.table} at {at}" if at else str(block.table),
                hint="correct the value at the source and start over after it, or exclude the table (tables.exclude)",
            )


def _coalesced(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    if len(batches) == 1 or rows // len(batches) >= _SMALL_BATCH_ROWS:
        return batches
    return list(pa.Table.from_batches(batches).combine_chunks().to_batches())


def _staged(block: ChangeBlock, schema: pa.Schema) -> pa.RecordBatch:
    columns = [*block.rows.columns]
    if POSITION in schema.names:
        columns.append(position_texts(block.sequence.to_numpy(zero_copy_only=False), block.position_text))
    rows = pa.RecordBatch.from_arrays([*columns, block.kinds], schema=schema)
    if not block.schema.primary_key:
        return rows
    needless = _needless_befores(block)
    return rows if needless is None else rows.filter(pc.invert(needless))


def _needless_befores(block: ChangeBlock) -> pa.Array | None:
    """Return which rows are update-before images directly before an update-after image with the same key.

    None when there are no such rows.
    """
    if len(block) < 2 or not np.any(block.kinds.to_numpy() == RowKind.UPDATE_BEFORE):
        return None
    befores = pc.equal(block.kinds, int(RowKind.UPDATE_BEFORE))
    paired = pc.and_(befores[:-1], pc.equal(block.kinds[1:], int(RowKind.UPDATE_AFTER)))
    for name in block.schema.primary_key:
        values = block.rows.column(_index(block, name))
        paired = pc.and_(paired, pc.fill_null(pc.equal(values[:-1], values[1:]), False))
    return pa.concat_arrays([paired, pa.array([False])])


def _index(block: ChangeBlock, name: str) -> int:
    return [column.lower() for column in block.schema.names].index(name.lower())


def read_staged(staging: StagingFolder, handles: Sequence[Prepared]) -> Iterator[pa.RecordBatch]:
    """Yield the staged rows of one table in log order, holding one segment at a time.

    Raises SinkError when a file is missing or incomplete.
    """
    for prepared in sorted(handles, key=lambda handle: handle.partition):
        path = staging.path(prepared.handle["file"])
        try:
            with pa.OSFile(str(path)) as file:
                for offset, length in prepared.handle["segments"]:
                    yield from pa.ipc.open_stream(_segment(file, offset, length))
        except (OSError, pa.ArrowInvalid) as error:
            hint = "the decided batch cannot be loaded; restore the state directory from a backup"
            raise SinkError(f"staged rows cannot be read: {error}", where=str(path), hint=hint) from error


def _segment(file: Any, offset: int, length: int) -> pa.Buffer:
    if offset + length > file.size():
        raise OSError(f"the file ends at byte {file.size()}, before the end of its rows")
    file.seek(offset)
    return file.read_buffer(length)


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of a batch for one table.

    Attributes:
        key: the source's key columns; empty for a table without a key.
        inserts: number of images that are inserts.
        others: number of all other images.
        read: reads all images in log order, with their kinds in the last column `KIND`; may be called again.
    """

    table: TableId
    key: tuple[str, ...]
    inserts: int
    others: int
    read: Callable[[], Iterator[pa.RecordBatch]]


def staged_tables(staging: StagingFolder, prepared: Sequence[Prepared]) -> list[Staged]:
    """Return the staged rows of a batch, one entry per table. Called in the driver."""
    tables: dict[TableId, list[Prepared]] = {}
    for handle in prepared:
        tables.setdefault(handle.table, []).append(handle)
    return [
        Staged(
            table,
            key=tuple(handles[0].handle["key"]),
            inserts=sum(handle.inserts for handle in handles),
            others=sum(handle.handle["others"] for handle in handles),
            read=partial(read_staged, staging, handles),
        )
        for table, handles in tables.items()
    ]
