"""Which schema changes of the running batch are carried out: for those whose repetition the tables alone cannot tell.

DDL is not transactional in either server, and `apply` is called again with the whole list after a crash. Most changes
show in the tables: an added column is there, a dropped one is not. A swap of two names does not, nor does a rename
after which another table took the old name. So the number of finished changes is kept in a file of the state directory
until the batch is committed. What a change did when the process died in its middle is still told by the tables.

Format: `applied.json` in the sink's folder: {"digest": sha256 of the changes as JSON, "done": how many}.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from cdc.schema import SchemaChange
from cdc.schema_json import change_to_json
from cdc.state.store import Store

_FILE = "applied.json"


class Applied:
    """The record of one list of changes. Driver."""

    def __init__(self, store: Store, changes: Sequence[SchemaChange]) -> None:
        self._store = store
        self._digest = _digest(changes)
        self.done = self._read()

    def note(self, done: int) -> None:
        """The first `done` changes are carried out, and will not be again. Durable when it returns."""
        self.done = done
        self._store.write_json(_FILE, {"digest": self._digest, "done": done})

    def _read(self) -> int:
        fields = self._store.read_json(_FILE)
        return int(fields["done"]) if fields is not None and fields["digest"] == self._digest else 0


def forget(store: Store) -> None:
    """The batch is committed: the same changes in a later batch are meant. Driver; may repeat."""
    store.remove(_FILE)


def _digest(changes: Sequence[SchemaChange]) -> str:
    text = json.dumps([change_to_json(change) for change in changes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
