"""The `mysql` source: the binary log of a running MySQL or MariaDB server, planned by headers, read by tasks.

Spark unpickles the source in half a dozen processes, most of which only pass it on: what loads compiled kernels is
imported where it is used.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc.block import ChangeBlock
from cdc.errors import SourceError
from cdc.schema import SchemaChange, TableId, TableSchema
from cdc.source import Context, Count, Lag, Limits, Offset, Report, Source, Split
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schemas import Schemas, Tracker, shown_schema
from connectors.mysql.segment import LogRange, Segment, end_offset, position_of, splits_of
from connectors.mysql.server.connection import ConnectionOptions, MySqlConnection, connect
from connectors.mysql.server.information_schema import read_tables, table_ids
from connectors.mysql.server.positions import LogPosition, check_file_position
from connectors.mysql.server.server_check import announce_reader, check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import ServerInfo, server_info

if TYPE_CHECKING:
    from connectors.mysql.follower import Follower
    from connectors.mysql.log.stream import BinlogStream

AHEAD = 4
"""Batches that the follower may read ahead."""

_FIRST_RANDOM_ID = 1 << 31


class MySqlSource(Source):
    """Offsets: {"file", "position", "gtids", "schemas", "server"}.

    `gtids` is the GTID set at that position (null when the start gave none), `schemas` the number of entries of the
    schema history that hold there, `server` the server's uuid (empty on MariaDB).
    """

    def __init__(self, options: MySqlSourceOptions, context: Context) -> None:
        self._options, self._context = options, context
        self._connection = ConnectionOptions.of(options)
        self._wanted = options.pattern.matches
        self._follower: Follower | None = None
        self._until: LogPosition | None = None
        self._planned: tuple[Offset, list[Segment]] | None = None
        self._tracker: Tracker | None = None
        self._known: Schemas | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_follower": None, "_planned": None, "_tracker": None, "_known": None}

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables as the server has them now. Raises SourceError when it cannot be captured from."""
        connection = connect(self._connection)
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

        start = start_of(self._options, lambda: connect(self._connection), self._open_stream, self._open_after)
        self._schemas().begin(start.known, self._wanted, start.position, Dialect.of(start.info.version))
        return {
            "file": start.position.file,
            "position": start.position.position,
            "gtids": start.gtids,
            "schemas": 0,
            "server": start.info.server_uuid,
        }

    def latest_offset(self, start: Offset, limits: Limits | None, wait_s: float) -> Offset:
        """As the contract says. A batch at the very start may hold nothing but the creation of the sink's tables."""
        if start["schemas"] == 0 and (first := self._schemas().first_entries()):
            return {**start, "schemas": first}
        if self._follower is None:
            self._follower = self._follow(start, limits)
        batch = self._follower.take(limits, wait_s)
        if not batch:
            return start
        end = end_offset(start, batch)
        self._planned = (end, batch)
        return end

    def stop_at_current(self) -> None:
        """Remember the server's current end of log; `latest_offset` goes no further."""
        connection = connect(self._connection)
        try:
            info = server_info(connection)
        finally:
            connection.close()
        self._until = LogPosition(info.file, info.position)

    def splits(self, start: Offset, end: Offset, parallelism: int) -> Sequence[Split]:
        """Cut at transaction ends when the batch is big and was planned by this process; else one split."""
        planned = self._planned[1] if self._planned is not None and self._planned[0] == end else None
        return splits_of(planned, start, end, parallelism)

    def schema_changes(self, start: Offset, end: Offset) -> Sequence[SchemaChange]:
        """The history's entries between the two offsets."""
        return self._schemas().changes(start["schemas"], end["schemas"])

    def read(self, split: Split, count: Count, report: Report) -> Iterator[ChangeBlock]:
        """Decode one range of the log over a connection of its own."""
        from connectors.mysql.log.log_range import read_range

        part: LogRange = split.payload
        rows = self._schemas().decoder(part.schemas, self._wanted, count)
        for chunk in read_range(part, lambda at: self._open_stream(at, False, reader=1 + split.index)):
            yield from rows.decode(chunk)

    def lag(self) -> Lag | None:
        """Bytes read ahead, and what the follower is waiting for or has met."""
        if self._follower is None:
            return None
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
        follower = Follower(self._open_stream, planner, ahead_bytes=ahead, until=self._until)
        follower.start()
        return follower

    def _resume(self, start: Offset) -> tuple[LogPosition, ServerInfo]:
        """The offset's position, checked to be in the log of the same server still, and the server."""
        position = position_of(start)
        connection = connect(self._connection)
        try:
            info = check_server(connection)
            if start["server"] != info.server_uuid:
                raise SourceError(
                    f"{self._connection.where} is not the server this pipeline has read so far "
                    f"({start['server']}, now {info.server_uuid}), and positions differ from server to server",
                    hint="point the pipeline at the old server, or start anew with an empty --state-dir",
                )
            check_file_position(connection, info, position)
        finally:
            connection.close()
        return position, info

    def _open_stream(self, at: LogPosition, until_end: bool, *, reader: int = 0) -> BinlogStream:
        """Reader 0 is the follower, tasks are 1 and up; each needs a replica id of its own."""
        from connectors.mysql.log.stream import BinlogStream

        server_id, at_end = self._server_id(reader), until_end
        return BinlogStream(
            self._announced(), server_id=server_id, file=at.file, position=at.position, until_end=at_end
        )

    def _open_after(self, done: str) -> BinlogStream:
        """The log behind a GTID set, to its end."""
        from connectors.mysql.log.stream import BinlogStream

        return BinlogStream(self._announced(), server_id=self._server_id(0), gtid_set=done, until_end=True)

    def _announced(self) -> MySqlConnection:
        connection = connect(self._connection)
        announce_reader(connection, str(uuid.uuid4()))
        return connection

    def _server_id(self, reader: int) -> int:
        """From the option as far as it goes, else random in the upper half, where two hardly ever meet."""
        ids = self._options.server_ids
        if ids is None or reader >= len(ids):
            return random.randrange(_FIRST_RANDOM_ID, 2 * _FIRST_RANDOM_ID - 1)
        return ids[reader]
