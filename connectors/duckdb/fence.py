"""The fence: one row per pipeline in `_cdc.commits`, written in the same transaction as a batch's rows.

    _cdc.commits (pipeline VARCHAR PRIMARY KEY, batch BIGINT, committed_at TIMESTAMPTZ)

`batch` is the last committed batch; a batch at or below it is not loaded again.
"""

from __future__ import annotations

import duckdb

from connectors.duckdb.database import DuckDbSession, quoted

_NO_BATCH = -1


class Fence:
    """One pipeline's row, read on construction, before the transaction that writes it.

    No other process has the file open in between.
    """

    def __init__(self, session: DuckDbSession, pipeline: str) -> None:
        self._session, self._pipeline = session, pipeline
        self._schema = session.names.schema("_cdc")
        self._table = f"{self._schema}.{quoted('commits')}"
        self._has_table = self._has_row = True
        self.batch = self._read()

    def _read(self) -> int:
        try:
            rows = self._session.rows(f"SELECT batch FROM {self._table} WHERE pipeline = ?", [self._pipeline])
        except duckdb.CatalogException:
            self._has_table = self._has_row = False
            return _NO_BATCH
        self._has_row = bool(rows)
        return int(rows[0][0]) if rows else _NO_BATCH

    def write(self, batch: int) -> None:
        """Set the row, inside the caller's transaction."""
        if not self._has_table:
            self._session.rows(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
            columns = "(pipeline VARCHAR PRIMARY KEY, batch BIGINT, committed_at TIMESTAMPTZ)"
            self._session.rows(f"CREATE TABLE {self._table} {columns}")
        values = [batch, self._pipeline]
        if self._has_row:
            changed = "batch = ?, committed_at = now()"
            self._session.rows(f"UPDATE {self._table} SET {changed} WHERE pipeline = ?", values)
        else:
            columns = "(batch, pipeline, committed_at)"
            self._session.rows(f"INSERT INTO {self._table} {columns} VALUES (?, ?, now())", values)
