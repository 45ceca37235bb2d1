"""Assigns chunks to tasks, in groups, next to the ranges of the log. Stream reader process and driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.events import SourceEvent
from cdc.schema import TableId
from cdc.source import Split
from cdc.state.store import Store
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.segment import LogRange
from connectors.mysql.snapshot.chunk import Chunk, LogLost
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan
from connectors.mysql.snapshot.plan.events import batch_events
from connectors.mysql.snapshot_options import SnapshotOptions


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """Chunks that one task reads, one after the other.

    Attributes:
        chunks: their numbers in the plan.
        schemas: number of schema history entries that apply.
        server: the server they were planned on.
        least: sequence of the batch's end; no chunk is read at an earlier position.
        files_ahead: as in the offset.
        rows_per_second: for this task; None without limit.
    """

    chunks: tuple[int, ...]
    schemas: int
    server: str
    least: int
    files_ahead: int = 0
    rows_per_second: int | None = None

    def widened(self, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the reports as if all chunks read had been read at `least`; no attempt reads them earlier."""
        return [self._at_least(report) if report.get("chunk", {}).get("done") else report for report in reports]

    def _at_least(self, report: dict[str, Any]) -> dict[str, Any]:
        return {**report, "chunk": {**report["chunk"], "sequence": self.least}}


@dataclass(frozen=True, slots=True)
class FilteredRange:
    """A range of the log with tables that are being snapshotted.

    Attributes:
        before: chunks with a number below this were decided before the batch.
        upto: number of plan entries at the end of the batch.
    """

    part: LogRange
    before: int
    upto: int


@dataclass(slots=True)
class _Group:
    rows: int = 0
    chunks: list[Chunk] = field(default_factory=list)


class SnapshotSplits:
    """Derives the splits and events of a batch from the plan."""

    def __init__(self, options: SnapshotOptions, store: Store) -> None:
        self._options, self._plan = options, ChunkPlan(store)

    def events(self, logged: Sequence[SourceEvent], start: MySqlOffset, end: MySqlOffset) -> Sequence[SourceEvent]:
        """Return the events of a batch: those of its log, and those of the snapshots that end and begin in it."""
        entries = self._plan.entries(start.chunks, end.chunks)
        return batch_events(logged, self._plan.snapshots(start.chunks), entries)

    def splits(self, start: MySqlOffset, end: MySqlOffset, log: Sequence[Split], parallelism: int) -> list[Split]:
        """Return the splits of a batch: those of the log, filtered for running snapshots, then groups of chunks."""
        before, upto = start.chunks, end.chunks
        entries = self._plan.entries(before, upto)
        if any(isinstance(entry, LogLost) for entry in entries):
            log = ()
        if self._plan.snapshots(upto):
            log = [replace(split, payload=FilteredRange(split.payload, before, upto)) for split in log]
        current = {
            number for snapshot in self._plan.snapshots(upto).values() for number in snapshot.planned_since(before)
        }
        chunks = [entry for entry in entries if isinstance(entry, Chunk) and entry.number in current]
        reads = self._reads(chunks, end, parallelism)
        return [*log, *(Split(len(log) + index, read) for index, read in enumerate(reads))]

    def _reads(self, chunks: Sequence[Chunk], end: MySqlOffset, parallelism: int) -> list[ChunkRead]:
        groups = self._groups(chunks, min(parallelism, self._options.max_connections or parallelism))
        rate = self._options.rows_per_second
        share = None if rate is None else max(1, rate // max(1, len(groups)))
        return [
            ChunkRead(
                tuple(chunk.number for chunk in group.chunks),
                end.schemas,
                end.server,
                end.sequence,
                end.files_ahead,
                share,
            )
            for group in groups
        ]

    def _groups(self, chunks: Sequence[Chunk], most: int) -> list[_Group]:
        """Distribute chunks to up to `most` groups of similar numbers of rows, respecting the limit per table."""
        groups = [_Group() for _ in range(most)]
        per_table = self._options.max_connections_per_table or most
        used: dict[TableId, list[_Group]] = {}
        for chunk in sorted(chunks, key=lambda chunk: -chunk.rows):
            own = used.setdefault(chunk.table, [])
            group = min(own if len(own) >= per_table else groups, key=lambda group: (group.rows, len(group.chunks)))
            if not any(group is other for other in own):
                own.append(group)
            group.rows += chunk.rows
            group.chunks.append(chunk)
        for group in groups:
            group.chunks.sort(key=lambda chunk: chunk.number)
        return [group for group in groups if group.chunks]
