"""Current rows of captured tables, read independently of a pipeline, for `cdc verify`.

No view is opened and nothing is merged with the log: the reader compares rows that may have changed again later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.schema import TableId, TableSchema
from cdc.source import Count, Offset
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import shown_schema
from connectors.mysql.server.gtid_range import lacking
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.positions import log_end
from connectors.mysql.server.server_check import check_select
from connectors.mysql.server.server_info import server_info
from connectors.mysql.table import MySqlTable
from connectors.mysql.verify.current_rows import CurrentRows
from connectors.mysql.verify.last_mention import LastMention


class CurrentServerTables:
    """A server's tables as `cdc.source.CurrentTables`.

    `options` compare names as the server does; `copied` are the tables that were or are copied, whatever the options
    say now.
    """

    def __init__(self, options: MySqlSourceOptions, streams: Streams, copied: Collection[TableId]) -> None:
        self._options, self._streams, self._copied = options, streams, copied
        self._known: dict[TableId, MySqlTable] = {}
        self._named: LastMention | None = None
        self._rows = CurrentRows(options, streams.session)

    def tables(self) -> Mapping[TableId, TableSchema]:
        """Return the captured tables, as `MySqlSource.tables`."""
        side = self._rows.sessions.side
        self._known = read_tables(side, self._options.pattern.matches)
        check_select(side, self._known)
        self._named = LastMention(self._streams, self._known, self._rows.sessions.info.dialect)
        return {table: shown_schema(definition, self._options) for table, definition in self._known.items()}

    def partial(self, table: TableId) -> str:
        """Return why only a part of the table is copied, or an empty string."""
        if self._options.snapshot_filter(table) is not None:
            return "scan.snapshot.filters leaves rows out of its copy, and not out of its log"
        whole = self._options.startup_mode == "earliest-offset" or self._options.in_first_snapshot(table)
        if not whole and table not in self._copied:
            return "its rows of before the start of the pipeline were not copied (scan.startup.mode)"
        return ""

    def keys(self, table: TableId) -> tuple[str, ...]:
        """Return the primary key if all of it can be written as SQL, else nothing."""
        return self._rows.keys(self._known[table])

    def rows(self, table: TableId, keys: pa.RecordBatch | None, count: Count) -> Iterator[ChangeBlock]:
        """Read with one SELECT per part of the table, or per thousand keys."""
        return self._rows.read(self._known[table], keys, count)

    def end(self) -> Offset:
        """Return the end of the log, and the transactions in it."""
        info = server_info(self._rows.sessions.side)
        return MySqlOffset(log_end(info), info.executed, server=info.identity).to_json()

    def covers(self, committed: Offset, end: Offset, tables: Sequence[TableId]) -> bool:
        """Compare by position on one server, by transactions on another; else examine the log between the two."""
        done, wanted = MySqlOffset.from_json(committed), MySqlOffset.from_json(end)
        if done.server != wanted.server:
            mariadb = self._rows.sessions.info.mariadb
            return done.gtids is not None and not lacking(done.gtids, wanted.gtids or "", mariadb=mariadb)
        named = self._named or LastMention(self._streams, tables, self._rows.sessions.info.dialect)
        return named.caught_up(done.position, wanted.position, tables)

    def close(self) -> None:
        """Close the sessions."""
        self._rows.close()
