"""Rows of captured tables as they are now, read beside a pipeline, for `cdc verify`.

No view is opened and nothing is merged with the log: whoever reads compares later again what may have changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pymysql

from cdc.block import ChangeBlock
from cdc.errors import SourceError
from cdc.schema import TableId, TableSchema
from cdc.source import Count, Offset
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import shown_schema
from connectors.mysql.server.gtid_range import lacking
from connectors.mysql.server.information_schema import estimated_size, read_tables
from connectors.mysql.server.positions import log_end
from connectors.mysql.server.server_check import check_select
from connectors.mysql.server.server_info import server_info
from connectors.mysql.snapshot.chunk import Chunk
from connectors.mysql.snapshot.plan.bounds import condition
from connectors.mysql.snapshot.plan.key_columns import KeyColumns, key_columns
from connectors.mysql.snapshot.plan.split_points import ChunkSize, parts
from connectors.mysql.snapshot.read.by_key import can_look_up, with_keys
from connectors.mysql.snapshot.read.quiet import LastNamed
from connectors.mysql.snapshot.read.result_columns import RowReader, Stamp
from connectors.mysql.snapshot.read.result_plan import select_from
from connectors.mysql.snapshot.read.result_stream import DefinitionChanged, ResultStream
from connectors.mysql.snapshot.read.session import ChunkSessions
from connectors.mysql.snapshot.read.throttle import Throttle
from connectors.mysql.table import MySqlTable

_LOCK_WAIT_S = 10
_PART_ROWS = 500_000
"""Rows of one SELECT: a longer one would keep the server from forgetting old versions of rows."""
_KEYS_AT_ONCE = 1000


class ServerNow:
    """A server's tables as `cdc.source.TablesNow`. `options` compare names as the server does."""

    def __init__(self, options: MySqlSourceOptions, streams: Streams) -> None:
        self._options, self._streams = options, streams
        self._sessions: ChunkSessions | None = None
        self._known: dict[TableId, MySqlTable] = {}
        self._named: LastNamed | None = None
        self._split: dict[TableId, KeyColumns] = {}
        self._throttle = Throttle(options.rows_per_second)

    def tables(self) -> Mapping[TableId, TableSchema]:
        """The captured tables, as `MySqlSource.tables`."""
        side = self._open().side
        self._known = read_tables(side, self._options.pattern.matches)
        check_select(side, self._known)
        self._named = LastNamed(self._streams, self._known, self._open().info.dialect)
        return {table: shown_schema(definition, self._options) for table, definition in self._known.items()}

    def partial(self, table: TableId) -> str:
        """Where only a part is copied, or nothing."""
        if self._options.snapshot_filter(table) is not None:
            return "scan.snapshot.filters leaves rows out of its copy, and not out of its log"
        if self._options.startup_mode != "earliest-offset" and not self._options.copied_at_first(table):
            return "its rows of before the start of the pipeline were not copied (scan.startup.mode)"
        return ""

    def keys(self, table: TableId) -> tuple[str, ...]:
        """The primary key, where all of it can be written as SQL."""
        definition, split = self._known[table], self._split_by(table)
        whole = split.columns == definition.primary_key and can_look_up(definition)
        return definition.primary_key if whole else ()

    def rows(self, table: TableId, keys: pa.RecordBatch | None, count: Count) -> Iterator[ChangeBlock]:
        """One SELECT for each part of the table, or for each thousand keys."""
        for where in self._parts(table) if keys is None else self._looked_up(table, keys):
            yield from self._select(table, where, count)

    def _parts(self, table: TableId) -> Iterator[str]:
        side, definition, options = self._open().side, self._known[table], self._options
        size = ChunkSize(_PART_ROWS, options.chunk_factor_low, options.chunk_factor_high)
        rows, _ = estimated_size(side, table)
        for part in parts(side, definition, self._split_by(table), size, rows, None):
            chunk = Chunk(0, table, part.columns, part.lower, part.upper, {}, part.collations, part.last)
            yield condition(chunk, definition)[0].replace("%%", "%")

    def _looked_up(self, table: TableId, keys: pa.RecordBatch) -> Iterator[str]:
        for start in range(0, keys.num_rows, _KEYS_AT_ONCE):
            yield with_keys(self._known[table], self._split_by(table).collations, keys.slice(start, _KEYS_AT_ONCE))

    def _select(self, table: TableId, where: str, count: Count) -> Iterator[ChangeBlock]:
        sessions, definition = self._open(), self._known[table]
        select = select_from(definition, where, versions=sessions.check_engine(table))
        try:
            stream = ResultStream(sessions.reader, select, str(table))
            stamp, rules = Stamp(0, 0, int(time.time() * 1000)), self._options.value_rules
            reader = RowReader(definition, stream.columns, stamp, count, rules, where=str(table))
            for block in reader.blocks(stream):
                yield block
                self._throttle.acquire(len(block))
        except DefinitionChanged as error:
            hint = "run it again when the schema change is through"
            raise SourceError(
                f"the table was changed while it was read: {error}", where=str(table), hint=hint
            ) from None

    def end(self) -> Offset:
        """The end of the log, and the transactions that are in it."""
        info = server_info(self._open().side)
        return MySqlOffset(log_end(info), info.executed, server=info.identity).to_json()

    def covers(self, committed: Offset, end: Offset, tables: Sequence[TableId]) -> bool:
        """By position on one server, by transactions on another; else the log between the two is looked at."""
        done, wanted = MySqlOffset.from_json(committed), MySqlOffset.from_json(end)
        if done.server != wanted.server:
            mariadb = self._open().info.mariadb
            return done.gtids is not None and not lacking(done.gtids, wanted.gtids or "", mariadb=mariadb)
        named = self._named or LastNamed(self._streams, tables, self._open().info.dialect)
        return named.caught_up(done.position, wanted.position, tables)

    def close(self) -> None:
        """Close the sessions."""
        if self._sessions is not None:
            with suppress(pymysql.err.MySQLError, OSError):
                self._sessions.close()
            self._sessions = None

    def _open(self) -> ChunkSessions:
        if self._sessions is None:
            self._sessions = ChunkSessions(self._streams.session, _LOCK_WAIT_S)
        return self._sessions

    def _split_by(self, table: TableId) -> KeyColumns:
        if table not in self._split:
            chosen = self._options.chunk_key_column(table)
            self._split[table] = key_columns(self._open().side, self._known[table], chosen)
        return self._split[table]
