"""The fence: one row per pipeline, written in the transaction of a batch's rows.

    commits (pipeline VARCHAR(255) PRIMARY KEY, batch BIGINT, committed_at TIMESTAMP, counts LONGTEXT)

`batch` is the last committed batch; a batch at or below it is not written again. `counts` are those of the rows it
skipped, as JSON, for a run that needs them after a crash. The row is locked before anything is written, so a commit
whose answer was lost has finished, one way or the other, before it is retried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cdc.errors import SinkError
from cdc.process.faults import crash_point
from cdc.sink import lacks_batches
from connectors.mysql.sink.session import SinkSession
from connectors.shared.sql.client import StatementRefused
from connectors.shared.sql.text import quoted

_NO_BATCH = -1
_NO_TABLE = frozenset({1049, 1146})
_DENIED = frozenset({1044, 1142, 1143, 1227})


class Fence:
    """One pipeline's row. Driver."""

    def __init__(self, session: SinkSession, database: str, pipeline: str) -> None:
        self._session, self.database, self._pipeline = session, database, pipeline
        self._table = quoted(database, "commits")

    def read(self) -> int:
        """Return the last committed batch, -1 for none. Raises SinkError."""
        batch = self._row()
        return _NO_BATCH if batch is None else batch

    def counts(self, batch: int) -> dict[str, int]:
        """Return the counts of this batch, if it is the last committed one. In a transaction with `lock`."""
        known = f"SELECT batch, counts FROM {self._table} WHERE pipeline = %s"
        found = self._session.rows(known, (self._pipeline,))
        return dict(json.loads(found[0][1] or "{}")) if found and int(found[0][0]) == batch else {}

    def _row(self) -> int | None:
        """Return the batch of the row; None without a row or table."""
        try:
            rows = self._session.rows(f"SELECT batch FROM {self._table} WHERE pipeline = %s", (self._pipeline,))
        except StatementRefused as error:
            if error.code in _NO_TABLE:
                return None
            raise self._refusal(error) from None
        return int(rows[0][0]) if rows else None

    def create(self) -> None:
        """Create the table and the row if missing. Outside of a transaction. Raises SinkError.

        If they exist, this only runs a query: every commit calls it, and a server logs each CREATE, whatever it does.
        """
        if self._row() is not None:
            return
        known = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
        try:
            if not self._session.rows(known, (self.database,)):
                self._session.run(f"CREATE DATABASE IF NOT EXISTS {quoted(self.database)}")
            self._session.run(
                f"CREATE TABLE IF NOT EXISTS {self._table} (pipeline VARCHAR(255) CHARACTER SET utf8mb4 "
                "COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, batch BIGINT NOT NULL, "
                "committed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, counts LONGTEXT)"
            )
            insert = f"INSERT IGNORE INTO {self._table} (pipeline, batch) VALUES (%s, {_NO_BATCH})"
            self._session.run(insert, (self._pipeline,))
        except StatementRefused as error:
            raise self._refusal(error) from None

    def lock(self, newest: int) -> int:
        """Lock the row and return the last committed batch; no other process writes one until the transaction ends.

        Raises SinkError if that is less than the `newest` one committed so far: the rows between them would be missing.
        """
        lock = f"SELECT batch FROM {self._table} WHERE pipeline = %s FOR UPDATE"
        try:
            rows = self._session.rows(lock, (self._pipeline,))
        except StatementRefused as error:
            raise self._refusal(error) from None
        if not rows:
            raise SinkError(
                "the row of this pipeline is gone: nothing tells which batches are in",
                where=f"{self._table} on {self._session.where}",
                hint="restore it, or start over with another --state-dir and empty tables",
            )
        found = int(rows[0][0])
        if found < newest:
            raise lacks_batches(found, newest, f"{self._table} on {self._session.where}")
        return found

    def write(self, batch: int, counts: Mapping[str, int]) -> None:
        """Set the row, inside the caller's transaction."""
        update = (
            f"UPDATE {self._table} SET batch = %s, counts = %s, committed_at = CURRENT_TIMESTAMP WHERE pipeline = %s"
        )
        try:
            self._session.run(update, (batch, json.dumps(dict(counts)), self._pipeline))
        except StatementRefused as error:
            raise self._refusal(error) from None
        crash_point("mid-commit", batch)

    def _refusal(self, error: StatementRefused) -> SinkError:
        hint = ""
        if error.code in _DENIED:
            hint = f"run on the server: GRANT ALL ON {quoted(self.database)}.* TO the user, or name another database"
            hint += " in sink.metadata-database"
        return SinkError(str(error), where=f"{self._table} on {self._session.where}", hint=hint)
