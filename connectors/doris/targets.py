"""The tables that rows have to fit into, as executors see them: read from the server once per table and schema.

A change of a table's schema comes with rows of another schema, so what was read for one schema stays true for it.
"""

from __future__ import annotations

import threading

from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from connectors.doris.catalog import read_table
from connectors.shared.conversion.target import TargetTable
from connectors.shared.sql.client import SqlClient, StatementRefused

_MOST_KNOWN = 20_000


class Targets:
    """Tables of one cluster in this process. Thread safe."""

    def __init__(self, sql: SqlClient, longest_string: int) -> None:
        self._sql, self._longest_string = sql, longest_string
        self._lock = threading.Lock()
        self._known: dict[tuple[TableId, TableSchema], TargetTable] = {}

    def get(self, table: TableId, schema: TableSchema) -> TargetTable:
        """The table as it is for rows of this schema. Raises SinkError when it cannot be read, or SinkUnavailable."""
        with self._lock:
            found = self._known.get((table, schema))
        if found is not None:
            return found
        try:
            found = self._sql.retry_query(lambda session: read_table(session, table)).target(self._longest_string)
        except StatementRefused as error:
            hint = "it was dropped or renamed in Doris, or the user lacks SELECT on it"
            raise SinkError(f"its columns cannot be read: {error.message}", where=str(table), hint=hint) from None
        with self._lock:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[table, schema] = found
        return found

    def forget(self, table: TableId) -> None:
        """A load was refused: the next one looks at the table again."""
        with self._lock:
            self._known = {key: value for key, value in self._known.items() if key[0] != table}


_LOCK = threading.Lock()
_TARGETS: dict[tuple[str, object, int], Targets] = {}


def targets_of(sql: SqlClient, pipeline: str, longest_string: int) -> Targets:
    """This process's targets of a pipeline's tables: the sink object itself is new in every task."""
    with _LOCK:
        return _TARGETS.setdefault((pipeline, sql.servers, longest_string), Targets(sql, longest_string))
