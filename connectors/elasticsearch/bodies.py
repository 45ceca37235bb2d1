"""Write the bulk bodies of one task to a file of the state directory, durable and unsent until the batch is decided.

    <state>/sink/staging/<batch>/<partition>-<attempt>.ndjson

A file is a sequence of bodies, grouped into *flushes*. The documents of a flush are all different, so its bodies may be
sent in parallel; the flushes are sent one after the other. A row whose routing or sharding column changes moves to
another shard or index: the deletes of such a table are a flush of their own, sent before the others, and documents
whose place is unknown are looked up before those (`lookup`). Where refused documents are kept as dead letters, each
body is followed by the log positions of its documents, one per line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, position_texts
from cdc.errors import SinkError
from cdc.schema import TableId
from cdc.sink import Prepared, TaskAttempt
from connectors.elasticsearch.documents import DocumentTarget, document_ids, lines, shard_suffixes
from connectors.elasticsearch.lookup import looked_for
from connectors.shared.last_image.last_image import KeylessChanges, LastImages, concat_blocks, every_insert, images
from connectors.shared.staging.stage import StagingFolder, refuse_null_keys

_FLUSH_ROWS, _FLUSH_BYTES, _TOTAL_BYTES = 100_000, 32 << 20, 64 << 20
_LEAST_BODY_BYTES = 512 << 10
"""A flush is split further than its size needs, into bodies of at least this size: all connections have work."""

Places = Callable[[TableId], DocumentTarget]
"""Gives the place of a table's documents. Raises SinkError for a table without an index."""


@dataclass
class _TableDocuments:
    """The documents of one table in this task."""

    target: DocumentTarget
    key: tuple[str, ...]
    blocks: list[ChangeBlock] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    numbered: int = 0
    flushes: list[list[list[int]]] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])
    left_out: dict[str, int] = field(default_factory=dict)
    lookups: list[int] = field(default_factory=list)
    shards: set[str] = field(default_factory=set)


