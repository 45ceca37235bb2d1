"""Puts the blocks of merged sink tables into the order of the source's log. Executor.

A source yields blocks per table: they are in log order within a table, but not across tables. Where several source
tables are routed to one sink table, rows of one key must still arrive in log order. So the blocks of such a sink table
are buffered, sorted, and yielded as a few large blocks, which also suits sinks best.

The end of the buffer is always held back, as later blocks may have earlier rows. A source reads its log in pieces of a
few megabytes (at most `REORDERED_BYTES`), and more than one piece is held back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind
from cdc.schema import TableId, TableSchema

Metadata = Callable[[str, pa.Array], pa.Array]
"""Returns metadata of rows by name and sequence numbers, as `ChangeBlock.metadata`."""

REORDERED_BYTES = 64 << 20
"""The most bytes of rows within which the blocks of different tables may be out of order."""

_MOST_WAITING = 4 * REORDERED_BYTES
_BLOCK_ROWS = 65_536


@dataclass
class _Waiting:
    blocks: list[ChangeBlock] = field(default_factory=list)
    bytes: int = 0


def gather(blocks: Iterator[ChangeBlock], merged: frozenset[TableId]) -> Iterator[ChangeBlock]:
    """Yield the blocks; those of `merged` sink tables in log order across their source tables."""
    waiting: dict[TableId, _Waiting] = {}
    total = 0
    for block in blocks:
        if block.table not in merged:
            yield block
            continue
        pending = waiting.setdefault(block.table, _Waiting())
        size = int(block.rows.nbytes)
        pending.blocks.append(block)
        pending.bytes += size
        total += size
        if total > _MOST_WAITING:
            largest = max(waiting.values(), key=lambda item: item.bytes)
            yield from _release_first(largest)
            total = sum(item.bytes for item in waiting.values())
    for pending in waiting.values():
        yield from _split_block(_in_order(pending.blocks))


def _release_first(waiting: _Waiting) -> Iterator[ChangeBlock]:
    """Yield the first rows that are safely in order, and keep the others waiting."""
    ordered = _in_order(waiting.blocks)
    released = min(len(ordered), int(len(ordered) * REORDERED_BYTES / max(1, waiting.bytes)) + 1)
    end = _whole_update(ordered, len(ordered) - released)
    yield from _split_block(_part(ordered, 0, end))
    remaining = _part(ordered, end, len(ordered) - end)
    waiting.blocks, waiting.bytes = [remaining], waiting.bytes * len(remaining) // max(1, len(ordered))


def _in_order(blocks: list[ChangeBlock]) -> ChangeBlock:
    """Merge blocks into one, sorted by sequence and row. Their schemas differ in the source's native types at most."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    batch = pa.concat_batches([block.rows for block in blocks])
    sequence = np.concatenate([block.sequence.to_numpy() for block in blocks])
    number = np.concatenate([block.row.to_numpy() for block in blocks])
    kinds = np.concatenate([block.kinds.to_numpy() for block in blocks])
    times = np.concatenate([block.timestamps_ms.to_numpy() for block in blocks])
    if bool(np.all(sequence[1:] > sequence[:-1])):
        order: Any = None
    else:
        order = np.lexsort((number, sequence))
        batch = batch.take(pa.array(order))
        sequence, number, kinds, times = sequence[order], number[order], kinds[order], times[order]
    metadata = merged_metadata(blocks)
    schema = _common([block.schema for block in blocks])
    return replace(
        first, schema=schema, metadata=metadata, rows=batch, kinds=pa.array(kinds), sequence=pa.array(sequence),
        row=pa.array(number), timestamps_ms=pa.array(times),
    )  # fmt: skip


def _common(schemas: list[TableSchema]) -> TableSchema:
    """The common schema; a column has a native type of the source if it is the same in all."""
    columns = zip(*(schema.columns for schema in schemas), strict=True)
    common = (
        same[0] if len({column.source_type for column in same}) == 1 else replace(same[0], source_type="")
        for same in columns
    )
    return replace(schemas[0], columns=tuple(common))


def _split_block(block: ChangeBlock) -> Iterator[ChangeBlock]:
    """Yield the block in parts of a bounded number of rows."""
    start = 0
    while start < len(block):
        end = _whole_update(block, min(start + _BLOCK_ROWS, len(block)))
        yield _part(block, start, end - start)
        start = end


def _whole_update(block: ChangeBlock, end: int) -> int:
    """The end, or one row more, so that before and after image of an update stay together."""
    return end + (0 < end < len(block) and block.kinds[end - 1].as_py() == RowKind.UPDATE_BEFORE)


def _part(block: ChangeBlock, start: int, count: int) -> ChangeBlock:
    if count == len(block):
        return block
    return replace(
        block, rows=block.rows.slice(start, count), kinds=block.kinds.slice(start, count),
        sequence=block.sequence.slice(start, count), row=block.row.slice(start, count),
        timestamps_ms=block.timestamps_ms.slice(start, count),
    )  # fmt: skip


def merged_metadata(blocks: Sequence[ChangeBlock]) -> Metadata | None:
    """A function that reads each row's metadata from the block that the row is from; None if no block has metadata.

    Blocks with different metadata functions are from different pieces of the log, so their sequences do not overlap.
    """
    ends: dict[Metadata | None, int] = {}
    for block in blocks:
        if len(block):
            last = int(np.asarray(block.sequence.to_numpy()).max())
            ends[block.metadata] = max(last, ends.get(block.metadata, last))
    pieces = sorted(ends.items(), key=lambda item: item[1])
    if len(pieces) < 2:
        return blocks[0].metadata if not pieces else pieces[0][0]
    if all(read is None for read, _ in pieces):
        return None

    def read(name: str, sequence: pa.Array) -> pa.Array:
        piece = np.searchsorted([end for _, end in pieces], sequence.to_numpy())
        parts, order = [], []
        for number, (positions, _) in enumerate(pieces):
            chosen = np.flatnonzero(piece == number)
            if len(chosen):
                part = sequence.take(pa.array(chosen))
                parts.append(pa.nulls(len(chosen)) if positions is None else positions(name, part))
                order.append(chosen)
        found = pa.concat_arrays(_cast_to_one_type(parts))
        back = np.empty(len(sequence), np.int64)
        back[np.concatenate(order)] = np.arange(len(sequence))
        return found.take(pa.array(back))

    return read


def _cast_to_one_type(parts: list[pa.Array]) -> list[pa.Array]:
    """Cast the parts to one type: parts of type null take the type of the others."""
    kinds = [part.type for part in parts if not pa.types.is_null(part.type)]
    return [part.cast(kinds[0]) if kinds else part for part in parts]
