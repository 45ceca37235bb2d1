"""The blocks of merged sink tables, in the order of the source's log. Executor.

A source hands out blocks table by table: in log order inside a table, but not from one to the other. Where several
tables go to one sink table, rows of the same key must still get there in log order. So the blocks of such a sink table
are held until there are many, put in order, and handed on as a few large ones, which also is what a sink does best.

Not everything held is handed on: blocks still to come may be from before its end. A source goes through its log in
pieces of some megabytes (`REORDERED_BYTES`), so what is kept back is larger than such a piece.
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
"""Metadata of rows by name and sequences, as `ChangeBlock.metadata`."""

REORDERED_BYTES = 64 << 20
"""So many bytes of rows, at most, may come from blocks of different tables before they are in order."""

_MOST_WAITING = 4 * REORDERED_BYTES
_BLOCK_ROWS = 65_536


@dataclass
class _Waiting:
    blocks: list[ChangeBlock] = field(default_factory=list)
    bytes: int = 0


def gather(blocks: Iterator[ChangeBlock], merged: frozenset[TableId]) -> Iterator[ChangeBlock]:
    """The blocks, those of `merged` sink tables in log order over all of their source tables."""
    waiting: dict[TableId, _Waiting] = {}
    total = 0
    for block in blocks:
        if block.table not in merged:
            yield block
            continue
        own = waiting.setdefault(block.table, _Waiting())
        size = int(block.rows.nbytes)
        own.blocks.append(block)
        own.bytes += size
        total += size
        if total > _MOST_WAITING:
            largest = max(waiting.values(), key=lambda item: item.bytes)
            yield from _release_first(largest)
            total = sum(item.bytes for item in waiting.values())
    for own in waiting.values():
        yield from _split_block(_in_order(own.blocks))


def _release_first(waiting: _Waiting) -> Iterator[ChangeBlock]:
    """The first rows, as many as can go; the others stay."""
    whole = _in_order(waiting.blocks)
    kept = min(len(whole), int(len(whole) * REORDERED_BYTES / max(1, waiting.bytes)) + 1)
    end = _whole_update(whole, len(whole) - kept)
    yield from _split_block(_part(whole, 0, end))
    rest = _part(whole, end, len(whole) - end)
    waiting.blocks, waiting.bytes = [rest], waiting.bytes * len(rest) // max(1, len(whole))


def _in_order(blocks: list[ChangeBlock]) -> ChangeBlock:
    """One block of all, its rows by sequence and row; all are of one schema but for the source's own types."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    rows = pa.Table.from_batches([block.rows for block in blocks]).combine_chunks()
    sequence = np.concatenate([block.sequence.to_numpy() for block in blocks])
    number = np.concatenate([block.row.to_numpy() for block in blocks])
    kinds = np.concatenate([block.kinds.to_numpy() for block in blocks])
    times = np.concatenate([block.timestamps_ms.to_numpy() for block in blocks])
    batch = rows.to_batches()[0] if rows.num_rows else first.rows
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
    """The schema, with the source's own type of a column where all have the same one."""
    columns = zip(*(schema.columns for schema in schemas), strict=True)
    kept = (
        same[0] if len({column.source_type for column in same}) == 1 else replace(same[0], source_type="")
        for same in columns
    )
    return replace(schemas[0], columns=tuple(kept))


def _split_block(block: ChangeBlock) -> Iterator[ChangeBlock]:
    """The block in parts of a bounded number of rows."""
    start = 0
    while start < len(block):
        end = _whole_update(block, min(start + _BLOCK_ROWS, len(block)))
        yield _part(block, start, end - start)
        start = end


def _whole_update(block: ChangeBlock, end: int) -> int:
    """The end, or the row after it, so that an update's two images stay together."""
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
    """One that asks each block's own for that block's rows; None when none has any.

    Pieces of a log follow each other: the sequences of blocks with different ones do not mix.
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
        place = np.searchsorted([end for _, end in pieces], sequence.to_numpy())
        parts, order = [], []
        for number, (own, _) in enumerate(pieces):
            chosen = np.flatnonzero(place == number)
            if len(chosen):
                part = sequence.take(pa.array(chosen))
                parts.append(pa.nulls(len(chosen)) if own is None else own(name, part))
                order.append(chosen)
        found = pa.concat_arrays(_cast_to_one_type(parts))
        back = np.empty(len(sequence), np.int64)
        back[np.concatenate(order)] = np.arange(len(sequence))
        return found.take(pa.array(back))

    return read


def _cast_to_one_type(parts: list[pa.Array]) -> list[pa.Array]:
    """The parts in one type: NULLs without one take that of the others."""
    kinds = [part.type for part in parts if not pa.types.is_null(part.type)]
    return [part.cast(kinds[0]) if kinds else part for part in parts]
