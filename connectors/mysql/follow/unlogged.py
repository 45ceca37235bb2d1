"""Definitions that a server has changed without a word in its log: `SET sql_log_bin=0`, the filter of a replica.

With `binlog_row_metadata=MINIMAL` rows carry no names, so two columns of one type that have changed places would be
taken for one another. So the definitions that are followed are compared with the server's at each start, and those of
one table whenever its rows come under another table id with no statement in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cdc.schema import TableId
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.follow.log_end import End
from connectors.mysql.follow.startup import changed_between
from connectors.mysql.follow.streams import Streams
from connectors.mysql.schema.table import MySqlTable, difference
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.information_schema import read_tables, table_reader
from connectors.mysql.server.positions import LogPosition, list_logs
from connectors.mysql.server.server_info import end_of_log, server_info

CONFIRM_S = 2.0
"""What differs is looked at again after so long: a statement may be carried out a moment before it is in the log."""

_FEW = 20
"""So many tables are asked for one by one."""

_NEAR_BYTES = 64 << 20
"""From further behind the server's present says nothing of the log's."""


class Unlogged:
    """Compares definitions over sessions of its own. Stream reader process; any thread, one at a time."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def __call__(
        self, known: Mapping[TableId, MySqlTable], at: LogPosition
    ) -> Mapping[TableId, MySqlTable | None] | None:
        """Of the definitions that hold at a position, those that the server has otherwise though its log does not say
        so behind the position: what it has instead, None for a table that is gone.

        None when the position is too far behind to tell, or the run is to stop. Raises SourceError.
        """
        differing = self._differing(known, at)
        if not differing:
            return differing
        if not self._streams.retry.wait(CONFIRM_S):
            return None
        again = self._differing({table: known[table] for table in differing}, at)
        if again is None:
            return None
        return {table: now for table, now in again.items() if differing[table] == now}

    def _differing(
        self, known: Mapping[TableId, MySqlTable], at: LogPosition
    ) -> dict[TableId, MySqlTable | None] | None:
        connection = self._streams.session()
        try:
            found = _read(connection, known)
            file, position, _ = end_of_log(connection)
            end = LogPosition(file, position)
            if End(end, files=list_logs(connection)).bytes_behind(at) > _NEAR_BYTES:
                return None
            differing = {table: found.get(table) for table, was in known.items() if difference(was, found.get(table))}
            if not differing:
                return {}
            info = server_info(connection)
        finally:
            connection.close()
        names, open_stream = info.lower_case_table_names, partial(self._streams.at, server=info.identity)
        told = changed_between(open_stream, at, end, differing.__contains__, differing, Dialect.of(info.version), names)
        return {table: now for table, now in differing.items() if table not in told}


def _read(connection: MySqlConnection, known: Mapping[TableId, MySqlTable]) -> dict[TableId, MySqlTable]:
    """The server's definitions. Where it writes a name in another case it is asked for that table alone."""
    found = {} if len(known) <= _FEW else read_tables(connection, known.__contains__)
    missing = [table for table in known if table not in found]
    one = table_reader(connection)
    alone = ((table, one(table)) for table in missing)
    return {**found, **{table: definition for table, definition in alone if definition is not None}}
