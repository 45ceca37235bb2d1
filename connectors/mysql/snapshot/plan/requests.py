"""Requests of tasks to re-snapshot a table: one file each in the connector's state folder.

`resync/<name>.json` holds `{"table": ["shop", "orders"], "reason": "...", "limited": true}`. The plan records the name,
so a request counts once; the file is removed when the batch that began the snapshot is in the sink. Orders of the
engine have no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import md5

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.state.store import Store
from connectors.mysql.snapshot.chunk import Begin

FOLDER = "resync"
MOVED = "moved-"
"""Prefix of the names of requests by tasks that read their part of the log on another server."""

MOVED_REASON = "a part of the log was read on another server"

_SUFFIX = ".json"
_REMOVE = "remove the file, and ask for the table with cdc resync"


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A request to re-snapshot a table.

    Attributes:
        reason: for people.
        limited: applies `schema-change.copy-max-rows` to the table.
    """

    name: str
    table: TableId
    reason: str = ""
    limited: bool = False


class Requests:
    """The requests in a connector's state folder."""

    def __init__(self, store: Store) -> None:
        self._store = store.within(FOLDER)

    def add(self, table: TableId, name: str, reason: str, *, limited: bool = False) -> None:
        """Add a request; it is on disk on return. Any process. A request of the same name counts once.

        Raises StateError when it cannot be written.
        """
        fields = {"table": [table.database, table.table], "reason": reason, "limited": limited}
        self._store.write_json(f"{name}{_SUFFIX}", fields)

    def names(self) -> frozenset[str]:
        """Return the names of pending requests. Cheap, as it is called several times a second. Raises StateError."""
        return frozenset(name.removesuffix(_SUFFIX) for name in self._store.names() if name.endswith(_SUFFIX))

    def get(self, name: str) -> SnapshotRequest:
        """Read a request. Raises StateError when it cannot be read."""
        document = f"{name}{_SUFFIX}"
        fields = self._store.read_json(document, hint=_REMOVE) or {}
        try:
            database, table = fields["table"]
            return SnapshotRequest(
                name, TableId(database, table), fields.get("reason", ""), fields.get("limited", False)
            )
        except (ValueError, KeyError, TypeError) as error:
            where = self._store.where(document)
            raise StateError(f"cannot be read: {error!r}", where=where, hint=_REMOVE) from error

    def remove(self, names: Iterable[str]) -> None:
        """Remove requests; missing ones are ignored. Raises StateError."""
        for name in self.names() & frozenset(names):
            self._store.remove(f"{name}{_SUFFIX}")


def short_name(table: TableId) -> str:
    """Return a name for a table that can be part of a request's name."""
    return md5(str(table).encode(), usedforsecurity=False).hexdigest()[:16]


def begin_for(request: SnapshotRequest, table: TableId) -> Begin:
    """Return the begin entry for a request; `table` is its current name. Pure."""
    return Begin(table, "resync", request.name, request.reason)
