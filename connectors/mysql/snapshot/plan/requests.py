"""Requests to copy a table anew: one file each in the connector's state folder, whether the pipeline runs or not.

`resync/<name>.json` holds `{"table": ["shop", "orders"]}`. The plan remembers the name, so a request counts once; the
file goes when the batch that began the copy is in the sink.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.state.store import Store

FOLDER = "resync"
_SUFFIX = ".json"
_REMOVE = "remove the file, and ask again (cdc resync)"


class Requests:
    """The requests in a connector's state folder."""

    def __init__(self, store: Store) -> None:
        self._store = store.within(FOLDER)

    def add(self, table: TableId, name: str = "") -> None:
        """Ask for a table: on disk when it returns. Any process. A request of the same name counts once.

        Raises StateError when it cannot be written.
        """
        self._store.write_json(f"{name or secrets.token_hex(8)}{_SUFFIX}", {"table": [table.database, table.table]})

    def names(self) -> frozenset[str]:
        """The requests that are there. Cheap: asked several times a second. Raises StateError."""
        return frozenset(name.removesuffix(_SUFFIX) for name in self._store.names() if name.endswith(_SUFFIX))

    def table(self, name: str) -> TableId:
        """The table of a request. Raises StateError when it cannot be read."""
        document = f"{name}{_SUFFIX}"
        fields = self._store.read_json(document, hint=_REMOVE)
        try:
            database, table = (fields or {})["table"]
        except (ValueError, KeyError, TypeError) as error:
            where = self._store.where(document)
            raise StateError(f"cannot be read: {error!r}", where=where, hint=_REMOVE) from error
        return TableId(database, table)

    def remove(self, names: Iterable[str]) -> None:
        """Forget requests; those that are not there are fine. Raises StateError."""
        for name in self.names() & frozenset(names):
            self._store.remove(f"{name}{_SUFFIX}")
