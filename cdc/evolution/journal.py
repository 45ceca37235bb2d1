"""The journal: which schema changes of a batch are applied. The engine keeps it, in the same form for all sinks.

DDL is not transactional in most systems, and after a crash a batch is applied again with the whole list of changes.
Most changes are visible in the tables: an added column exists, a dropped one does not. A swap of two names is not, nor
is a rename after which another table took the old name. So the number of applied changes is recorded after each one.
Only the next change is then in doubt, and that one is visible: of a table's two names, exactly one exists.

One change is not visible even then: replacing a table with its copy by a swap of two names. The journal records it
before it begins, with the identity of the copy.

Format: `applied.json` in the sink's part of the state directory:
    {"batch": number, "digest": sha256 of the changes as JSON, "done": number of applied changes,
     "begun": {"identity": identity of a copy, or null}}
"begun" is present when the change after the applied ones replaces a table with its copy and was begun.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from cdc.schema import SchemaChange
from cdc.schema_json import change_to_json
from cdc.state.store import Store

FILE = "applied.json"


class Journal:
    """The journal of one batch's list of changes. Driver; one thread."""

    def __init__(self, store: Store, batch: int, changes: Sequence[SchemaChange]) -> None:
        self._store, self._batch = store, batch
        self._digest = digest(changes)
        self.done, self.begun = self._read()

    def note(self, done: int) -> None:
        """Record that the first `done` changes are applied and must not be repeated. Durable when it returns."""
        self.done, self.begun = done, None
        self._store.write_json(FILE, self._fields())

    def note_begun(self, identity: str | None) -> None:
        """Record that the copy with that identity is about to replace its table. Durable when it returns."""
        self.begun = {"identity": identity}
        self._store.write_json(FILE, {**self._fields(), "begun": self.begun})

    def _fields(self) -> dict[str, object]:
        return {"batch": self._batch, "digest": self._digest, "done": self.done}

    def _read(self) -> tuple[int, dict[str, str | None] | None]:
        """Return the number of applied changes, and the copy that was about to replace its table."""
        fields = self._store.read_json(FILE)
        if fields is None:
            return 0, None
        noted = (fields["batch"], fields["digest"])
        return (int(fields["done"]), fields.get("begun")) if noted == (self._batch, self._digest) else (0, None)


def digest(changes: Sequence[SchemaChange]) -> str:
    """Return the digest that identifies a list of changes."""
    text = json.dumps([change_to_json(change) for change in changes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
