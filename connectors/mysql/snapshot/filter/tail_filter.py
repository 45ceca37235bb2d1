"""Skips log rows that chunks hold already, or will hold. Executor, applied to blocks from the decoder.

For a row image with key k at position p: if k is in a chunk that was read at position h, the image is skipped when p <=
h. If k is in a part of the table that is not read yet, the image is skipped, as the part will be read at a position
after p. The before and after images of an update are judged separately, so one of them may remain: a delete or an
insert. Skipped images stay in the stream LOG, because the sink's rows from before the snapshot need every change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, Stream
from cdc.schema import TableId
from connectors.mysql.snapshot.chunk import Bound, Watermark
from connectors.mysql.snapshot.filter.membership import Ask, Membership
from connectors.mysql.snapshot.plan.bounds import split_columns
from connectors.mysql.snapshot.plan.table_snapshots import TableSnapshot
from connectors.mysql.table import MySqlTable

_LOG, _SNAPSHOT_LOG = frozenset({Stream.LOG}), frozenset({Stream.SNAPSHOT_LOG})


@dataclass(frozen=True, slots=True)
class Regions:
    """Consecutive parts of a table.

    `bounds` lie between them (one fewer than parts); `highs` are, for each part, the sequence up to which log rows are
    skipped.
    """

    bounds: tuple[Bound, ...]
    highs: tuple[int, ...]


def regions(copy: TableSnapshot, before: int, marks: Mapping[int, Watermark], start: int) -> Regions:
    """Return the regions of a copy for the log after `start` (a sequence); merges equal neighbours. Pure."""
    uppers = [chunk.upper for chunk in copy.chunks]
    highs = [high if high > start else 0 for high in copy.highs(before, marks)]
    bounds: list[Bound] = []
    kept = highs[:1]
    for upper, high in zip(uppers, highs[1:], strict=False):
        if high != kept[-1] and upper is not None:
            bounds.append(upper)
            kept.append(high)
    return Regions(tuple(bounds), tuple(kept))


class TailFilter:
    """Filters the blocks of one range of the log.

    Args:
        copies: the tables being copied in this batch.
        before: chunks with a number below this were decided before the batch.
        marks: their watermarks.
        start: sequence at which the range begins.
        tables: definitions in the range.
        ask: queries the server, for keys of text.
    """

    def __init__(
        self,
        copies: Mapping[TableId, TableSnapshot],
        before: int,
        marks: Mapping[int, Watermark],
        start: int,
        tables: Mapping[TableId, MySqlTable],
        ask: Ask,
    ) -> None:
        self._copies, self._before, self._marks, self._start = copies, before, marks, start
        self._tables, self._ask = tables, ask
        self._known: dict[TableId, _TableFilter | None] = {}

    def blocks(self, blocks: Iterator[ChangeBlock]) -> Iterator[ChangeBlock]:
        """Yield the blocks with their streams. A block that is partly skipped is yielded once per stream."""
        for block in blocks:
            found = self._filter(block.table)
            wanted = None if found is None else found.images_kept(block)
            if wanted is None or wanted.all():
                yield block
                continue
            yield replace(block, streams=_LOG)
            if wanted.any():
                yield replace(_keep_images(block, wanted), streams=_SNAPSHOT_LOG)

    def uncertain(self, end: int) -> list[TableId]:
        """Return tables with a chunk read inside the range, which ends at the sequence `end`.

        If the range was read on another server than the chunk, it is unknown which changes of the range the chunk
        holds.
        """
        return sorted(
            table
            for table, copy in self._copies.items()
            if any(self._start < high < end for high in copy.highs(self._before, self._marks))
        )

    def _filter(self, table: TableId) -> _TableFilter | None:
        if table not in self._known:
            copy = self._copies.get(table)
            self._known[table] = None if copy is None else self._make(copy, self._tables[table])
        return self._known[table]

    def _make(self, copy: TableSnapshot, table: MySqlTable) -> _TableFilter | None:
        found = regions(copy, self._before, self._marks, self._start)
        if found.highs == (0,):
            return None
        return _TableFilter(copy, table, found, self._ask)


class _TableFilter:
    def __init__(self, copy: TableSnapshot, table: MySqlTable, found: Regions, ask: Ask) -> None:
        first = copy.chunks[0] if copy.chunks else None
        self._names = first.columns if first is not None else ()
        self._highs = np.array(found.highs, np.int64)
        columns = split_columns(self._names, table)
        self._places = Membership(columns, first.collations if first is not None else (), found.bounds, ask)
        self._least, self._most = int(self._highs.min()), int(self._highs.max())

    def images_kept(self, block: ChangeBlock) -> Any:
        """Return bool[n]: the images to keep."""
        sequence = block.sequence.to_numpy(zero_copy_only=False)
        if len(self._highs) == 1:
            return sequence > self._most
        wanted = sequence > self._least
        open_ = np.flatnonzero(wanted & (sequence <= self._most))
        if len(open_):
            keys = pa.RecordBatch.from_arrays([block.rows.column(name) for name in self._names], names=self._names)
            places = self._places(keys.take(pa.array(open_)))
            wanted[open_] = sequence[open_] > self._highs[places]
        return wanted


def _keep_images(block: ChangeBlock, wanted: Any) -> ChangeBlock:
    """Keep the wanted images; single halves of updates become deletes and inserts."""
    kinds = block.kinds.to_numpy(zero_copy_only=False).copy()
    behind = np.append(wanted[1:], False)
    ahead = np.append(False, wanted[:-1])
    kinds[(kinds == RowKind.UPDATE_BEFORE) & ~behind] = RowKind.DELETE
    kinds[(kinds == RowKind.UPDATE_AFTER) & ~ahead] = RowKind.INSERT
    return replace(block, kinds=pa.array(kinds, pa.uint8())).filter(wanted)
