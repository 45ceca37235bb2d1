"""The two sessions that read a chunk: one holds the view of the data, the other runs all other queries.

The session of a view sees information_schema as it was when the view was opened (MySQL), so queries about the current
state go through the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from cdc.errors import SourceError, SourceUnavailable
from cdc.schema import TableId
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import account
from connectors.mysql.server.engines import no_view
from connectors.mysql.server.information_schema import table_reader
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import ServerInfo, query, server_info, where_of

LONGEST_WAIT_S: Final = 3600.0
"""Maximum wait for the next bytes of a result: a filter may skip many rows before one that is sent."""
_PATIENT: Final = "SET SESSION wait_timeout = 86400"
"""For both sessions: one is idle while the other is used, and the reader for the server while its rows are taken."""
_READER: Final = (
    f"{_PATIENT}, character_set_results = NULL, net_write_timeout = 86400, lock_wait_timeout = {{lock_wait_s}}"
)
"""Returns values as stored; long timeouts for a reader that pauses, a short one for locks."""
_PREPARED_DENIED: Final = ("1401", "1227")
_ENGINE: Final = (
    "SELECT t.ENGINE, t.TABLE_TYPE, e.TRANSACTIONS FROM information_schema.TABLES t "
    "LEFT JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s"
)


class ChunkSessions:
    """Opens both sessions. Executor; for one chunk at a time.

    Args:
        connect: opens a session in UTC without sql_mode, as `server.connection.connect` does.
        lock_wait_s: how long to wait for the table while it is being altered.

    Attributes:
        reader: for the view and the SELECT.
        side: for everything else.
        info: the server.
        definition: reads a table's current definition.

    Raises SourceError and SourceUnavailable.
    """

    def __init__(self, connect: Callable[[], MySqlConnection], lock_wait_s: int) -> None:
        self.side = connect()
        try:
            query(self.side, _PATIENT)
            self.info: ServerInfo = server_info(self.side)
            self.definition = table_reader(self.side)
            self.reader = connect()
            self.reader._read_timeout = LONGEST_WAIT_S  # type: ignore[attr-defined]
        except BaseException:
            self.side.close()
            raise
        try:
            query(self.reader, _READER.format(lock_wait_s=lock_wait_s))
            query(self.reader, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close both sessions, and kill a statement of the reader that is still running, without waiting for it."""
        reader: Any = self.reader  # untyped in PyMySQL's stubs
        with suppress(SourceError):
            if reader.open:
                query(self.side, f"KILL {int(reader.thread_id())}")
        for connection in (self.side, self.reader):
            if connection.open:
                _drop(connection)

    def end_view(self) -> None:
        """End the reader's transaction, so that the server may purge old row versions and alter the table."""
        query(self.reader, "ROLLBACK")

    def end_of_log(self) -> LogPosition:
        """Return the end of the written log. Transactions before it may not be committed yet."""
        new = not self.info.mariadb and self.info.version_number >= (8, 2, 0)
        row = query(self.side, "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS")[0]
        return LogPosition(str(row[0]), int(row[1]))

    def events_from(self, at: LogPosition) -> list[tuple[str, int]]:
        """MariaDB: return types and end positions of the next few events of a log file; none at the end of the log."""
        end = self.end_of_log()
        if (end.file, end.position) <= (at.file, at.position) or end.file != at.file:
            return []
        rows = query(self.side, "SHOW BINLOG EVENTS IN %s FROM %s LIMIT 4", (at.file, at.position))
        return [(str(row[2]), int(row[4])) for row in rows]

    def gtids_underway(self) -> str:
        """MySQL: return transactions that have a GTID and are not committed yet."""
        return _one_line(query(self.side, "SELECT @@GLOBAL.gtid_owned")[0][0])

    def executed_gtids(self) -> str:
        """MySQL: return transactions that are committed, and visible to every view opened from now on."""
        return _one_line(query(self.side, "SELECT @@GLOBAL.gtid_executed")[0][0])

    def prepared(self) -> bool:
        """Return whether XA transactions are prepared.

        Raises SourceError if there may be some that the account may not see. An account without XA_RECOVER_ADMIN learns
        only whether any was prepared since the server's start.
        """
        try:
            return bool(query(self.side, "XA RECOVER"))
        except SourceError as error:
            if error.retryable or not _is_denied(error):
                raise
            rows = query(self.side, "SHOW GLOBAL STATUS LIKE 'Com_xa_prepare'")
            if not rows or int(rows[0][1]) == 0:
                return False
            where = where_of(self.side)
            raise SourceError(
                "XA transactions are used on this server, and the account may not see which are prepared: their rows "
                "would be missing from a copy",
                where=where,
                hint=f"run on the server: GRANT XA_RECOVER_ADMIN ON *.* TO {account(where)}",
            ) from error

    def check_engine(self, table: TableId) -> bool:
        """Return whether the table keeps row versions (MariaDB). Raises SourceError for engines without views."""
        rows = query(self.side, _ENGINE, (table.database, table.table))
        if not rows:
            return False
        engine, kind, transactions = rows[0]
        if str(transactions or "").upper() != "YES":
            raise no_view({table: str(engine)}, where_of(self.side))
        return str(kind) == "SYSTEM VERSIONED"


class SessionPool:
    """Keeps a chunk's sessions for the next chunk of the same task. Close it at the end."""

    def __init__(self) -> None:
        self._idle: ChunkSessions | None = None

    def acquire(self, connect: Callable[[], MySqlConnection], lock_wait_s: int) -> ChunkSessions:
        """Return the kept sessions, else new ones; the caller owns them until `release`. Raises as `ChunkSessions`."""
        kept, self._idle = self._idle, None
        return kept or ChunkSessions(connect, lock_wait_s)

    def release(self, sessions: ChunkSessions) -> None:
        """Keep idle sessions, unless they were closed by the server after their last row."""
        self.close()
        try:
            sessions.end_view()
        except SourceUnavailable:
            sessions.close()
        else:
            self._idle = sessions

    def close(self) -> None:
        """Close the kept sessions."""
        kept, self._idle = self._idle, None
        if kept is not None:
            kept.close()


def _drop(connection: Any) -> None:
    """Close the connection without the COM_QUIT that `close` sends."""
    connection._force_close()


def _one_line(text: object) -> str:
    return "".join(str(text or "").split())


def _is_denied(error: SourceError) -> bool:
    return "privilege" in error.message or any(code in error.message for code in _PREPARED_DENIED)
