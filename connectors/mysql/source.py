"""The `mysql` source: a running MySQL or MariaDB server, its tables copied in chunks while its binary log is followed.

Spark unpickles the source in half a dozen processes, most of which only pass it on: what loads compiled kernels is
imported where it is used.
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
    Lag,
    Limits,
    Offset,
    Order,
    Report,
    Snapshots,
    Source,
    Split,
    TableProgress,
    TablesNow,
)
from connectors.mysql.batch_planner import BatchPlanner
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.sequences import sequence_text
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import Parts

if TYPE_CHECKING:
    from connectors.mysql.split_reader import SplitReader


class MySqlSource(Source):
    """Reads a server's tables and its log. Offsets are those of `MySqlOffset`."""

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self.bounded = options.startup_mode == "snapshot"
        # not where the log is read from an earlier place, where tables may have had other names
        self.lists_all_tables = options.startup_mode in ("initial", "snapshot", "latest-offset")
        self._forget()

    def _forget(self) -> None:
        """Drop what belongs to one process."""
        self._parts = Parts(self._options, self._context)
        self._planner = BatchPlanner(self._parts)

    def __getstate__(self) -> dict[str, Any]:
        names = ("_options", "_context", "bounded", "lists_all_tables")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as the server has them now. Warns of changes to them that its log will not hold.

        Raises SourceError when it cannot be captured from.
        """
        from connectors.mysql.captured_tables import captured_tables

        with self._parts.streams.session() as connection:
            return captured_tables(connection, self._parts.options)

    def initial_offset(self) -> Offset:
        """Where `scan.startup.mode` says; writes the definitions of the captured tables to the schema history."""
        return self._planner.begin().to_json()

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """The end of the next batch, as the contract says. The first batch may hold only creations of sink tables."""
        at = MySqlOffset.from_json(start)
        end = self._planner.next(at, limits, wait_s)
        return start if end == at else end.to_json()

    def stop_at_current(self) -> None:
        """Remember the server's current end of log; `latest_offset` goes no further."""
        self._planner.stop_at_current()

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Parts of the log, then chunks."""
        return self._planner.splits(MySqlOffset.from_json(start), MySqlOffset.from_json(end), parallelism)

    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """The history's entries between the two offsets, and the snapshots that end and begin there."""
        return self._planner.events(MySqlOffset.from_json(start), MySqlOffset.from_json(end))

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range of the log, or copy chunks, over connections of its own."""
        return self._reader().read(split, count, report)

    def _reader(self) -> SplitReader:
        from connectors.mysql.split_reader import SplitReader

        return SplitReader(self._parts)

    def position_text(self, sequence: int) -> str:
        """Number of the log file and position in it."""
        return sequence_text(sequence)

    def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:
        """Keep the positions at which chunks were read."""
        self._parts.driver.store_reports(reports)

    def widened(self, split: Split, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Chunks as if they had been read at the end of the batch: no attempt reads them before that."""
        return self._parts.driver.widened(split, reports)

    def progress(self) -> Sequence[TableProgress]:
        """How far the copying of tables is."""
        return self._parts.driver.progress()

    def commit(self, end: Offset) -> None:
        """Requests up to there are done with, and tables that newly match are in."""
        self._planner.commit(MySqlOffset.from_json(end))

    def lag(self) -> Lag | None:
        """Bytes read ahead, and what the log's reader and the planner of chunks have met."""
        return self._parts.lag()

    def captures(self, table: TableId) -> bool:
        """Whether its name is among those that the options say."""
        return self._parts.captures(table)

    def snapshots(self, table: TableId) -> Snapshots:
        """Whenever it is needed, unless the options let nothing be copied that nobody asked for."""
        if not self._parts.captures(table):
            return Snapshots.NEVER
        return Snapshots.ALWAYS if self._options.copies_uncertain(table) else Snapshots.ON_REQUEST

    def order(self, orders: Mapping[TableId, Order]) -> None:
        """Snapshots that begin with the next batch."""
        self._parts.coordinator.order(orders)
        self._parts.tail.ordered = frozenset(orders)

    def tables_now(self) -> TablesNow:
        """Reads the captured tables beside the pipeline."""
        from connectors.mysql.snapshot.read.now import ServerNow

        return ServerNow(self._parts.options, self._parts.streams, [each.table for each in self.progress()])

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Settings, privileges, retention, tables. Opens a session."""
        from connectors.mysql.examine import examine

        at = None if committed is None else MySqlOffset.from_json(committed)
        return examine(self._parts.streams.session, lambda: self._parts.options, at)

    def start_at(self, position: str) -> tuple[Offset, str]:
        """The initial offset of a pipeline that goes on where another tool is, with its schema history written."""
        from connectors.mysql.import_start import start_at

        return start_at(position, self._options, self._context)

    def reach(self) -> None:
        """Log in to the server. Executor."""
        self._parts.streams.session(patient=False).close()

    def stop(self) -> None:
        """End the threads; also while `latest_offset` waits in another."""
        self._planner.stop()

    def warm(self) -> None:
        """Load the decoder's kernels; on a machine's first run this compiles them."""
        self._reader().warm()
