"""Whether a server's log is still the one that was read. When the server opened the file in which a pipeline stands is
kept in `opened.json` of the source's folder.

A server that resets its log begins again with the same file names, and GTIDs count from 1 again. Once as much is
written as before, a position of the old file may be one of the new file too, with other transactions before it; only
the moment at which the file was opened tells the two apart. Stream reader process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cdc.errors import PositionLost
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import LOST_LOG_HINT
from connectors.mysql.server.positions import LogPosition, list_logs, opened_s
from connectors.mysql.server.same_server import check_not_reset, check_same, check_same_log, check_same_place
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
    """Whether the server's log has what `start` is behind, and goes on at a position, where the transactions `done` are
    done. Raises SourceError."""
    with streams.session() as connection:
        info = check_server(connection, captures)
        check_same(connection, start.server)
        check_not_reset(connection, info, start.gtids)
        check_same_log(connection, info, at, done)
        unknown = at == start.position and check_same_place(connection, info, at.file, at.position, start.gtids)
    before = _check_opened(store, streams.session, info.identity, at.file)
    if unknown:  # a log that was reset is told first, and the file of a server that may be another is not noted
        raise unknown
    if before != at.file:
        note_opened(store, info.identity, at.file, opened_s(streams.session(), at.file))
    return info


def _check_opened(store: Store, open_session: Callable[[], MySqlConnection], server: str, file: str) -> str | None:
    """The file in the note. Raises PositionLost when one that was read before is another of the same name now, and
    SourceError.

    `file` is one that the server has. A file that comes after the known one takes its place in the note; the known one
    has to be the same until it is purged, or log was rewritten up to the other since.
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
    """Uses the connection up."""
    where, file = where_of(connection), before["file"]
    if opened_s(connection, file) != before["opened"]:
        raise PositionLost(
            f"{file} is another file than the one that was read: the server's log was reset",
            where=where,
            hint=LOST_LOG_HINT,
        )


def note_opened(store: Store, server: str, file: str, seconds: int) -> None:
    """A reader has come to the beginning of a file that the server opened then. Repeatable."""
    store.write_json(FILE_NAME, {"server": server, "file": file, "opened": seconds})


def forget_opened(store: Store) -> None:
    """The log that was read is given up: the pipeline goes on behind a gap, perhaps in a file of the same name."""
    store.remove(FILE_NAME)
