"""The fence: one row per pipeline, written in the transaction of a batch's rows.

    commits (pipeline VARCHAR(255) PRIMARY KEY, batch BIGINT, committed_at TIMESTAMP, counts LONGTEXT)

`batch` is the last batch that is in; a batch at or below it is not written again. `counts` are of the rows that it has
left out, as JSON, for a run that asks after a crash. The row is locked before anything is written, so a commit whose
answer was lost is over, one way or the other, before it is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from cdc.errors import SinkError
from cdc.process.faults import crash_point
from connectors.mysql.sink.session import SinkSession
from connectors.shared.sql.client import StatementRefused
from connectors.shared.sql.text import quoted

_NO_BATCH = -1
_NO_TABLE = frozenset({1049, 1146})
_READ_ONLY = frozenset({1290, 1792, 1836})
_DENIED = frozenset({1044, 1142, 1143, 1227})


class Fence:
    """One pipeline's row. Driver."""

    def __init__(self, session: SinkSession, database: str, pipeline: str) -> None:
        self._session, self.database, self._pipeline = session, database, pipeline
        self._table = quoted(database, "commits")

    def read(self) -> int:
        """The last batch that is in, -1 when none is. Raises SinkError."""
        batch = self._row()
        return _NO_BATCH if batch is None else batch

    def counts(self, batch: int) -> dict[str, int]:
        """Counts of what this batch has left out, where it is the last that is in. In a transaction with `lock`."""
        known = f"SELECT batch, counts FROM {self._table} WHERE pipeline = %s"
        found = self._session.rows(known, (self._pipeline,))
        return dict(json.loads(found[0][1] or "{}")) if found and int(found[0][0]) == batch else {}

    def _row(self) -> int | None:
        """The batch of the row; None where there is no row, or no table."""
        try:
            rows = self._session.rows(f"SELECT batch FROM {self._table} WHERE pipeline = %s", (self._pipeline,))
        except StatementRefused as error:
            if error.code in _NO_TABLE:
                return None
            raise self._refusal(error) from None
        return int(rows[0][0]) if rows else None

    def create(self) -> None:
        """Make the table and the row where they are missing. Outside of a transaction. Raises SinkError.

        Only a query where they are there: every commit calls it, and a server logs each CREATE, whatever it does.
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

    def lock(self) -> int:
        """The last batch that is in; nobody else writes one until the transaction ends."""
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
        return int(rows[0][0])

    def write(self, batch: int, counts: Mapping[str, int]) -> None:
        """Set the row, in the caller's transaction."""
        update = (
            f"UPDATE {self._table} SET batch = %s, counts = %s, committed_at = CURRENT_TIMESTAMP WHERE pipeline = %s"
        )
        try:
            self._session.run(update, (batch, json.dumps(dict(counts)), self._pipeline))
        except StatementRefused as error:
            raise self._refusal(error) from None
        crash_point("mid-commit", batch)

    def _refusal(self, error: StatementRefused) -> SinkError:
        hint = "is it a replica? name the primary server, or make this one writable" if error.code in _READ_ONLY else ""
        if error.code in _DENIED:
            hint = f"run on the server: GRANT ALL ON {quoted(self.database)}.* TO the user, or name another database"
            hint += " in sink.metadata-database"
        return SinkError(str(error), where=f"{self._table} on {self._session.where}", hint=hint)
