"""Checks that a server's log is still the one that was read.

The time at which the server opened the pipeline's current file is stored in `opened.json` of the source's folder. A
server that resets its log reuses the same file names, and GTIDs count from 1 again. Once as much is written as before,
a position of the old file may also exist in the new file, with other transactions before it; only the time at which the
file was opened distinguishes the two. Stream reader process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cdc.errors import PositionLost, SourceUnavailable
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import LOST_LOG_HINT
from connectors.mysql.server.positions import LogPosition, list_logs, opened_s
from connectors.mysql.server.same_server import check_not_reset, check_same, check_same_history, check_same_log
from connectors.mysql.server.server_check import check_server
from connectors.mysql.server.server_info import ServerInfo, where_of

FILE_NAME = "opened.json"
_REMOVE = "remove the file"


def check_log(
    store: Store,
    streams: Streams,
    captures: Callable[[TableId], bool],
    start: MySqlOffset,
    at: LogPosition,
    done: str | None,
) -> ServerInfo:
    """Check that the server's log has everything before `start` and continues at a position where `done` is committed.

    Raises SourceError.
    """
    with streams.session() as connection:
        info = check_server(connection, captures)
        check_same(connection, start.server)
        check_not_reset(connection, info, start.gtids)
        check_same_log(connection, info, at, done)
        try:
            if at == start.position:
                check_same_history(connection, info, at.file, at.position, start.gtids)
        except SourceUnavailable:  # a reset log, if it is one, explains more
            _check_opened(store, streams.session, info.identity, at.file)
            raise
    before = _check_opened(store, streams.session, info.identity, at.file)
    if before != at.file:
        note_opened(store, info.identity, at.file, opened_s(streams.session(), at.file))
    return info


def _check_opened(store: Store, open_session: Callable[[], MySqlConnection], server: str, file: str) -> str | None:
    """Return the file in the note. Raises SourceError, and PositionLost for a file replaced by one of the same name.

    `file` exists on the server. A file later than the known one replaces it in `opened.json`; the known one must be
    unchanged until it is purged, or the log was rewritten up to the later file.
    """
    before = store.read_json(FILE_NAME, hint=_REMOVE)
    if before is None or before.get("server") != server:
        return None
    if before["file"] == file or _has(open_session(), before["file"]):
        _check_same(open_session(), before)
    return str(before["file"])


def _has(connection: MySqlConnection, file: str) -> bool:
    try:
        return any(log.name == file for log in list_logs(connection))
    finally:
        connection.close()


def _check_same(connection: MySqlConnection, before: Mapping[str, Any]) -> None:
    """Compare the time at which a file was opened. Closes the connection."""
    where, file = where_of(connection), before["file"]
    if opened_s(connection, file) != before["opened"]:
        raise PositionLost(
            f"{file} is not the file that was read: the server's log was reset",
            where=where,
            hint=LOST_LOG_HINT,
        )


def note_opened(store: Store, server: str, file: str, seconds: int) -> None:
    """Record the time at which the server opened a file that a reader has reached. Repeatable."""
    store.write_json(FILE_NAME, {"server": server, "file": file, "opened": seconds})


def forget_opened(store: Store) -> None:
    """Forget the log that was read: the pipeline continues after a gap, perhaps in a file of the same name."""
    store.remove(FILE_NAME)
