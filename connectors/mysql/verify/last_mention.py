"""The last position at which the log names a pipeline's tables: everything after it is irrelevant to the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.ddl.names import names_in, redefined
from connectors.mysql.follow.log_progress import LogProgress
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.buffer_view import BufferView
from connectors.mysql.log.position_search import whole_log
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.table_map import table_name
from connectors.mysql.server.positions import LogPosition
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.parser import parse
from connectors.shared.ddl.statements import (
    AlterTableStatement,
    Irrelevant,
    Statement,
    StatementDml,
    TruncateStatement,
    Unparsed,
)

_READER: Final = 1 << 20
"""Reader number beyond those of all tasks, so the replica id is not used by the pipeline."""
_TABLE_ID_BYTES: Final = 6


class LastMention:
    """Scans the log once, and further on each call with a later end. Not thread-safe.

    Args:
        tables: the tables to look for.
        dialect: how the server reads statements.
    """

    def __init__(self, streams: Streams, tables: Iterable[TableId], dialect: DdlDialect) -> None:
        self._streams, self._tables, self._dialect = streams, frozenset(tables), dialect
        self._folded = {(table.database.casefold(), table.table.casefold()): table for table in self._tables}
        self._begin = self._end = LogPosition("", 0)
        self._last: dict[TableId, LogPosition] = {}

    def caught_up(self, start: LogPosition, end: LogPosition, tables: Iterable[TableId]) -> bool:
        """Return whether a pipeline at `start` has everything the log holds of these tables up to `end`.

        False when the log is purged. Raises SourceUnavailable while the server is down.
        """
        if start >= end:
            return True
        if start < self._begin or not self._end.file or self._end < start:
            self._begin = self._end = start
            self._last = {}
        try:
            if self._end < end:
                self._look(end)
        except SourceError as error:
            if error.retryable:
                raise
            return False
        waiting = any(self._last.get(table, start) > start for table in tables)
        return LogProgress(self._end, waiting).caught_up(end)

    def _look(self, end: LogPosition) -> None:
        """Scan whole transactions from the last position to `end`."""
        for buffer in whole_log(self._streams.at(self._end, until_end=True, reader=_READER)):
            for table, index in self._tables_named(buffer):
                named = LogPosition(buffer.file, int(buffer.end_position[index]))
                self._last[table] = max(named, self._last.get(table, named))
            self._end = LogPosition(buffer.file, int(buffer.end_position[-1]))
            if end < self._end:
                return
        self._end = max(self._end, end)

    def _tables_named(self, buffer: ReceiveBuffer) -> Iterator[tuple[TableId, int]]:
        """Yield the tables that rows or statements of the buffer are about, with the index of the event."""
        view = BufferView(buffer, 0)
        maps = view.maps[::-1]
        for last in np.unique(view.ids[::-1], return_index=True)[1].tolist() if len(maps) else ():
            name = table_name(buffer.body(int(maps[last]))[_TABLE_ID_BYTES:])
            found = self._folded.get((name.database.casefold(), name.table.casefold()))
            if found is not None:
                yield found, int(maps[last])
        for index in view.statements.tolist():
            yield from ((table, index) for table in self._concerned(buffer, index))

    def _concerned(self, buffer: ReceiveBuffer, index: int) -> Iterator[TableId]:
        """Yield the tables that a statement changes, or may change."""
        query = parse_query(buffer, index)
        dialect = self._dialect.with_mode(query.sql_mode or 0)
        for statement in parse(query.sql, database=query.schema, dialect=dialect):
            if isinstance(statement, Unparsed):
                yield from names_in(query.sql, query.schema, self._tables)
            if isinstance(statement, Irrelevant) and statement.kind == "xa" and "ROLLBACK" in query.sql.upper():
                yield from self._tables  # their rows were delivered when the transaction was prepared
            found = (
                self._folded.get((name.database.casefold(), name.table.casefold()))
                for name in self._tables_of(statement)
            )
            yield from (table for table in found if table is not None)

    def _tables_of(self, statement: Statement) -> Iterable[TableId]:
        match statement:
            case TruncateStatement(table=table):
                return (table,)
            case StatementDml(tables=tables):
                return tables
            case AlterTableStatement(clauses=()):  # such as adding an index
                return ()
            case _:
                return redefined(statement, self._tables)
