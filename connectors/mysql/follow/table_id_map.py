"""Table ids of a log file, with the captured tables that they stand for. Stream reader process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import numpy as np

from cdc.errors import CorruptLog
from cdc.schema import TableId
from connectors.mysql.log.buffer_view import table_ids
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.table_map import table_name


class TableIdMap:
    """Table ids that the current log file has used so far. A server gives a table another id when it is altered.

    Args:
        captures: the captured tables.
    """

    def __init__(self, captures: Callable[[TableId], bool]) -> None:
        self._captures = captures
        self._tables: dict[int, TableId | None] = {}
        self._outdated: set[int] = set()

    def is_new(self, key: int) -> bool:
        """Return whether the id's next TABLE_MAP must be read."""
        return key not in self._tables or key in self._outdated

    def add(self, buffer: ReceiveBuffer, index: int) -> TableId | None:
        """Read a TABLE_MAP event; returns its table if that is captured and its id is new. Raises CorruptLog."""
        key = int(table_ids(buffer, np.array([index], np.int64))[0])
        if not self.is_new(key):
            return None
        self._outdated.discard(key)
        try:
            table = table_name(buffer.body(index)[6:])
        except (IndexError, UnicodeDecodeError) as error:
            raise CorruptLog(f"a TABLE_MAP event cannot be read: {error}", where=buffer.where(index)) from error
        self._tables[key] = table if self._captures(table) else None
        return self._tables[key]

    def outdate(self, tables: Collection[TableId]) -> None:
        """Treat the ids of changed tables as new.

        An id still used after a statement about its table shows that the statement was about another table: MariaDB
        also logs RENAME TABLE of a temporary table.
        """
        self._outdated |= {key for key, table in self._tables.items() if table in tables}

    def captured(self, keys: Iterable[int]) -> set[TableId]:
        """Return the captured tables among the ids."""
        found = (self._tables.get(key) for key in keys)
        return {table for table in found if table is not None}
