"""The `mysql` source: a running MySQL or MariaDB server, its tables copied in chunks while its binary log is followed.

Spark unpickles the source in half a dozen processes, most of which only pass it on: what loads compiled kernels is
imported where it is used.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cdc.block import ChangeBlock
from cdc.errors import PositionLost
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
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.log.sequences import sequence_text
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.parts import Parts
from connectors.mysql.schema.schemas import of_captured, shown_schema
from connectors.mysql.server.engines import no_view, without_transactions
from connectors.mysql.server.foreign_keys import describe_cascades
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.not_logged import describe_filter
from connectors.mysql.server.server_check import check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import where_of
from connectors.mysql.snapshot.plan.payloads import dump_payloads, load_payload
from connectors.mysql.snapshot.plan.splits import ChunkRead

if TYPE_CHECKING:
    from connectors.mysql.split_reader import SplitReader

log = logging.getLogger(__name__)


class MySqlSource(Source):
    """Reads a server's tables and its log. Offsets are those of `MySqlOffset`."""

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._streams = Streams(options, context.stopping)
        self.bounded = options.startup_mode == "snapshot"
        # not where the log is read from an earlier place, where tables may have had other names
        self.lists_all_tables = options.startup_mode in ("initial", "snapshot", "latest-offset")
        self._forget()

    def _forget(self) -> None:
        """Drop what belongs to one process."""
        store = self._context.store
        self._parts = Parts(self._options, store, self._streams, self._context.siblings)
        self._planner = BatchPlanner(self._options, store, self._streams, self._parts)

    def __getstate__(self) -> dict[str, Any]:
        names = ("_options", "_context", "_streams", "bounded", "lists_all_tables")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as the server has them now. Warns of changes to them that its log will not hold.

        Raises SourceError when it cannot be captured from.
        """
        with self._streams.session() as connection:
            info = check_server(connection, self._parts.captures)
            # MariaDB does not show a table while it takes its new definition: one look more.
            found = read_tables(connection, self._parts.captures) or read_tables(connection, self._parts.captures)
            if not found:
                raise explain_no_tables(table_ids(connection), self._parts.options.pattern, connection)
            check_select(connection, found)
            copied = [table for table in found if self._options.copied_at_first(table)]
            if engines := without_transactions(connection, copied):  # one that was made since is followed all the same
                log.warning("%s", no_view(engines, where_of(connection)))
            if filtered := describe_filter(info):
                log.warning("%s", filtered)
            for notice in describe_cascades(connection, info, found.keys(), copied=self._options.cascades == "copy"):
                if self._options.cascades != "ignore":
                    log.warning("%s", notice)
        return {table: shown_schema(definition, self._options) for table, definition in found.items()}

    def initial_offset(self) -> Offset:
        """Where `scan.startup.mode` says; writes the definitions of the captured tables to the schema history."""
        from connectors.mysql.follow.startup import start_of

        start = start_of(self._parts.options, self._streams)
        self._parts.schemas.begin(start.known, self._parts.captures, start.position, start.info.dialect)
        self._parts.coordinator.begin(table.id for table in start.known.tables)
        self._parts.pattern.remember()
        return MySqlOffset(start.position, start.gtids, server=start.info.identity).to_json()

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
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        log_parts = self._parts.tail.splits(begin, stop, parallelism)
        return dump_payloads(self._parts.splits.splits(begin, stop, log_parts, parallelism))

    def events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        """The history's entries between the two offsets, and the snapshots that end and begin there."""
        begin, stop = MySqlOffset.from_json(start), MySqlOffset.from_json(end)
        logged = self._parts.schemas.events(begin.schemas, stop.schemas)
        return of_captured(self._parts.splits.events(logged, begin, stop), self._parts.captures)

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range of the log, or copy chunks, over connections of its own."""
        return self._reader().read(load_payload(split), count, report)

    def _reader(self) -> SplitReader:
        from connectors.mysql.split_reader import SplitReader

        return SplitReader(self._options, self._context, self._streams, self._parts)

    def position_text(self, sequence: int) -> str:
        """Number of the log file and position in it."""
        return sequence_text(sequence)

    def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:
        """Keep the positions at which chunks were read."""
        self._parts.driver.store_reports(reports)

    def widened(self, split: Split, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Chunks as if they had been read at the end of the batch: no attempt reads them before that."""
        payload = load_payload(split).payload
        return payload.widened(reports) if isinstance(payload, ChunkRead) else reports

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

        return ServerNow(self._parts.options, self._streams)

    def examine(self, committed: Offset | None) -> Iterator[Finding]:
        """Settings, privileges, retention, tables. Opens a session."""
        from connectors.mysql.examine import examine

        at = None if committed is None else MySqlOffset.from_json(committed)
        return examine(self._streams.session, lambda: self._parts.options, at)

    def start_at(self, position: str) -> tuple[Offset, str]:
        """The initial offset of a pipeline that goes on where another tool is, with its schema history written."""
        from connectors.mysql.follow.imported import import_position

        try:
            found = import_position(position, self._streams)
            options = self._options.model_copy(update=dict(found.options))
            begun = MySqlSource(options, self._context)
            offset = MySqlOffset.from_json(begun.initial_offset())
            notice = ""
            if found.inside is not None:
                from connectors.mysql.follow.delivered import behind_delivered

                offset, notice = behind_delivered(offset, found.inside, self._streams.at, begun.between)
        except PositionLost as error:
            hint = "run the pipeline without `cdc import`: with scan.startup.mode: initial it copies the tables first"
            raise PositionLost(error.message, where=error.where, hint=hint) from error
        return offset.to_json(), f"{found.tool}, at {offset.position}{notice}{found.notes}"

    def between(self, start: MySqlOffset, end: MySqlOffset) -> Iterator[ChangeBlock]:
        """Rows of the log between two offsets, before any batch, by the definitions that the log begins with."""
        from connectors.mysql.log.segment import splits_of

        first = self._parts.schemas.first_entries()
        for split in splits_of(None, start, replace(end, schemas=first), 1):
            yield from self._reader().read_log(
                split.payload, 0, lambda reason, number: None, lambda report: None, lambda: None
            )

    def reach(self) -> None:
        """Log in to the server. Executor."""
        self._streams.session(patient=False).close()

    def stop(self) -> None:
        """End the threads; also while `latest_offset` waits in another."""
        self._planner.stop()

    def warm(self) -> None:
        """Load the decoder's kernels; on a machine's first run this compiles them."""
        from connectors.mysql.rows.warm import warm_kernels
        from connectors.mysql.snapshot.read.warm import warm_snapshot_kernels

        warm_kernels()
        if self._options.startup_mode in ("initial", "snapshot"):
            warm_snapshot_kernels()
