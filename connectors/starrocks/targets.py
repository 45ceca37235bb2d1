"""The tables that rows have to fit into, as executors see them: read from the server once per table and schema.

A change of a table's schema comes with rows of another schema, so what was read for one schema stays true for it. When
one batch brings many tables, their whole database is read at once.
"""

from __future__ import annotations

import threading
from collections import Counter

from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from cdc.state.store import Store
from connectors.shared.conversion.target import TargetTable
from connectors.shared.sql.client import SqlClient, StatementRefused
from connectors.starrocks.catalog import StarRocksTable, read_database, read_table

_SINGLE_READS = 8


class Targets:
    """Tables of one pipeline's sink in this process. Thread safe."""

    def __init__(self, sql: SqlClient) -> None:
        self._sql = sql
        self._lock = threading.Lock()
        self._known: dict[tuple[TableId, TableSchema], TargetTable] = {}
        self._batch = -1
        self._reads: Counter[str] = Counter()
        self._whole: dict[str, dict[TableId, StarRocksTable]] = {}

    def get(self, table: TableId, schema: TableSchema, batch: int) -> TargetTable:
        """The table as it is for rows of this schema. Raises SinkError when it does not exist, or SinkUnavailable."""
        key = (table, schema)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                actual = self._read(table, batch)
                if actual is None:
                    hint = "it was dropped or renamed in StarRocks; restore it, or start with a new --state-dir"
                    raise SinkError("the table does not exist", where=str(table), hint=hint)
                found = self._known[key] = actual.target()
            return found

    def forget(self, table: TableId) -> None:
        """A load was refused: the next one looks at the table again."""
        with self._lock:
            self._known = {key: value for key, value in self._known.items() if key[0] != table}
            self._whole.pop(table.database, None)

    def _read(self, table: TableId, batch: int) -> StarRocksTable | None:
        if batch != self._batch:
            self._batch = batch
            self._reads.clear()
            self._whole.clear()
        database = table.database
        self._reads[database] += 1
        if table in self._whole.get(database, {}):
            return self._whole[database][table]
        try:
            if self._reads[database] <= _SINGLE_READS or database in self._whole:
                return self._sql.retry_query(lambda session: read_table(session, table))
            self._whole[database] = {
                table.id: table for table in self._sql.retry_query(lambda session: read_database(session, database))
            }
        except StatementRefused as error:
            hint = "GRANT SELECT on the table to the user"
            raise SinkError(f"its columns cannot be read: {error.message}", where=str(table), hint=hint) from error
        return self._whole[database].get(table)


_LOCK = threading.Lock()
_TARGETS: dict[tuple[str, str, object], Targets] = {}


def targets_of(sql: SqlClient, pipeline: str, store: Store) -> Targets:
    """This process's targets of the pipeline's tables: the sink object itself is new in every task, and the store in
    every run, which an executor may outlive."""
    with _LOCK:
        return _TARGETS.setdefault((pipeline, store.where(), sql.servers), Targets(sql))
