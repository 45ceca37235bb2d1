"""Rows that foreign keys change without a word in the log: re-snapshots of their tables (`foreign-key-cascades: copy`).

    stream reader   at the start of a run, and behind changes of schemas: asks the server which foreign keys do so, and
                    takes those that the log has declared since; `cascades.json` in the connector's state. Those known
                    before stay until the log is read so far, as what is behind may be from their time
    task            a row of a parent is deleted, or its referenced columns change: leaves a request for the children
    stream reader   takes up a request once the copy before is through and the interval has passed, or the log comes to
                    a RENAME of its table

A request that waits stands for all that come meanwhile: its copy reads the table later than any of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

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
    REQUEST,
    Links,
    add_links,
    followed,
    keep_links,
    read_links,
    short_name,
)
from connectors.mysql.snapshot.plan.requests import Requests
from connectors.mysql.snapshot_options import SnapshotOptions


class DueRequests:
    """The choice of the requests that may be taken up. Stream reader process.

    Args:
        interval_s: between the beginnings of two copies of a table.
    """

    def __init__(self, requests: Requests, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._requests, self._interval_s, self._clock = requests, interval_s, clock
        self._begun: dict[str, float] = {}

    def select(
        self,
        names: Collection[str],
        copying: Collection[TableId],
        *,
        renamed: Collection[TableId] = (),
        hurry: bool = False,
    ) -> frozenset[str]:
        """The requests among these that are due; of several for a table one stays. `hurry`: a run is to end.

        Nothing else is kept back. `copying` are tables whose copy is under way; `renamed` are those that the batch
        renames, by the names before it, under which no later batch finds them.
        """
        waiting: dict[str, str] = {}
        for name in sorted(names):
            if name.startswith(REQUEST):
                waiting[name.removeprefix(REQUEST)[:16]] = name
        if not waiting:
            return frozenset(names)
        others = {name for name in names if not name.startswith(REQUEST)}
        self._requests.remove(set(names) - others - set(waiting.values()))
        busy, last = {short_name(table) for table in copying}, set(map(short_name, renamed))
        now = self._clock()
        due = {
            name
            for table, name in waiting.items()
            if table in last
            or (table not in busy and (hurry or now - self._begun.get(table, -self._interval_s) >= self._interval_s))
        }
        return frozenset(others | due)

    def note_begun(self, names: Collection[str]) -> None:
        """Copies have begun that these requests asked for."""
        now = self._clock()
        self._begun |= {name.removeprefix(REQUEST)[:16]: now for name in names if name.startswith(REQUEST)}


class Cascading:
    """Knows what the tasks look for. Stream reader process."""

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
        """Before a batch: ask the server again, when the schema history has other entries than at the last time.

        A server that is away is waited for, as rows of the batch may be those that are looked for: only a run that is
        to stop does with what the log declares. Raises SourceError, StateError.
        """
        if self._options.cascades != "copy":
            return
        if self._until is not None and not start.moved_to(end) and start.position >= self._until:
            keep_links(self._store, self._now, self._captures)
            self._until = None
        if (end.server, end.schemas) == self._looked_at:
            return
        entries = self._history.entries(start.schemas, end.schemas)
        add_links(self._store, followed(read_links(self._store), entries), self._captures)
        retry = self._streams.retry
        try:
            self._now, until = retry.call(self._read_links, "asking for foreign keys")
        except SourceUnavailable:
            if retry.stopping():
                return
            raise
        add_links(self._store, self._now, self._captures)
        self._looked_at, self._until = (end.server, end.schemas), until

    def _read_links(self) -> tuple[Links, LogPosition]:
        """The present foreign keys, and the end of the server's log. Raises SourceUnavailable at once."""
        with self._streams.session(patient=False) as session:
            tables = [table for table in table_ids(session) if self._captures(table)]
            found = unlogged_links(session, server_info(session), tables)
            file, position, _ = end_of_log(session)
        return found, LogPosition(file, position)
