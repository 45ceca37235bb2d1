"""Where a new pipeline starts, and which table definitions hold there. Stream reader process, once per pipeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from cdc.errors import SourceError, SourceUnavailable
from cdc.retry import Backoff
from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.ddl.names import known_name, names_in
from connectors.mysql.follow.follower import OpenStream
from connectors.mysql.follow.segmenter import Segmenter
from connectors.mysql.follow.streams import Streams
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.log.event_bodies import (
    gtid_runs,
    mariadb_gtid_runs,
    parse_gtid_list,
    parse_previous_gtids,
)
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.sieve import begin_of
from connectors.mysql.log.stream import BinlogStream, EndOfLog
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.schemas import StartingDefinitions
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import is_gone
from connectors.mysql.server.engines import check_engines
from connectors.mysql.server.information_schema import read_databases, read_no_tables, read_tables, table_ids
from connectors.mysql.server.positions import (
    LogPosition,
    check_file_position,
    check_gtid_position,
    earliest_position,
    position_at,
)
from connectors.mysql.server.server_check import check_select, check_server, explain_no_tables
from connectors.mysql.server.server_info import ServerInfo, where_of
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.parser import parse
from connectors.shared.ddl.statements import (
    AlterTableStatement,
    CreateTableStatement,
    DropDatabaseStatement,
    DropTableStatement,
    Statement,
    Unparsed,
    renamed,
)

READ_S = 30.0

Session = Callable[[], MySqlConnection]


@dataclass(frozen=True, slots=True)
class Start:
    """A new pipeline's beginning.

    Attributes:
        position: the first transaction to deliver begins there.
        gtids: the GTID set (MySQL) or position (MariaDB) done there; None when the server uses none.
        known: what holds from there on: captured tables, the databases' character sets, names that are no
            tables.
        info: the server at that moment.
    """

    position: LogPosition
    gtids: str | None
    known: StartingDefinitions
    info: ServerInfo


def start_of(options: MySqlSourceOptions, streams: Streams) -> Start:
    """Find the start that `scan.startup.mode` asks for.

    The definitions are those of `information_schema` now, less the tables that a statement between the start and now
    has changed: theirs come from the log. Reading them takes a moment in which the log may go on, so it is repeated
    until no such statement fell into that moment. Raises SourceError.
    """
    captures = options.pattern.matches
    at_end = options.startup_mode in ("latest-offset", "initial", "snapshot")

    def views(name: TableId) -> bool:
        """From an earlier place on, the log itself makes those that are there now."""
        return at_end and captures(name)

    session, open_stream = streams.session, streams.at
    backoff, going_on = Backoff(streams.retry, "reading the definitions of tables"), True
    while going_on:
        connection = session()
        try:
            info = check_server(connection, captures)
            position = _position(options, connection, info, session, open_stream, streams.after)
            tables = read_tables(connection, captures)
            if not tables and at_end:
                visible = table_ids(connection)
                if any(map(captures, visible)):  # MariaDB does not show a table while it takes its new definition
                    going_on = backoff.pause("a table was altered while all were looked at")
                    continue
                raise explain_no_tables(visible, options.pattern, connection)
            check_select(connection, tables)
            check_engines(connection, [table for table in tables if options.copied_at_first(table)])
            databases, marks = read_databases(connection), read_no_tables(connection, views)
        except SourceError as error:
            if not is_gone(error):
                raise
            going_on = backoff.pause("a table was dropped while all were looked at")
            continue
        finally:
            connection.close()
        dialect = info.dialect
        changed = changed_between(
            open_stream, position, _end(session), captures, tables, dialect, info.lower_case_table_names
        )
        unchanged = {table: definition for table, definition in tables.items() if table not in changed}
        if not at_end or not changed:
            gtids = gtids_at(open_stream, position) if info.gtid else None
            return Start(position, gtids, StartingDefinitions(tuple(unchanged.values()), databases, marks), info)
        going_on = backoff.pause("a table was altered while all were looked at")
    raise SourceError(
        "the captured tables are altered again and again while their definitions are read",
        where=f"{options.hostname}:{options.port}",
        hint="start when no schema change is running",
    )


def _end(session: Session) -> LogPosition:
    with session() as connection:
        info = check_server(connection)
        return LogPosition(info.file, info.position)


def _position(
    options: MySqlSourceOptions,
    connection: MySqlConnection,
    info: ServerInfo,
    session: Session,
    open_stream: OpenStream,
    open_after: Callable[[str], BinlogStream],
) -> LogPosition:
    mode = options.startup_mode
    if mode == "earliest-offset":
        return earliest_position(connection)
    if mode == "timestamp":
        return first_at(open_stream, position_at(session, options.timestamp_millis or 0), options.timestamp_millis or 0)
    if mode == "specific-offset" and options.specific_offset_file is not None:
        position = LogPosition(options.specific_offset_file, options.specific_offset_pos or 4)
        check_file_position(connection, info, position)
        return position
    if mode == "specific-offset":
        done = options.specific_offset_gtid_set or ""
        check_gtid_position(connection, info, done)
        position = first_after(open_after(done), LogPosition(info.file, info.position))
        _check_no_hole(connection, info, done, gtids_at(open_stream, position))
        return position
    return LogPosition(info.file, info.position)


def _check_no_hole(connection: MySqlConnection, info: ServerInfo, done: str, before: str) -> None:
    """A GTID set with holes cannot be a position: transactions behind the first missing one would come twice."""
    again: GtidSet | MariaDbGtid
    if info.mariadb:
        again = MariaDbGtid.parse(before).lacking(MariaDbGtid.parse(done))
    else:
        beyond = GtidSet.parse(done).minus(GtidSet.parse(before))
        again = beyond.minus(beyond.minus(GtidSet.parse(info.executed)))
    if again:
        raise SourceError(
            f"the GTID set has a hole: {again} lie behind the first transaction it lacks and would be read again",
            where=where_of(connection),
            hint="give the set that was executed at one moment, as the server showed it",
        )


def first_after(stream: BinlogStream, end: LogPosition) -> LogPosition:
    """Where the first transaction that the server sends begins; `end` when it sends none."""
    for buffer in whole_log(stream):
        starts = np.flatnonzero(np.isin(buffer.type, sorted(events.GTID_TYPES)))
        if len(starts):
            return begin_of(buffer, int(starts[0]))
    return end


def first_at(open_stream: OpenStream, start: LogPosition, time_ms: int) -> LogPosition:
    """Where the first transaction committed at `time_ms` or later begins, from `start` on; else the end of the log.

    MariaDB logs whole seconds: there it is the first transaction of that second.
    """
    end, second_ms = start, time_ms // 1000 * 1000
    for buffer in whole_log(open_stream(start, True)):
        late = np.isin(buffer.type, sorted(events.GTID_TYPES)) & (buffer.commit_ms >= time_ms)
        late |= (buffer.type == events.MARIADB_GTID) & (buffer.commit_ms >= second_ms)
        if late.any():
            return begin_of(buffer, int(np.flatnonzero(late)[0]))
        end = LogPosition(buffer.file, int(buffer.end_position[-1]))
    return end


def gtids_at(open_stream: OpenStream, at: LogPosition) -> str:
    """The transactions done at a position: what its file began with, and what the file holds before the position."""
    mysql, mariadb = GtidSet(), MariaDbGtid()
    is_mariadb = begun = False
    for buffer in whole_log(open_stream(LogPosition(at.file), True)):
        if buffer.file != at.file:
            break
        part = buffer.until(at.position)
        for index in np.flatnonzero(buffer.type == events.PREVIOUS_GTIDS):
            mysql = mysql.add_all(parse_previous_gtids(buffer, int(index)))
        for index in np.flatnonzero(buffer.type == events.MARIADB_GTID_LIST):
            mariadb, is_mariadb = mariadb.add_all(parse_gtid_list(buffer, int(index))), True
        mysql = mysql.add_all(gtid_runs(part, 0, len(part)))
        runs = mariadb_gtid_runs(part, 0, len(part))
        mariadb, is_mariadb = mariadb.add_all(runs), is_mariadb or bool(runs)
        begun |= bool(np.isin(buffer.type, (events.PREVIOUS_GTIDS, events.MARIADB_GTID_LIST)).any())
        if begun and int(buffer.end_position[-1]) >= at.position:
            break
    return str(mariadb) if is_mariadb else str(mysql)


class ChangedTables:
    """A schema tracker that only remembers which captured tables statements have changed.

    `lower_case_table_names` is the server's variable: the names are those that it knows the tables by.
    """

    entries = 0

    def __init__(
        self,
        captures: Callable[[TableId], bool],
        known: Iterable[TableId],
        dialect: DdlDialect,
        lower_case_table_names: int,
    ) -> None:
        self._captures, self._known, self._dialect = captures, tuple(known), dialect
        self._lower_case_table_names = lower_case_table_names
        self.tables: set[TableId] = set()

    def look(self, open_stream: OpenStream, start: LogPosition, end: LogPosition) -> None:
        """Read the log between two positions."""
        if start == end:
            return
        segmenter = Segmenter(self, self._captures, file=start.file, position=start.position)
        for buffer in whole_log(open_stream(start, True)):
            for _ in segmenter.feed(buffer):
                pass
            if segmenter.has_read(end):
                break

    def statement(self, buffer: ReceiveBuffer, index: int, gtid: str) -> frozenset[TableId]:
        """Remember what it redefines; nothing is told to the segmenter."""
        query = parse_query(buffer, index)
        dialect = self._dialect.with_mode(query.sql_mode or 0)
        for statement in parse(query.sql, database=query.schema, dialect=dialect):
            self._note(statement)
            if isinstance(statement, Unparsed):
                self.tables |= set(filter(self._captures, names_in(query.sql, query.schema, self._known)))
        return frozenset()

    def _note(self, statement: Statement) -> None:
        names = map(self._known_name, redefined(statement, self._known))
        self.tables |= {table for table in names if self._captures(table)}

    def _known_name(self, table: TableId) -> TableId:
        return known_name(table, self._lower_case_table_names, self._known)

    def table(self, buffer: ReceiveBuffer, index: int, table: TableId) -> frozenset[TableId]:
        """Rows redefine nothing."""
        return frozenset()

    def uncertain(self, buffer: ReceiveBuffer, index: int, tables: Collection[TableId], reason: str) -> bool:
        """Nor does what became of them."""
        return True


def redefined(statement: Statement, known: Iterable[TableId]) -> Iterator[TableId]:
    """The tables that a statement creates, alters, renames or drops; `known` are those a dropped database may have."""
    yield from (table for pair in renamed(statement) for table in pair)
    match statement:
        case CreateTableStatement(table=table):
            yield table
        case AlterTableStatement(table=table):
            yield table
        case DropTableStatement(tables=tables) | Unparsed(tables=tables):
            yield from tables
        case DropDatabaseStatement(database=database):
            yield from (table for table in known if table.database.lower() == database.lower())


def changed_between(
    open_stream: OpenStream,
    start: LogPosition,
    end: LogPosition,
    captures: Callable[[TableId], bool],
    known: Iterable[TableId],
    dialect: DdlDialect,
    lower_case_table_names: int,
) -> set[TableId]:
    """Captured tables that a statement between two positions redefines."""
    changes = ChangedTables(captures, known, dialect, lower_case_table_names)
    changes.look(open_stream, start, end)
    return changes.tables


def whole_log(stream: BinlogStream) -> Iterator[ReceiveBuffer]:
    """All buffers up to the end of the log. Raises as `BinlogStream.read`."""
    try:
        while True:
            buffer = stream.read(READ_S)
            if buffer is None:
                raise SourceUnavailable("the server stopped sending its log", where=f"{stream.file}:{stream.position}")
            yield buffer
    except EndOfLog:
        return
    finally:
        stream.close()
