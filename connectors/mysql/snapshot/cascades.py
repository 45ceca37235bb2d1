"""Re-snapshots of tables whose rows foreign keys change without logging it (`foreign-key-cascades: copy`).

    stream reader   queries the server for such foreign keys at the start of a run and after schema changes, and adds
                    those declared in the log; keeps them in `cascades.json` in the connector's state. Older ones stay
                    until the log is read to the position of the query, as rows before it may be from their time
    task            leaves a request for the children when a row of a parent is deleted or its referenced columns change
    stream reader   takes up a request when the previous snapshot is finished and the interval has passed, or when the
                    log reaches a RENAME of its table

A pending request covers all that arrive in the meantime: its snapshot reads the table later than any of them.
"""

from __future__ import annotations

from collections.abc import Callable

from cdc.errors import SourceUnavailable
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.follow.streams import Streams
from connectors.mysql.log.offset import MySqlOffset
from connectors.mysql.schema.history import SchemaHistory
from connectors.mysql.server.foreign_keys import unlogged_links
from connectors.mysql.server.information_schema import table_ids
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_info import end_of_log, server_info
from connectors.mysql.snapshot.cascade_targets import (
    Links,
    links_after,
    read_links,
    write_links,
)
from connectors.mysql.snapshot_options import SnapshotOptions


class Cascading:
    """Maintains the foreign keys that tasks watch. Stream reader process."""

    def __init__(
        self,
        options: SnapshotOptions,
        store: Store,
        history: SchemaHistory,
        streams: Streams,
        captures: Callable[[TableId], bool],
    ) -> None:
        self._options, self._store, self._history = options, store, history
        self._streams, self._captures = streams, captures
        self._looked_at: tuple[str, int] | None = None
        self._now: Links = ()
        self._until: LogPosition | None = None

    def refresh(self, start: MySqlOffset, end: MySqlOffset) -> None:
        """Query the server for foreign keys before a batch, if the schema history has changed since the last query.

        Waits for a server that is down, as rows of the batch may be affected by an unknown foreign key; only a stopping
        run continues with those declared in the log. Raises SourceError, StateError.
        """
        if self._options.cascades != "copy":
            return
        if self._until is not None and not start.moved_to(end) and start.position >= self._until:
            write_links(self._store, self._now)
            self._until = None
        if (end.server, end.schemas) == self._looked_at:
            return
        entries = self._history.entries(start.schemas, end.schemas)
        write_links(self._store, links_after(read_links(self._store), entries))
        retry = self._streams.retry
        try:
            self._now, until = retry.call(self._read_links, "asking for foreign keys")
        except SourceUnavailable:
            if retry.stopping():
                return
            raise
        write_links(self._store, dict.fromkeys((*read_links(self._store), *self._now)))
        self._looked_at, self._until = (end.server, end.schemas), until

    def _read_links(self) -> tuple[Links, LogPosition]:
        """Query the current foreign keys and the end of the server's log. Raises SourceUnavailable without retrying."""
        with self._streams.session(patient=False) as session:
            tables = [table for table in table_ids(session) if self._captures(table)]
            found = unlogged_links(session, server_info(session), tables)
            file, position, _ = end_of_log(session)
        return found, LogPosition(file, position)
