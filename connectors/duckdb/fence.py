"""The fence: one row per pipeline in `_cdc.commits`, written in the same transaction as a batch's rows.

    _cdc.commits (pipeline VARCHAR PRIMARY KEY, batch BIGINT, applied VARCHAR, committed_at TIMESTAMPTZ)

`batch` is the last batch that is in; a batch at or below it is not loaded again. `applied` names the schema changes
that were carried out for the batch that is under way, NULL between batches.
"""

from __future__ import annotations

from typing import Any

from connectors.duckdb.database import Session, quoted

_NO_BATCH = -1


class Fence:
    """Reads and writes one pipeline's row. Writes belong inside the caller's transaction."""

    def __init__(self, session: Session, pipeline: str) -> None:
        self._session, self._pipeline = session, pipeline
        self._schema = session.names.schema("_cdc")
        self._table = f"{self._schema}.{quoted('commits')}"

    def passed(self, batch: int) -> bool:
        """Whether the batch is in already."""
        row = self._row()
        return row is not None and batch <= row[0]

    def applied(self) -> str | None:
        """The digest of the schema changes carried out since the last commit."""
        row = self._row()
        return None if row is None else row[1]

    def pass_(self, batch: int) -> None:
        """The batch is in."""
        self._write(batch, None)

    def note_applied(self, digest: str) -> None:
        """These schema changes are carried out, and their batch has not committed yet."""
        row = self._row()
        self._write(_NO_BATCH if row is None else row[0], digest)

    def _row(self) -> tuple[Any, ...] | None:
        exists = self._session.rows(
            "SELECT 1 FROM duckdb_tables() WHERE database_name = current_database() "
            "AND schema_name = '_cdc' AND table_name = 'commits'"
        )
        if not exists:
            return None
        rows = self._session.rows(f"SELECT batch, applied FROM {self._table} WHERE pipeline = ?", [self._pipeline])
        return rows[0] if rows else None

    def _write(self, batch: int, applied: str | None) -> None:
        self._session.rows(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        self._session.rows(
            f"CREATE TABLE IF NOT EXISTS {self._table} "
            "(pipeline VARCHAR PRIMARY KEY, batch BIGINT, applied VARCHAR, committed_at TIMESTAMPTZ)"
        )
        values = [self._pipeline, batch, applied]
        self._session.rows(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?, ?, now())", values)
