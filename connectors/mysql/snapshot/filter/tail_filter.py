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
from cdc.source import Report
from cdc.state.store import Store
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.snapshot.chunk import Bound, Watermark
from connectors.mysql.snapshot.filter.membership import Ask, Membership
from connectors.mysql.snapshot.plan.bounds import split_columns
from connectors.mysql.snapshot.plan.chunk_plan import shared_plan, shared_watermarks
from connectors.mysql.snapshot.plan.requests import MOVED, short_name
from connectors.mysql.snapshot.plan.splits import FilteredRange
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


def regions(snapshot: TableSnapshot, before: int, marks: Mapping[int, Watermark], start: int) -> Regions:
    """Return the regions of a snapshot for the log after `start` (a sequence); merges equal neighbours. Pure."""
    uppers = [chunk.upper for chunk in snapshot.chunks]
    highs = [high if high > start else 0 for high in snapshot.highs(before, marks)]
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
        snapshots: the tables being snapshotted in this batch.
        before: chunks with a number below this were decided before the batch.
        marks: their watermarks.
        start: sequence at which the range begins.
        tables: definitions in the range.
        ask: queries the server, for keys of text.
    """

    def __init__(
        self,
        snapshots: Mapping[TableId, TableSnapshot],
        before: int,
        marks: Mapping[int, Watermark],
        start: int,
        tables: Mapping[TableId, MySqlTable],
        ask: Ask,
    ) -> None:
        self._snapshots, self._before, self._marks, self._start = snapshots, before, marks, start
        self._tables, self._ask = tables, ask
        self._known: dict[TableId, _TableFilter | None] = {}

    @classmethod
    def of(cls, wanted: FilteredRange, store: Store, tables: Mapping[TableId, MySqlTable], ask: Ask) -> TailFilter:
        """Create the filter for a range of the log; `tables` and `ask` as in the class."""
        start = wanted.part.start
        return cls(
            shared_plan(store).snapshots(wanted.upto),
            wanted.before,
            shared_watermarks(store).refresh(),
            sequence_of(start.file, start.position, wanted.part.files_ahead),
            tables,
            ask,
        )

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
            for table, snapshot in self._snapshots.items()
            if any(self._start < high < end for high in snapshot.highs(self._before, self._marks))
        )

    def _filter(self, table: TableId) -> _TableFilter | None:
        if table not in self._known:
            snapshot = self._snapshots.get(table)
            self._known[table] = None if snapshot is None else self._make(snapshot, self._tables[table])
        return self._known[table]

    def _make(self, snapshot: TableSnapshot, table: MySqlTable) -> _TableFilter | None:
        found = regions(snapshot, self._before, self._marks, self._start)
        if found.highs == (0,):
            return None
        return _TableFilter(snapshot, table, found, self._ask)


def report_uncertain(wanted: FilteredRange, kept: TailFilter, report: Report) -> None:
    """Report tables for re-snapshot whose rows are ambiguous because the range was read on another server.

    Positions of one server mean nothing on the other, so changes around the position of a chunk read inside the range
    would be lost or duplicated.
    """
    part = wanted.part
    for table in kept.uncertain(sequence_of(part.end.file, part.end.position, part.files_ahead)):
        report({"uncertain": [[table.database, table.table], f"{MOVED}{wanted.upto}-{short_name(table)}"]})


class _TableFilter:
    def __init__(self, snapshot: TableSnapshot, table: MySqlTable, found: Regions, ask: Ask) -> None:
        first = snapshot.chunks[0] if snapshot.chunks else None
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
