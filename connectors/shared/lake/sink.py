"""The common part of lake sinks: executors write data files, the driver commits a snapshot per table and batch."""

from __future__ import annotations

import logging
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from cdc.block import ChangeBlock
from cdc.errors import LoadsLost, SinkError
from cdc.evolution.table_sink import TableSink
from cdc.schema import SchemaChange, TableId
from cdc.sink import Delivery, KeylessRows, Prepared, TaskAttempt
from cdc.source import Context
from connectors.shared.lake.options import LakeSinkOptions
from connectors.shared.lake.two_phase import prepare
from connectors.shared.last_image.last_image import KeylessChanges
from connectors.shared.sending.sender import BlockLoader

log = logging.getLogger(__name__)

_LACKING = "lacking.json"
"""The tables that were found to lack batches, and the last one that they have had.

`{"batch": 7, "tables": [["shop", "orders", 6]]}`. They are refused in later runs too, as long as batch 7 is committed
again: a later batch follows once they are re-snapshotted.
"""


@dataclass
class UpkeepTurns:
    """Schedules compaction by counting commits of each table. Driver.

    Args:
        every: number of commits between two compactions of a table.
    """

    every: int
    _commits: dict[TableId, int] = field(default_factory=dict)

    def after_commit(self, committed: Sequence[TableId], work: Callable[[TableId], str]) -> None:
        """Run `work` for the tables that are due. A SinkError is logged and retried next time.

        `work` returns a description of what it did, or an empty string.
        """
        for table in committed:
            # Tables begin at different counts, so that not all are due at the same commit.
            start = zlib.crc32(str(table).encode()) % self.every
            self._commits[table] = count = self._commits.get(table, start) + 1
            if count % self.every:
                continue
            try:
                done = work(table)
                if done:
                    log.info("%s: %s", table, done)
            except SinkError as error:
                log.warning("%s is not compacted now: %s", table, error)


class BatchCommits(Protocol):
    """Commits batches."""

    @property
    def newest(self) -> dict[TableId, int]:
        """The last batch that this process has committed to each table."""

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit every table's handles; may repeat."""


class LakeUpkeep(Protocol):
    """Merges the files of tables and expires old snapshots."""

    def maintain(self, table: TableId, /) -> str:
        """Merge files where there are too many; returns a description. Raises SinkError."""

    def compact(self, table: TableId, /) -> str:
        """Merge everything that can be merged; returns a description. Raises SinkError."""


class LakeSink(TableSink[str]):
    """Writes tables of one catalog. Picklable; the catalog is opened on first use."""

    delivery: ClassVar[Delivery] = Delivery.TWO_PHASE
    keyless: ClassVar[KeylessRows] = KeylessRows.INSERTS

    def __init__(
        self, options: LakeSinkOptions, context: Context, commits: BatchCommits, upkeep: LakeUpkeep, *, flush_bytes: int
    ) -> None:
        super().__init__(context)
        self._commits, self._upkeep, self._knows_lacking = commits, upkeep, False
        self._turns = UpkeepTurns(options.compact_files) if options.compaction == "own" else None
        self._threads, self._flush_bytes = options.threads, flush_bytes
        self._keyless = KeylessChanges(options.keyless)

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply schema changes, after which a table may be another one of the same name. Driver."""
        self._commits.newest.clear()
        super().apply(batch, changes)

    @abstractmethod
    def _loader(self, task: TaskAttempt) -> BlockLoader:
        """Return the writer of a task's data files."""

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        """Write the rows to data files that no snapshot refers to yet. Executor."""
        return prepare(task, blocks, self._loader(task), flush_bytes=self._flush_bytes, threads=self._threads)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        """Commit one snapshot per table. Driver."""
        if not self._knows_lacking:
            self._commits.newest.update(self._lacking(batch))
            self._knows_lacking = True
        try:
            self._commits.commit(batch, prepared)
        except LoadsLost as lost:
            self._note_lacking(batch, lost)
            raise
        if self._turns is not None:
            tables = list(dict.fromkeys(handle.table for handle in prepared))
            self._turns.after_commit(tables, self._upkeep.maintain)

    def _note_lacking(self, batch: int, lost: LoadsLost) -> None:
        """Note the tables that lack batches. The commit goes on without them once they are re-snapshotted."""
        newest = self._commits.newest
        lacking = [(table, newest.pop(table)) for table in list(newest) if str(table) in lost.uncertain]
        noted = [[table.database, table.table, number] for table, number in lacking]
        self._store.write_json(_LACKING, {"batch": batch, "tables": noted})

    def _lacking(self, batch: int) -> dict[TableId, int]:
        """The tables that an earlier commit of this batch has found to lack batches."""
        noted = self._store.read_json(_LACKING, hint="remove it, and run `cdc resync` on the tables of this sink") or {}
        if noted.get("batch") != batch:
            return {}
        return {TableId(database, table): number for database, table, number in noted["tables"]}

    def compact(self, table: TableId) -> str:
        """Merge the files of a table and expire old snapshots; returns a description. Driver."""
        return self._upkeep.compact(table)
