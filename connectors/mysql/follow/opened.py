"""When the server opened the log file in which a pipeline stands: `opened.json` of the source's folder keeps it.

A server that resets its log begins again with the same file names, and GTIDs count from 1 again. Once as much is
written as before, a position of the old file may be one of the new file too, with other transactions before it; only
the moment at which the file was opened tells the two apart. Stream reader process.
"""

from __future__ import annotations

from cdc.errors import PositionLost
from cdc.state.store import Store
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.positions import opened_s
from connectors.mysql.server.server_info import where_of

FILE_NAME = "opened.json"
_REMOVE = "remove the file"


def check_opened(store: Store, connection: MySqlConnection, server: str, file: str) -> None:
    """Raises PositionLost when a file that was read before is another one of the same name now.

    Uses the connection up. A file that comes after the known one takes its place in the note.
    """
    where = where_of(connection)
    now = {"server": server, "file": file, "opened": opened_s(connection, file)}
    before = store.read_json(FILE_NAME, hint=_REMOVE)
    if before == now:
        return
    if before is not None and (before.get("server"), before.get("file")) == (server, file):
        raise PositionLost(
            f"{file} is another file than the one that was read: the server's log was reset",
            where=where,
            hint="start the pipeline anew with an empty state directory and empty sink tables",
        )
    store.write_json(FILE_NAME, now)


def forget_opened(store: Store) -> None:
    """The log that was read is given up: the pipeline goes on behind a gap, perhaps in a file of the same name."""
    store.remove(FILE_NAME)
