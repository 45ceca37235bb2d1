"""The commit log: the coordinator's word on each batch, between prepare and commit. Driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.sink import Prepared
from cdc.state.store import RESTORE, Store


@dataclass(frozen=True, slots=True)
class Decision:
    """The coordinator's word on one batch: these handles are to be committed. `start` and `end` are its offsets.

    `reports` is what the tasks that made the handles have to tell the source (see `Learns.decided`), `stages` what the
    stages between source and sink need to go on behind the batch (`cdc.flow.derive`), by their names. `schemas` is from
    versions without stages: how many entries of the log of sink schemas hold; None where there was no such log.
    `generation` counts how often rows that the sink gave up were prepared anew.
    """

    batch: int
    start: dict[str, Any]
    end: dict[str, Any]
    prepared: tuple[Prepared, ...]
    reports: tuple[dict[str, Any], ...] = ()
    schemas: int | None = None
    generation: int = 0
    stages: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back to an equal decision."""
        return {
            "batch": self.batch,
            "start": self.start,
            "end": self.end,
            "prepared": [asdict(handle) for handle in self.prepared],
            "reports": list(self.reports),
            "schemas": self.schemas,
            "generation": self.generation,
            "stages": self.stages,
        }

    def all_stages(self, sink: str) -> dict[str, Any]:
        """What each stage needs; where there were none, `sink` is the name of the one that keeps the sink's schemas."""
        return {sink: self.schemas, **self.stages}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Decision:
        """The decision that `to_json` wrote."""
        prepared = (Prepared(**{**item, "table": TableId(**item["table"])}) for item in fields["prepared"])
        reports, schemas = tuple(fields.get("reports", ())), fields.get("schemas")
        generation, stages = fields.get("generation", 0), fields.get("stages", {})
        return cls(
            fields["batch"], fields["start"], fields["end"], tuple(prepared), reports, schemas, generation, stages
        )


class CommitLog:
    """Decisions on batches, one small file each. Driver."""

    KEEP = 16
    """Decisions of batches that are committed, kept for a look when something went wrong."""

    def __init__(self, store: Store) -> None:
        self._store, self._resyncs = store, store.within("resync")

    def decide(self, decision: Decision) -> None:
        """Write the decision: from here on the batch will be committed, whatever crashes. Raises StateError."""
        self._store.write_json(f"{decision.batch}.json", decision.to_json())

    def check_held(self) -> None:
        """Raise StateUnavailable when another run may have begun, which commits what is decided."""
        self._store.check_held()

    def get(self, batch: int) -> Decision | None:
        """The decision on a batch, None when there is none."""
        name = f"{batch}.json"
        fields = self._store.read_json(name)
        try:
            return None if fields is None else Decision.from_json(fields)
        except (KeyError, TypeError) as error:
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(name), hint=RESTORE) from error

    def note_committed(self, batch: int) -> None:
        """Note that this batch, and so every one before it, is committed. Raises StateError.

        A restart that does not find the note commits once more, which changes nothing.
        """
        self._store.write_json_later("committed", {"batch": batch})

    def uncommitted(self) -> list[Decision]:
        """Decisions that are not known to be committed, in order of batches."""
        last = self.committed()
        found = (self.get(batch) for batch in sorted(self._batches()) if batch > last)
        return [decision for decision in found if decision is not None]

    def committed(self) -> int:
        """The last batch that is known to be committed, -1 when none is. Raises StateError."""
        noted = self._store.read_json("committed")
        return -1 if noted is None else int(noted["batch"])

    def last(self) -> int:
        """The last batch that is decided, -1 when none is. Any process."""
        return max(self._batches(), default=-1)

    def note_resync(self, table: TableId, batch: int, source: TableId | None = None) -> None:
        """A copy of this sink table was asked for, which comes after `batch`. Any process. Raises StateError.

        `source`: it has the rows of this source table alone; None: those of all that go there.
        """
        note = {"table": str(table), "batch": batch, "source": "" if source is None else str(source)}
        self._resyncs.write_json(f"{_hash(str(table) if source is None else f'{table} {source}')}.json", note)

    def resyncs(self, batch: int) -> Mapping[str, frozenset[str]]:
        """The sink tables of which copies were asked for that come after a batch, each with the source tables whose
        rows those have: the batch's rows of them need not get in. Empty text: of all that go there."""
        found: dict[str, frozenset[str]] = {}
        for note in (self._resyncs.read_json(name) for name in self._resyncs.names()):
            if note is not None and note["batch"] >= batch:
                found[note["table"]] = found.get(note["table"], frozenset()) | {note.get("source", "")}
        return found

    def prune(self, done: int) -> None:
        """Remove decisions of batches before `done - KEEP`, which is committed, and the notes of copies after those."""
        for name in self._resyncs.names():
            note = self._resyncs.read_json(name)
            if note is not None and note["batch"] <= done:
                self._resyncs.remove(name)
        for batch in self._batches():
            if batch < done - self.KEEP:
                self._store.remove(f"{batch}.json")

    def _batches(self) -> Iterator[int]:
        for name in self._store.names():
            if name.endswith(".json") and name[: -len(".json")].isdigit():
                yield int(name[: -len(".json")])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
