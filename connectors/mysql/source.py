"""The `mysql` source: the binary log of a running MySQL or MariaDB server, planned by headers, read by tasks.

Spark unpickles the source in half a dozen processes, most of which only pass it on: what loads compiled kernels is
imported where it is used.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cdc.block import ChangeBlock
from cdc.errors import SourceUnavailable
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.source import Context, Count, Lag, Limits, Offset, Report, Source, Split
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schemas import Schemas, Tracker, shown_schema
from connectors.mysql.segment import LogRange, Segment, end_offset, position_of, splits_of
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.positions import LogPosition, check_file_position
from connectors.mysql.server.same_server import AnotherServer, check_not_reset, check_same
from connectors.mysql.server.server_check import check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import ServerInfo, server_info
from connectors.mysql.streams import Streams

if TYPE_CHECKING:
    from connectors.mysql.follower import Follower

AHEAD = 4
"""Batches that the follower may read ahead."""

CATCH_UP_S = 60.0
"""How long a server that took over may lack transactions before the run stops; a bounded run does not wait."""


class MySqlSource(Source):
    """Offsets: {"file", "position", "gtids", "schemas", "server"} and, once the server has changed, "files_ahead".

    `gtids` is the GTID set at that position (null when the start gave none), `schemas` the number of entries of the
    schema history that hold there, `server` whose position it is (`ServerInfo.identity`). `files_ahead` is added to
    the numbers of the server's files where they order changes, so that they go on growing.
    """

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._wanted = options.pattern.matches
        self._follower: Follower | None = None
        self._streams = Streams(options)
        self._until: tuple[LogPosition, str] | None = None
        self._planned: tuple[Offset, list[Segment]] | None = None
        self._tracker: Tracker | None = None
        self._known: Schemas | None = None
        self._behind_since: float | None = None
        self._note = ""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_follower": None, "_planned": None, "_tracker": None, "_known": None}

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as the server has them now. Raises SourceError when it cannot be captured from."""
        connection = self._streams.session()
        try:
            check_server(connection)
            found = read_tables(connection, self._wanted)
            if not found:
                raise explain_no_tables(table_ids(connection), self._options.tables, connection)
            check_select(connection, found)
        finally:
            connection.close()
        return {table: shown_schema(definition, self._options) for table, definition in found.items()}

    def initial_offset(self) -> Offset:
        """Where `scan.startup.mode` says; writes the definitions of the captured tables to the schema history."""
        from connectors.mysql.startup import start_of

        start = start_of(self._options, self._streams.session, self._streams.at, self._streams.after)
        self._schemas().begin(start.known, self._wanted, start.position, Dialect.of(start.info.version))
        return {
            "file": start.position.file,
            "position": start.position.position,
            "gtids": start.gtids,
            "schemas": 0,
            "server": start.info.identity,
        }

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """As the contract says. A batch at the very start may hold nothing but the creation of the sink's tables."""
        if start["schemas"] == 0 and (first := self._schemas().first_entries()):
            return {**start, "schemas": first}
        try:
            if self._follower is None:
                self._follower = self._follow(start, limits)
            batch = self._follower.take(limits, wait_s)
        except AnotherServer:
            return self._move(start)
        if not batch:
            return start
        end = end_offset(start, batch)
        self._planned = (end, batch)
        return end

    def stop_at_current(self) -> None:
        """Remember the server's current end of log; `latest_offset` goes no further."""
        connection = self._streams.session()
        try:
            info = server_info(connection)
        finally:
            connection.close()
        self._until = LogPosition(info.file, info.position), info.identity

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Cut at transaction ends when the batch is big and was planned by this process; else one split."""
        planned = self._planned[1] if self._planned is not None and self._planned[0] == end else None
        return splits_of(planned, start, end, parallelism)

    def schema_changes(self, start: Offset, end: Offset) -> Sequence[SchemaChange]:
        """The history's entries between the two offsets."""
        return self._schemas().changes(start["schemas"], end["schemas"])

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range of the log over a connection of its own."""
        from connectors.mysql.log.moved_range import read_anywhere

        part: LogRange = split.payload
        rows = self._schemas().decoder(part.schemas, self._wanted, count)
        reader = 1 + split.index
        by_position = partial(self._streams.at, reader=reader, server=part.server)
        for chunk in read_anywhere(part, by_position, partial(self._streams.holding, reader=reader)):
            yield from rows.decode(chunk)

    def lag(self) -> Lag | None:
        """Bytes read ahead, and what the follower is waiting for or has met."""
        if self._follower is None:
            return Lag(0, self._note) if self._note else None
        notices = self._tracker.notices[-3:] if self._tracker is not None else []
        return Lag(self._follower.waiting_bytes, "; ".join(filter(None, [self._follower.note, *notices])))

    def stop(self) -> None:
        """End the follower thread."""
        if self._follower is not None:
            self._follower.stop()

    def warm(self) -> None:
        """Load the decoder's kernels; on a machine's first run this compiles them."""
        from connectors.mysql.rows.warm import warm_kernels

        warm_kernels()

    def _schemas(self) -> Schemas:
        """Kept, so that the history file is read on and not anew; the follower's thread has one of its own."""
        if self._known is None:
            self._known = Schemas(self._context.directory, self._options)
        return self._known

    def _follow(self, start: Offset, limits: Limits | None) -> Follower:
        from connectors.mysql.follower import Follower
        from connectors.mysql.planner import Planner

        position, info = self._resume(start)
        self._tracker = Schemas(self._context.directory, self._options).tracker(
            start["schemas"], self._wanted, Dialect.of(info.version), info.lower_case_table_names
        )
        planner = Planner(self._tracker, self._wanted, file=position.file, position=position.position, limits=limits)
        ahead = AHEAD * limits.max_bytes if limits is not None else 1 << 30
        if self._until is not None and self._until[1] != info.identity:
            self.stop_at_current()
        until = None if self._until is None else self._until[0]
        open_stream = partial(self._streams.at, server=info.identity)
        follower = Follower(open_stream, planner, ahead_bytes=ahead, until=until)
        follower.start()
        return follower

    def _move(self, start: Offset) -> Offset:
        """Another server is there: the same place in its log, as a batch of its own. What was planned beyond `start`
        is planned again there. `start` itself while that server still lacks transactions."""
        from connectors.mysql.failover import moved

        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        try:
            end = moved(start, self._streams, self._wanted)
        except (SourceUnavailable, AnotherServer) as error:
            self._behind_since = self._behind_since or time.monotonic()
            if self._until is not None or time.monotonic() - self._behind_since > CATCH_UP_S:
                raise
            self._note = f"waiting for the server: {error.message}"
            return start
        self._behind_since, self._note = None, ""
        return end

    def _resume(self, start: Offset) -> tuple[LogPosition, ServerInfo]:
        """The offset's position, checked to be in the log of the same server still, and the server."""
        position = position_of(start)
        connection = self._streams.session()
        try:
            info = check_server(connection)
            check_same(connection, start["server"])
            check_file_position(connection, info, position)
            check_not_reset(connection, info, start["gtids"])
        finally:
            connection.close()
        return position, info