class BodyWriter:
    """Writes the bodies of one task. Runs in executors.

    Args:
        body_bytes: maximum size of a body of several documents.
        connections: how many bodies are sent at a time.
        unique: prefix of the ids of documents without a key: the pipeline and the part of its batch.
        with_positions: whether the log positions of the documents are written too.
    """

    def __init__(
        self,
        file: Any,
        targets: Places,
        keyless: KeylessChanges,
        body_bytes: int,
        connections: int,
        unique: str,
        *,
        with_positions: bool = False,
    ) -> None:
        self._file, self._targets, self._keyless, self._with_positions = file, targets, keyless, with_positions
        self._body_bytes, self._connections, self._unique, self._bytes = body_bytes, connections, unique, 0
        self.tables: dict[TableId, _TableDocuments] = {}

    def add(self, block: ChangeBlock) -> None:
        """Add a block, and write the flushes that are full."""
        if not len(block):
            return
        table = self.tables.get(block.table)
        if table is None:
            table = self.tables[block.table] = _TableDocuments(self._targets(block.table), block.schema.primary_key)
        refuse_null_keys(block)
        size = int(block.rows.nbytes)
        table.blocks.append(block)
        table.rows, table.bytes, self._bytes = table.rows + len(block), table.bytes + size, self._bytes + size
        if table.rows >= _FLUSH_ROWS or table.bytes >= _FLUSH_BYTES:
            self._flush(table)
        elif self._bytes >= _TOTAL_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the documents that are still buffered."""
        for table in self.tables.values():
            if table.blocks:
                self._flush(table)

    def _flush(self, table: _TableDocuments) -> None:
        block = concat_blocks(table.blocks)
        placing = [name for name in table.target.placing if name not in table.key]
        if placing and table.key:
            block = self._looked_for(table, block)
        found = images(block, [*table.key, *placing]) if table.key else every_insert(block, self._keyless)
        for index, number in enumerate((found.inserts, found.updates, found.deletes)):
            table.counts[index] += number
        for reason, number in found.counts.items():
            table.left_out[f"{reason} {block.table}"] = table.left_out.get(f"{reason} {block.table}", 0) + number
        if found.rows.num_rows:
            ids = self._ids(table, found)
            deleted = found.delete.astype(np.bool_)
            texts = lines(found.rows, found.schema, ids, deleted, table.target)
            if table.target.sharding[0]:
                table.shards |= set(shard_suffixes(found.rows, table.target).unique().to_pylist())
            positions = position_texts(found.sequence, found.position_text) if self._with_positions else None
            for part in (
                (deleted, ~deleted) if table.target.placing and deleted.any() else (np.ones(len(deleted), np.bool_),)
            ):
                if part.any():
                    some = texts if part.all() else texts.filter(pa.array(part))
                    part_positions = None if positions is None else positions.filter(pa.array(part)).to_pylist()
                    table.flushes.append(self._write_bodies(some, part_positions))
        self._bytes -= table.bytes
        table.blocks.clear()
        table.rows = table.bytes = 0

    def _looked_for(self, table: _TableDocuments, block: ChangeBlock) -> ChangeBlock:
        """Write a lookup of the documents whose place is unknown, and return the changes that remain to be written."""
        lookups, remaining = looked_for(block, table.key, table.target)
        if lookups is not None:
            before, after = (np.bincount(each.kinds.to_numpy(), minlength=4) for each in (block, remaining))
            for index, kind in enumerate((RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE)):
                table.counts[index] += int(before[kind] - after[kind])
            table.lookups.append(len(table.flushes))
            table.flushes.append(self._write_bodies(lookups, None))
        return remaining

    def _ids(self, table: _TableDocuments, found: LastImages) -> pa.Array:
        if table.key:
            return document_ids(found.rows, table.key)
        first = table.numbered
        table.numbered += found.rows.num_rows
        return pa.array([f"{self._unique}-{number}" for number in range(first, table.numbered)], pa.string())

    def _write_bodies(self, texts: pa.Array, positions: list[str] | None) -> list[list[int]]:
        """Write the bodies of a flush, and return where each is in the file."""
        found, first = [], 0
        for body, count in split_bodies(texts, self._body_bytes, self._connections):
            start = self._file.tell()
            self._file.write(body)
            found.append([start, len(body), count])
            if positions is not None:
                self._file.write("\n".join(positions[first : first + count]).encode())
                found[-1].append(self._file.tell() - start - len(body))
            first += count
        return found


@dataclass(frozen=True, slots=True)
class BulkBodies:
    """One flush: bodies whose documents are all different.

    Attributes:
        positions: for each body, a line per document with its log position; empty where those are not kept.
        lookup: whether the bodies are lines of `lookup` instead of requests.
    """

    bodies: list[bytes]
    positions: list[bytes]
    lookup: bool = False


def write_bodies(
    staging: StagingFolder, task: TaskAttempt, blocks: Iterator[ChangeBlock], make_writer: Callable[[Any], BodyWriter]
) -> list[Prepared]:
    """Write the blocks of a task into a file; without rows there is none.

    Handles are JSON: `{"file": "12/0-3.ndjson", "flushes": [[[offset, bytes, documents], ...], ...], "version": n}`;
    a body that is followed by positions has their number of bytes as a fourth number. `lookups` are the numbers of
    flushes that are lookups: documents to find and delete before the next flush is sent. `shards` are the suffixes of
    the shards (indexes) that the documents go into.
    """
    writer, name = staging.write(task, "ndjson", blocks, make_writer)
    return [
        Prepared(
            table,
            task.partition,
            {"file": name, "flushes": documents.flushes, "version": documents.target.version}
            | ({"lookups": documents.lookups} if documents.lookups else {})
            | ({"shards": sorted(documents.shards)} if documents.shards else {}),
            inserts=documents.counts[0],
            updates=documents.counts[1],
            deletes=documents.counts[2],
            counts=documents.left_out,
        )
        for table, documents in writer.tables.items()
    ]


def read_flushes(staging: StagingFolder, prepared: Prepared) -> Iterator[BulkBodies]:
    """Read the flushes in order. Raises SinkError when the file is missing or incomplete."""
    path = staging.path(prepared.handle["file"])
    try:
        with path.open("rb") as file:
            lookups = prepared.handle.get("lookups", ())
            for number, flush in enumerate(prepared.handle["flushes"]):
                bodies = [_read(file, offset, length) for offset, length, *_ in flush]
                ends = [(offset + length, sum(more)) for offset, length, _, *more in flush]
                yield BulkBodies(bodies, [_read(file, end, length) for end, length in ends], number in lookups)
    except OSError as error:
        hint = "the decided batch cannot be sent; restore the state directory from a backup"
        raise SinkError(f"staged documents cannot be read: {error}", where=str(path), hint=hint) from error


def _read(file: Any, offset: int, length: int) -> bytes:
    file.seek(offset)
    body = bytes(file.read(length))
    if len(body) != length:
        raise OSError(f"the file ends inside of the body at byte {offset}")
    return body


def split_bodies(texts: pa.Array, most: int, connections: int) -> Iterator[tuple[bytes, int]]:
    """Split the texts into bodies of about equal size, at most `most` bytes, each with its number of rows."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data, size = memoryview(texts.buffers()[2]), int(offsets[-1] - offsets[0])
    needed = -(-size // most)
    full_rounds = -(-needed // connections) * connections
    number = max(needed, min(full_rounds, size // _LEAST_BODY_BYTES))
    most = min(most, (size // number) + (size // len(texts)) + 1)
    first = 0
    while first < len(texts):
        last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        last = min(max(last, first + 1), len(texts))
        yield bytes(data[int(offsets[first]) : int(offsets[last])]), last - first
        first = last


def tables_in_order(prepared: Sequence[Prepared]) -> list[list[Prepared]]:
    """The handles of each table, in the order of the log."""
    found: dict[TableId, list[Prepared]] = {}
    for handle in prepared:
        found.setdefault(handle.table, []).append(handle)
    return [sorted(handles, key=lambda handle: handle.partition) for handles in found.values()]
