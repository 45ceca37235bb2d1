"""Finds tables that logged statements redefine: created, altered, renamed or dropped between two positions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from cdc.schema import TableId
from connectors.mysql.ddl.names import known_name, names_in, redefined
from connectors.mysql.follow.segmenter import Segmenter
from connectors.mysql.log.position_search import whole_log
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.stream import OpenStream
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import ServerInfo
from connectors.shared.ddl.parser import parse
from connectors.shared.ddl.statements import Statement, Unparsed


class ChangedTables:
    """A schema tracker that only collects which captured tables statements have changed, by the server's names."""

    entries = 0

    def __init__(self, captures: Callable[[TableId], bool], known: Iterable[TableId], info: ServerInfo) -> None:
        self._captures, self._known = captures, tuple(known)
        self._dialect, self._lower_case_table_names = info.dialect, info.lower_case_table_names
        self.tables: set[TableId] = set()

    def scan(self, open_stream: OpenStream, start: LogPosition, end: LogPosition) -> None:
        """Read the log between two positions. `start` may be inside a transaction."""
        if start == end:
            return
        segmenter = Segmenter(self, self._captures, file=start.file, position=start.position, inside=True)
        for buffer in whole_log(open_stream(start, True)):
            for _ in segmenter.feed(buffer):
                pass
            if segmenter.has_read(end):
                break

    def statement(self, buffer: ReceiveBuffer, index: int, gtid: str) -> frozenset[TableId]:
        """Collect the tables that the statement redefines; reports none to the segmenter."""
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
        """Do nothing: rows redefine no table."""
        return frozenset()

    def uncertain(self, buffer: ReceiveBuffer, index: int, tables: Collection[TableId], reason: str) -> bool:
        """Do nothing: uncertain rows redefine no table."""
        return True


def changed_between(
    open_stream: OpenStream,
    start: LogPosition,
    end: LogPosition,
    captures: Callable[[TableId], bool],
    known: Iterable[TableId],
    info: ServerInfo,
) -> set[TableId]:
    """Return captured tables that a statement between two positions redefines."""
    changes = ChangedTables(captures, known, info)
    changes.scan(open_stream, start, end)
    return changes.tables
