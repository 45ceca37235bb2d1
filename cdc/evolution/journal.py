"""Which schema changes of a batch are carried out: one record for all sinks, kept by the engine.

DDL is not transactional in most systems, and after a crash a batch is applied again with the whole list of changes.
Most changes show in the tables: an added column is there, a dropped one is not. A swap of two names does not, nor does
a rename after which another table took the old name. So it is noted how many changes are done, after each. Only the
one after them is in question then, and that one shows: of two names of a table, exactly one exists.

One change does not show even then: a copy that takes its table's place by a swap of two names. That it is about to be
done is noted before, with what tells the copy from the table.

Format: `applied.json` in the sink's part of the state directory:
    {"batch": number, "digest": sha256 of the changes as JSON, "done": how many,
     "begun": {"identity": that of a copy, or null}}
"begun" is there when in the change after those that are done a copy takes its table's place, and it was begun.
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
    """The record of one list of changes of one batch. Driver; one thread."""

    def __init__(self, store: Store, batch: int, changes: Sequence[SchemaChange]) -> None:
        self._store, self._batch = store, batch
        self._digest = digest(changes)
        self.done, self.begun = self._read()

    def note(self, done: int) -> None:
        """The first `done` changes are carried out, and will not be again. Durable when it returns."""
        self.done, self.begun = done, None
        self._store.write_json(FILE, self._fields())

    def note_begun(self, identity: str | None) -> None:
        """The copy of that identity is about to take the place of its table. Durable when it returns."""
        self.begun = {"identity": identity}
        self._store.write_json(FILE, {**self._fields(), "begun": self.begun})

    def _fields(self) -> dict[str, object]:
        return {"batch": self._batch, "digest": self._digest, "done": self.done}

    def _read(self) -> tuple[int, dict[str, str | None] | None]:
        """How many are done, and which copy was about to take its table's place."""
        fields = self._store.read_json(FILE)
        if fields is None:
            return 0, None
        noted = (fields["batch"], fields["digest"])
        return (int(fields["done"]), fields.get("begun")) if noted == (self._batch, self._digest) else (0, None)


def digest(changes: Sequence[SchemaChange]) -> str:
    """The digest that tells one list of changes from another."""
    text = json.dumps([change_to_json(change) for change in changes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
