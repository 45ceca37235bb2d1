"""The fence: one row per pipeline in `_cdc.commits`, written in the same transaction as a batch's rows.

    _cdc.commits (pipeline VARCHAR PRIMARY KEY, batch BIGINT, committed_at TIMESTAMPTZ)

`batch` is the last batch that is in; a batch at or below it is not loaded again. Files of earlier versions have a
column `applied` as well: it names the schema changes that were carried out for the batch that was under way then.
"""

from __future__ import annotations

import duckdb

from connectors.duckdb.database import DuckDbSession, quoted

_NO_BATCH = -1


class Fence:
    """One pipeline's row, read when made: before the transaction that writes it. Nobody else has the file meanwhile."""

    def __init__(self, session: DuckDbSession, pipeline: str) -> None:
        self._session, self._pipeline = session, pipeline
        self._schema = session.names.schema("_cdc")
        self._table = f"{self._schema}.{quoted('commits')}"
        self._has_table = self._has_row = True
        self._has_applied = False
        self.batch, self.applied = self._read()

    def _read(self) -> tuple[int, str | None]:
        try:
            columns = self._session.rows(f"DESCRIBE {self._table}")
        except duckdb.CatalogException:
            self._has_table = self._has_row = False
            return _NO_BATCH, None
        self._has_applied = "applied" in {name for name, *_ in columns}
        chosen = f"batch, {'applied' if self._has_applied else 'NULL'}"
        rows = self._session.rows(f"SELECT {chosen} FROM {self._table} WHERE pipeline = ?", [self._pipeline])
        self._has_row = bool(rows)
        return rows[0] if rows else (_NO_BATCH, None)

    def write(self, batch: int) -> None:
        """Set the row. Inside the caller's transaction."""
        if not self._has_table:
            self._session.rows(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
            columns = "(pipeline VARCHAR PRIMARY KEY, batch BIGINT, committed_at TIMESTAMPTZ)"
            self._session.rows(f"CREATE TABLE {self._table} {columns}")
        values = [batch, self._pipeline]
        if self._has_row:
            changed = "batch = ?, committed_at = now()" + (", applied = NULL" if self._has_applied else "")
            self._session.rows(f"UPDATE {self._table} SET {changed} WHERE pipeline = ?", values)
        else:
            columns = "(batch, pipeline, committed_at)"
            self._session.rows(f"INSERT INTO {self._table} {columns} VALUES (?, ?, now())", values)
