"""Definitions of tables as the server has them now, where a statement of the log is not understood."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from cdc.errors import UnsupportedChange
from cdc.schema import TableId
from connectors.mysql.follow.redefined import changed_between
from connectors.mysql.follow.streams import Streams
from connectors.mysql.server.information_schema import read_tables
from connectors.mysql.server.positions import LogPosition, log_end
from connectors.mysql.server.server_check import check_server
from connectors.mysql.table import MySqlTable


class Reread:
    """Asks the server over sessions of its own. For the thread that follows the log."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def __call__(self, tables: Collection[TableId], at: LogPosition) -> Mapping[TableId, MySqlTable]:
        """The existing ones of the tables, with definitions that hold from `at` on.

        Raises UnsupportedChange when a later statement of the log changes one of them, SourceError.
        """
        with self._streams.session() as connection:
            found = read_tables(connection, tables.__contains__)
            info = check_server(connection)
        open_stream = partial(self._streams.at, server=info.identity)
        later = changed_between(open_stream, at, log_end(info), tables.__contains__, tables, info)
        if later:
            listed = ", ".join(sorted(map(str, later)))
            raise UnsupportedChange(
                "a statement that changes it is not understood, and the log changes it once more behind that: nothing "
                "tells what it was in between",
                where=f"{listed} at {at}",
                hint="leave it out with tables.exclude until the log is read to its end, then take it in again: it is "
                "copied then; or start over after this position",
            )
        return found
