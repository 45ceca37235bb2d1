"""The `mysql` source: copies the tables of a MySQL or MariaDB server in chunks while it follows the binary log.

Spark unpickles the source in about six processes, and most of them only pass it on. Modules that load compiled kernels
are therefore imported where they are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc.block import ChangeBlock
from cdc.events import SourceEvent
from cdc.finding import Finding
from cdc.schema import TableId, TableSchema
from cdc.source import (
    Context,
    Count,
    CurrentTables,
    Lag,
    Limits,
    Offset,
    Order,
    Report,
    Snapshots,
    Source,
    Split,
    TableProgress,
)
from connectors.mysql.batch_planner import BatchPlanner
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.sequences import sequence_text
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import Parts

if TYPE_CHECKING:
    from connectors.mysql.split_reader import SplitReader


class MySqlSource(Source):
    """Reads the tables of a server and its log. Offsets are `MySqlOffset`s."""

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self.bounded = options.startup_mode == "snapshot"
        # the other modes read the log from an earlier position, where tables may have had other names
        self.lists_all_tables = options.startup_mode in ("initial", "snapshot", "latest-offset")
        self._forget()

    def _forget(self) -> None:
        """Drop the parts that belong to one process."""
        self._parts = Parts(self._options, self._context)
        self._planner = BatchPlanner(self._parts)

    def __getstate__(self) -> dict[str, Any]:
        names = ("_options", "_context", "bounded", "lists_all_tables")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def tables(self) -> Mapping[TableId, TableSchema]:
        """Return the captured tables as the server has them now. Warns of changes to them that its log will not hold.

        Raises SourceError when the server cannot be captured from.
        """
        from connectors.mysql.captured_tables import captured_tables

        with self._parts.streams.session() as connection:
            return captured_tables(connection, self._parts.options)

    def initial_offset(self) -> Offset:
        """Resolve `scan.startup.mode` to an offset; write the captured tables' definitions to the schema history."""
        return self._planner.begin().to_json()

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """Plan the end of the next batch. The first batch may hold nothing but the creation of sink tables."""
        at = MySqlOffset.from_json(start)
        end = self._planner.next(at, limits, wait_s)
        return start if end == at else end.to_json()

    def stop_at_current(self) -> None:
        """Remember the server's current end of log; `latest_offset` goes no further."""
        self._planner.stop_at_current()

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Return the splits of a batch: ranges of the log first, then chunks."""
        return self._planner.splits(MySqlOffset.from_json(start), MySqlOffset.from_json(end), parallelism)

    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """Schema history entries between the two offsets, and the snapshots that end and begin there."""
        return self._planner.events(MySqlOffset.from_json(start), MySqlOffset.from_json(end))

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range of the log, or copy chunks, over connections of its own."""
        return self._reader().read(split, count, report)

    def _reader(self) -> SplitReader:
        from connectors.mysql.split_reader import SplitReader

        return SplitReader(self._parts)

    def position_text(self, sequence: int) -> str:
        """Format a sequence number as log file number and position."""
        return sequence_text(sequence)

    def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:
        """Store the log positions at which chunks were read."""
        self._parts.driver.store_reports(reports)

    def widened(self, split: Split, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return reports that place the split's chunks at the end of the batch; no attempt reads them before it."""
        return self._parts.driver.widened(split, reports)

    def progress(self) -> Sequence[TableProgress]:
        """Snapshot progress of each table."""
        return self._parts.driver.progress()

    def commit(self, end: Offset) -> None:
        """Finish the snapshot requests up to `end`, and record newly matching tables as captured."""
        self._planner.commit(MySqlOffset.from_json(end))

    def lag(self) -> Lag | None:
        """Return bytes read ahead, and notices of the log reader and the chunk planner."""
        return self._parts.lag()

    def captures(self, table: TableId) -> bool:
        """Return whether the options capture a table of this name."""
        return self._parts.captures(table)

    def snapshots(self, table: TableId) -> Snapshots:
        """When the table may be re-snapshotted: always, only on request (by the options), or never (not captured)."""
        if not self._parts.captures(table):
            return Snapshots.NEVER
        return Snapshots.ALWAYS if self._options.copies_uncertain(table) else Snapshots.ON_REQUEST

    def order(self, orders: Mapping[TableId, Order]) -> None:
        """Order snapshots that begin with the next batch."""
        self._parts.coordinator.due.order(orders)
        self._parts.tail.ordered = frozenset(orders)

    def current_tables(self) -> CurrentTables:
        """Return a reader of the captured tables as they are now, independent of the pipeline."""
        from connectors.mysql.verify.current_tables import CurrentServerTables

        return CurrentServerTables(self._parts.options, self._parts.streams, [each.table for each in self.progress()])

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Check settings, privileges, retention and tables over a session of its own."""
        from connectors.mysql.examine import examine

        at = None if committed is None else MySqlOffset.from_json(committed)
        return examine(self._parts.streams.session, lambda: self._parts.options, at)

    def start_at(self, position: str) -> tuple[Offset, str]:
        """Return the initial offset of a pipeline that continues from another tool's position; write its history."""
        from connectors.mysql.import_start import start_at

        return start_at(position, self._options, self._context)

    def reach(self) -> None:
        """Log in to the server. Executor."""
        self._parts.streams.session(patient=False).close()

    def stop(self) -> None:
        """Stop the threads; callable while `latest_offset` waits in another thread."""
        self._planner.stop()

    def warm(self) -> None:
        """Load the decoder's kernels; the first run on a machine compiles them."""
        self._reader().warm()
