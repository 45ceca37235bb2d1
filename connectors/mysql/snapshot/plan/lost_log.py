"""Recovery from a log that the server purged unread (`scan.on-purged: resnapshot`). Stream reader process.

All tables are re-snapshotted from the current end of the log; the note of the loss may come from a task by way of the
driver. The jump is a batch of its own: its two offsets enclose a part of the log that is deleted and not read. It
brings the current definitions, and the snapshot of every table begins in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cdc.errors import StateError
from cdc.schema import DropTable, TableId
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.options import MySqlSourceOptions
from connectors.mysql.schema.history import SchemaEntry
from connectors.mysql.schema.schemas import Schemas
from connectors.mysql.server.positions import file_number
from connectors.mysql.snapshot.plan.coordinator import Coordinator

FILE_NAME = "lost.json"
_REMOVE = "remove the file, and re-snapshot the tables (cdc resync)"


class LostNote:
    """`lost.json` in the connector's state folder: a task found its part of the log purged.

    Holds the number of entries of the chunk plan at that time: a jump among later entries resolves it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def write(self, entries: int) -> None:
        """Write the note. Driver, when the batch of that task is decided. Repeatable. Raises StateError."""
        self._store.write_json(FILE_NAME, {"entries": entries})

    def entries(self) -> int | None:
        """Return the note's number of entries, None without a note. Stream reader process. Raises StateError."""
        fields = self._store.read_json(FILE_NAME, hint=_REMOVE)
        if fields is None:
            return None
        try:
            return int(fields["entries"])
        except (ValueError, KeyError, TypeError) as error:
            where = self._store.where(FILE_NAME)
            raise StateError(f"cannot be read: {error!r}", where=where, hint=_REMOVE) from error

    def remove(self) -> None:
        """Remove the note, once the jump is in the sink. Raises StateError."""
        self._store.remove(FILE_NAME)


def jump(
    start: MySqlOffset,
    options: MySqlSourceOptions,
    streams: Streams,
    schemas: Schemas,
    coordinator: Coordinator,
    captures: Callable[[TableId], bool],
) -> MySqlOffset:
    """Return the offset at the current end of the log, after a batch in which all tables restart.

    The log reader must be stopped. Raises SourceError when the server cannot be captured from.
    """
    from connectors.mysql.follow.startup import start_of

    at_end = options.model_copy(update={"startup_mode": "latest-offset"})
    now = start_of(at_end, streams)
    tables = {table.id: table for table in now.known.tables}
    known = schemas.history.tables(start.schemas)
    gone = [table for table in known if captures(table) and table not in tables]
    at = {"file": now.position.file, "pos": now.position.position}
    entry = SchemaEntry.of_gone_tables(at, gone, tuple(map(DropTable, gone)))
    behind = file_number(start.position.file) + 1 - file_number(now.position.file)
    return replace(
        start,
        position=now.position,
        gtids=now.gtids,
        server=now.info.identity,
        schemas=schemas.add(start.schemas, list(tables.values()), captures, now.position, entry),
        chunks=coordinator.restart_all(start, tables.keys()),
        # sequences must grow even if the log was reset or continues in the same file
        files_ahead=start.files_ahead + max(behind, 0),
    )
