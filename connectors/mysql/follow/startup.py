"""Finds where a new pipeline starts and the table definitions at that position.

Stream reader process, once per pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc.errors import SourceError
from cdc.retry import Backoff
from cdc.schema import TableId
from connectors.mysql.follow.redefined import changed_between
from connectors.mysql.follow.start_position import find_start
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.position_search import gtids_at
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import StartingDefinitions
from connectors.mysql.server.connection_errors import is_gone
from connectors.mysql.server.engines import check_engines
from connectors.mysql.server.information_schema import (
    read_databases,
    read_listed,
    read_no_tables,
    read_tables,
    table_ids,
)
from connectors.mysql.server.positions import LogPosition, log_end
from connectors.mysql.server.server_check import check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import ServerInfo

if TYPE_CHECKING:
    from connectors.mysql.server.connection import MySqlConnection
    from connectors.mysql.table import MySqlTable


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a new pipeline.

    Attributes:
        position: start of the first transaction to deliver.
        gtids: the GTID set (MySQL) or position (MariaDB) committed there; None when the server uses none.
        known: definitions valid from there on: captured tables, the databases' character sets, names that are not
            tables.
        info: the server at that moment.
    """

    position: LogPosition
    gtids: str | None
    known: StartingDefinitions
    info: ServerInfo


def start_of(options: MySqlSourceOptions, streams: Streams) -> Start:
    """Find the start selected by `scan.startup.mode`.

    The definitions are those of `information_schema` now, without tables changed by a statement between the start and
    now: their definitions come from the log. The log may advance while they are read, so this is repeated until no such
    statement falls into that time. Raises SourceError.
    """
    captures = options.pattern.matches
    definitions = _Definitions(streams, captures)
    at_end = options.startup_mode in ("latest-offset", "initial", "snapshot")

    def views(name: TableId) -> bool:
        """Select current views; when starting earlier, the log itself has the statements that create them."""
        return at_end and captures(name)

    backoff, going_on = Backoff(streams.retry, "reading the definitions of tables"), True
    while going_on:
        connection = streams.session()
        try:
            info = check_server(connection, captures)
            position = find_start(options, streams, connection, info)
            read = definitions.read(connection, info, position)
            tables = definitions.tables
            if not tables and at_end:
                visible = table_ids(connection)
                if any(map(captures, visible)):  # MariaDB hides a table while it is altered
                    going_on = backoff.pause("a table was altered while all were looked at")
                    continue
                raise explain_no_tables(visible, options.pattern, connection)
            check_select(connection, read)
            check_engines(connection, [table for table in read if options.in_first_snapshot(table)])
            databases, marks = read_databases(connection), read_no_tables(connection, views)
        except SourceError as error:
            if not is_gone(error):
                raise
            definitions.forget()
            going_on = backoff.pause("a table was dropped while all were looked at")
            continue
        finally:
            connection.close()
        with streams.session() as connection:
            end = log_end(check_server(connection))
        changed = changed_between(streams.at, position, end, captures, tables, info)
        unchanged = {table: definition for table, definition in tables.items() if table not in changed}
        if not at_end or not changed:
            gtids = gtids_at(streams.at, position) if info.gtid else None
            return Start(position, gtids, StartingDefinitions(tuple(unchanged.values()), databases, marks), info)
        going_on = backoff.pause("a table was altered while all were looked at")
    raise SourceError(
        "the captured tables keep being altered while their definitions are read",
        where=f"{options.hostname}:{options.port}",
        hint="start when no schema change is running",
    )


class _Definitions:
    """The definitions of the captured tables: read once, then again only those that statements have altered since.

    To read all takes longer than an upgrade leaves between two of its statements, to read a few does not.

    Attributes:
        tables: the definitions, sorted by name.
    """

    def __init__(self, streams: Streams, captures: Callable[[TableId], bool]) -> None:
        self._streams, self._captures = streams, captures
        self._read_at: LogPosition | None = None
        self.tables: dict[TableId, MySqlTable] = {}

    def read(self, connection: MySqlConnection, info: ServerInfo, position: LogPosition) -> list[TableId]:
        """Bring the definitions up to the present, at or after a position; return the tables that were read."""
        start, self._read_at = self._read_at, position
        if start is None or not self.tables:
            self.tables = read_tables(connection, self._captures)
            return list(self.tables)
        altered = changed_between(self._streams.at, start, position, self._captures, self.tables, info)
        found = read_listed(connection, altered)
        others = {table: definition for table, definition in self.tables.items() if table not in altered}
        self.tables = dict(sorted((others | found).items()))
        return sorted(found)

    def forget(self) -> None:
        """Read all again the next time."""
        self._read_at = None
