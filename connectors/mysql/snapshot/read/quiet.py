"""Where the log names a pipeline's tables last: what is behind that does not matter to it, whatever its size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from cdc.errors import SourceError
from cdc.schema import TableId
from connectors.mysql.follow.startup import whole_log
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.buffer_view import BufferView
from connectors.mysql.log.query_event import parse_query
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.table_map import table_name
from connectors.mysql.server.positions import LogPosition

_READER: Final = 1 << 20
"""No task has this number, so the replica id is none of the pipeline's."""
_TABLE_ID_BYTES: Final = 6


class LastNamed:
    """Looks through the log once, further each time that it is asked for a later end. One thread.

    Args:
        tables: those that are looked for.
    """

    def __init__(self, streams: Streams, tables: Iterable[TableId]) -> None:
        self._streams, self._tables = streams, frozenset(tables)
        self._folded = {(table.database.casefold(), table.table.casefold()): table for table in self._tables}
        self._begin = self._end = LogPosition("", 0)
        self._last: dict[TableId, LogPosition] = {}

    def quiet(self, start: LogPosition, end: LogPosition, tables: Iterable[TableId]) -> bool:
        """Whether no row and no statement behind `start` up to `end` is about these tables.

        False when the log is gone. Raises SourceUnavailable while the server is away.
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
        return all(self._last.get(table, start) <= start for table in tables)

    def _look(self, end: LogPosition) -> None:
        """From where it has looked so far to `end`, whole transactions."""
        for buffer in whole_log(self._streams.at(self._end, until_end=True, reader=_READER)):
            for table, index in self._named(buffer):
                named = LogPosition(buffer.file, int(buffer.end_position[index]))
                self._last[table] = max(named, self._last.get(table, named))
            self._end = LogPosition(buffer.file, int(buffer.end_position[-1]))
            if end < self._end:
                return
        self._end = max(self._end, end)

    def _named(self, buffer: ReceiveBuffer) -> Iterator[tuple[TableId, int]]:
        """Tables that rows or statements of the buffer are about, with the number of the event."""
        view = BufferView(buffer, 0)
        maps = view.maps[::-1]
        for last in np.unique(view.ids[::-1], return_index=True)[1].tolist() if len(maps) else ():
            name = table_name(buffer.body(int(maps[last]))[_TABLE_ID_BYTES:])
            found = self._folded.get((name.database.casefold(), name.table.casefold()))
            if found is not None:
                yield found, int(maps[last])
        for index in view.statements.tolist():
            text = parse_query(buffer, index).sql.casefold()
            yield from ((table, index) for table in self._tables if _may_change(text, table))


def _may_change(statement: str, table: TableId) -> bool:
    """Prepared transactions may change any table, and statements that name a database its tables."""
    if statement.startswith("xa "):
        return True
    words = [table.table]
    if "database" in statement or "schema" in statement:
        words.append(table.database)
    return any(re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", statement) for word in words)
