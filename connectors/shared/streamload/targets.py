"""The sink tables as executors see them: read from the server once per table and schema.

A changed table comes with rows of another schema, so what was read for one schema stays valid for it. When one batch
has many tables, their whole database is read at once, if the server supports that.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from connectors.shared.conversion.target import TargetTable
from connectors.shared.sql.client import SqlClient, SqlSession, StatementRefused

_MOST_KNOWN = 20_000
_SINGLE_READS = 8

ReadTable = Callable[[SqlSession, TableId], TargetTable | None]
"""Reads one table, None when there is none. Raises StatementRefused, SinkUnavailable."""
ReadDatabase = Callable[[SqlSession, str], Mapping[TableId, TargetTable]]
"""Reads all tables of a database."""


@dataclass
class Targets:
    """Tables of one pipeline's sink in this process. Thread-safe."""

    sql: SqlClient
    read_table: ReadTable
    read_database: ReadDatabase | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[tuple[TableId, TableSchema], TargetTable] = field(default_factory=dict)
    _batch: int = -1
    _reads: Counter[str] = field(default_factory=Counter)
    _whole: dict[str, Mapping[TableId, TargetTable]] = field(default_factory=dict)

    def get(self, table: TableId, schema: TableSchema, batch: int) -> TargetTable:
        """Return the table for rows of this schema. Raises SinkError when it cannot be read, or SinkUnavailable."""
        with self._lock:
            found = self._known.get((table, schema))
        if found is None:
            found = self._read(table, batch)
            with self._lock:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[table, schema] = found
        return found

    def forget(self, table: TableId) -> None:
        """Forget a table after a refused load, so that the next one reads it again."""
        with self._lock:
            self._known = {key: value for key, value in self._known.items() if key[0] != table}
            self._whole.pop(table.database, None)

    def _read(self, table: TableId, batch: int) -> TargetTable:
        try:
            found = self._look_up(table, batch)
        except StatementRefused as error:
            hint = "it was dropped or renamed in the sink, or the user lacks SELECT on it"
            raise SinkError(f"its columns cannot be read: {error.message}", where=str(table), hint=hint) from error
        if found is None:
            hint = "it was dropped or renamed in the sink; restore it, or start with a new --state-dir"
            raise SinkError("the table does not exist", where=str(table), hint=hint)
        return found

    def _look_up(self, table: TableId, batch: int) -> TargetTable | None:
        database, read_database = table.database, self.read_database
        with self._lock:  # other threads that need tables of the same database wait
            if batch != self._batch:
                self._batch = batch
                self._reads.clear()
                self._whole.clear()
            self._reads[database] += 1
            if read_database is not None and self._reads[database] > _SINGLE_READS and database not in self._whole:
                self._whole[database] = self.sql.retry_query(lambda session: read_database(session, database))
            if table in self._whole.get(database, {}):
                return self._whole[database][table]
        return self.sql.retry_query(lambda session: self.read_table(session, table))


_LOCK = threading.Lock()
_TARGETS: dict[object, Targets] = {}


def targets_of(key: object, made: Targets) -> Targets:
    """Return this process's targets by a key: the sink object itself is recreated in every task."""
    with _LOCK:
        return _TARGETS.setdefault(key, made)
