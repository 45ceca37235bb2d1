"""Reads table definitions from the server if its log lacks them.

Either a statement is not understood (`Reread`) or it was not logged (`Unlogged`: `SET sql_log_bin=0`, the filter of a
replica).

With `binlog_row_metadata=MINIMAL` rows carry no names, so two columns of one type that changed places would be mistaken
for each other. The tracked definitions are therefore compared with the server's at each start, and those of one table
whenever its rows come with another table id without a statement in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from cdc.schema import TableId
from connectors.mysql.follow.log_end import ServerLogEnd
from connectors.mysql.follow.redefined import changed_between
from connectors.mysql.follow.streams import Streams
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import FEW, read_listed, read_tables
from connectors.mysql.server.positions import LogPosition, list_logs, log_end
from connectors.mysql.server.server_check import check_server
from connectors.mysql.server.server_info import end_of_log, server_info
from connectors.mysql.table import MySqlTable, difference

CONFIRM_S = 2.0
"""Delay before a difference is checked again: a statement may take effect a moment before it is in the log."""

_NEAR_BYTES = 64 << 20
"""Distance from the end of the log beyond which the server's current tables say nothing about those of the log."""


_LIKE_ONE = 20
"""Number of tables that cost as much to query together as one alone: mostly the session."""


class Reread:
    """Queries the server over its own sessions. For the thread that follows the log."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def __call__(self, tables: Collection[TableId], at: LogPosition) -> Mapping[TableId, MySqlTable | None]:
        """Return the existing ones of the tables, with definitions that hold from `at` on.

        None stands for a table that a later statement of the log redefines. Raises SourceError.
        """
        with self._streams.session() as connection:
            found = read_tables(connection, tables.__contains__)
            info = check_server(connection)
        open_stream = partial(self._streams.at, server=info.identity)
        later = changed_between(open_stream, at, log_end(info), tables.__contains__, tables, info)
        return found | dict.fromkeys(later)


class Unlogged:
    """Compares definitions over its own sessions. Stream reader process; any thread, one at a time.

    A result holds for all rows up to the end of the log at that time. So a server that lacks room to keep its tables
    open, and renumbers them constantly, is not queried each time; nor is one whose log is far ahead.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._end: ServerLogEnd | None = None
        self._settled: dict[TableId, tuple[MySqlTable, LogPosition]] = {}
        self._lookups, self._most_lookups = 0, FEW

    def __call__(
        self, known: Mapping[TableId, MySqlTable], at: LogPosition, others: Callable[[], Mapping[TableId, MySqlTable]]
    ) -> Mapping[TableId, MySqlTable | None] | None:
        """Return definitions that differ on the server without a logged statement after the position.

        None stands for a deleted table. Now and then `others` are compared as well, to avoid separate queries for them.
        Returns None when the position is too far behind to tell, or the run is stopping. Raises SourceError.
        """
        unsettled = {table: was for table, was in known.items() if not self._is_settled(table, was, at)}
        if not unsettled:
            return {}
        differing = self._differing(unsettled, at, others)
        if not differing:
            return differing
        if not self._streams.retry.wait(CONFIRM_S):
            return None
        again = self._differing({table: known[table] for table in differing}, at, dict)
        if again is None:
            return None
        return {table: now for table, now in again.items() if differing[table] == now}

    def _is_settled(self, table: TableId, was: MySqlTable, at: LogPosition) -> bool:
        before, end = self._settled.get(table, (None, at))
        return before == was and at < end

    def _is_far(self, at: LogPosition) -> bool:
        return self._end is not None and self._end.bytes_behind(at) > _NEAR_BYTES

    def _differing(
        self, known: Mapping[TableId, MySqlTable], at: LogPosition, others: Callable[[], Mapping[TableId, MySqlTable]]
    ) -> dict[TableId, MySqlTable | None] | None:
        if self._is_far(at):  # by the last known end of the log, which only grows
            return None
        with self._streams.session() as connection:
            before = _end_of(connection)
            self._end = ServerLogEnd(before, files=list_logs(connection))
            if self._is_far(at):
                return None
            extra = self._others_when_cheap(others)
            found = read_listed(connection, known, extra)
            same = {t: was for t, was in {**extra, **known}.items() if not difference(was, found.get(t))}
            self._settled.update({table: (was, before) for table, was in same.items()})
            differing = {table: found.get(table) for table in known if table not in same}
            if not differing:
                return {}
            end, info = _end_of(connection), server_info(connection)
        open_stream = partial(self._streams.at, server=info.identity)
        logged = changed_between(open_stream, at, end, differing.__contains__, differing, info)
        self._settled.update({table: (known[table], before) for table in logged & known.keys()})
        return {table: now for table, now in differing.items() if table not in logged}

    def _others_when_cheap(self, others: Callable[[], Mapping[TableId, MySqlTable]]) -> Mapping[TableId, MySqlTable]:
        """Return the others, once querying them all costs no more than the single queries since the last time."""
        self._lookups += 1
        if self._lookups <= self._most_lookups:
            return {}
        found = others()
        self._most_lookups = max(FEW, len(found) // _LIKE_ONE)
        if self._lookups <= self._most_lookups:
            return {}
        self._lookups = 0
        return found


def _end_of(connection: MySqlConnection) -> LogPosition:
    file, position, _ = end_of_log(connection)
    return LogPosition(file, position)
