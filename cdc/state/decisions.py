"""The commit log: the coordinator's decision on each batch, between prepare and commit. Driver.

Payloads of decided handles (`Prepared.payload`) are bytes in files next to the decisions, named by their content:

    <state>/commits/payloads/<batch>/<first 32 hex digits of the SHA-256>

The decision has the size and SHA-256 of each. A file is on disk, or in the object store, before the decision that names
it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.sink import Prepared
from cdc.state.durable import new_file, state_error
from cdc.state.store import RESTORE, Store

_FOLDER = "payloads"


@dataclass(frozen=True, slots=True)
class Payloads:
    """The payloads of all batches, in the `store` of the decisions. Driver."""

    store: Store

    def write(self, batch: int, payload: bytes) -> dict[str, Any]:
        """Write a payload; return its size and SHA-256, for `read`. Raises StateError."""
        digest = hashlib.sha256(payload).hexdigest()
        path = self._path(batch, digest)
        try:
            if not (path.is_file() and path.read_bytes() == payload):
                with new_file(path) as file:
                    file.write(payload)
                self.store.persist(path)
        except OSError as error:
            raise state_error(path, error) from error
        return {"bytes": len(payload), "sha256": digest}

    def read(self, batch: int, described: Mapping[str, Any], table: str) -> bytes:
        """Read a payload. Raises StateError if it is missing or damaged."""
        path = self._path(batch, described["sha256"])
        try:
            payload = path.read_bytes()
        except OSError as error:
            reason = f"the commit payload of {table} in batch {batch} cannot be read: {error.strerror}"
            raise StateError(reason, where=str(path), hint=RESTORE) from error
        if len(payload) != described["bytes"] or hashlib.sha256(payload).hexdigest() != described["sha256"]:
            reason = (
                f"the commit payload of {table} in batch {batch} is damaged: {len(payload)} bytes, the decision has "
                f"{described['bytes']} with SHA-256 {described['sha256'][:16]}"
            )
            raise StateError(reason, where=str(path), hint=RESTORE)
        return payload

    def remove(self, batch: int) -> None:
        """Remove the payloads of a batch."""
        self.store.drop(self.store.bulk(_FOLDER) / str(batch))

    def _path(self, batch: int, digest: str) -> Path:
        return self.store.bulk(_FOLDER) / str(batch) / digest[:32]


@dataclass(frozen=True, slots=True)
class Decision:
    """The coordinator's decision on one batch: its handles will be committed.

    Attributes:
        start, end: the offsets of the batch.
        prepared: the handles.
        reports: of the tasks that prepared the handles, for `Source.store_reports`.
        generation: how often rows lost by the sink were prepared again.
        tables: the number of valid entries in the table log after the batch (`cdc.tables.log`).
        noted: names of the notes (`cdc.state.notes`) of the attempts that prepared the handles.
    """

    batch: int
    start: dict[str, Any]
    end: dict[str, Any]
    prepared: tuple[Prepared, ...]
    reports: tuple[dict[str, Any], ...] = ()
    generation: int = 0
    tables: int = 0
    noted: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object for `from_json`, without the payloads of the handles."""
        return {
            "batch": self.batch,
            "start": self.start,
            "end": self.end,
            "prepared": [handle.to_json() for handle in self.prepared],
            "reports": list(self.reports),
            "generation": self.generation,
            "tables": self.tables,
            "noted": list(self.noted),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Decision:
        """The decision that `to_json` wrote."""
        prepared = tuple(map(Prepared.from_json, fields["prepared"]))
        return cls(
            fields["batch"], fields["start"], fields["end"], prepared, tuple(fields["reports"]), fields["generation"],
            fields["tables"], tuple(fields["noted"]),
        )  # fmt: skip


class CommitLog:
    """Decisions on batches, one small file each. Driver."""

    KEEP = 16
    """Decisions of committed batches that are kept for troubleshooting."""

    def __init__(self, store: Store) -> None:
        self._store, self._payloads = store, Payloads(store)

    def decide(self, decision: Decision) -> None:
        """Write the decision: from then on the batch will be committed, whatever crashes. Raises StateError.

        The payloads of its handles are written first.
        """
        fields = decision.to_json()
        for item, handle in zip(fields["prepared"], decision.prepared, strict=True):
            if handle.payload:
                item["payload"] = self._payloads.write(decision.batch, handle.payload)
        self._store.write_json(f"{decision.batch}.json", fields)

    def check_lease(self) -> None:
        """Raise StateUnavailable if another run may have taken over, which commits what is decided."""
        self._store.check_lease()

    def get(self, batch: int, *, payloads: bool = False) -> Decision | None:
        """The decision on a batch, None if there is none. With `payloads` its handles can be committed.

        Raises StateError.
        """
        name = f"{batch}.json"
        fields = self._store.read_json(name)
        if fields is None:
            return None
        try:
            described = [item.pop("payload", None) for item in fields["prepared"]]
            decision = Decision.from_json(fields)
            if not payloads:
                return decision
            return replace(
                decision, prepared=tuple(map(partial(self._with_payload, batch), decision.prepared, described))
            )
        except (KeyError, TypeError) as error:
            raise StateError(f"cannot be read: {error!r}", where=self._store.where(name), hint=RESTORE) from error

    def _with_payload(self, batch: int, handle: Prepared, described: dict[str, Any] | None) -> Prepared:
        """A handle with its payload."""
        if described is None:
            return handle
        return replace(handle, payload=self._payloads.read(batch, described, str(handle.table)))

    def note_committed(self, batch: int) -> None:
        """Note that this batch, and every batch before it, is committed. Raises StateError.

        Without the note a restart commits the batch again, which has no effect.
        """
        self._store.write_json_later("committed", {"batch": batch})

    def uncommitted(self) -> list[Decision]:
        """Decisions that are not known to be committed, with payloads, in order of batches."""
        last = self.committed()
        found = (self.get(batch, payloads=True) for batch in sorted(self._batches()) if batch > last)
        return [decision for decision in found if decision is not None]

    def committed(self) -> int:
        """The last batch that is known to be committed, -1 when none is. Raises StateError."""
        noted = self._store.read_json("committed")
        if noted is None:
            return -1
        if not isinstance(noted.get("batch"), int):
            reason = "cannot be read: it names no batch"
            raise StateError(reason, where=self._store.where("committed"), hint=RESTORE)
        return int(noted["batch"])

    def last(self) -> int:
        """The last batch that is decided, -1 when none is. Any process."""
        return max(self._batches(), default=-1)

    def prune(self, done: int) -> None:
        """Remove decisions of batches before `done - KEEP`; `done` is committed."""
        for batch in self._batches():
            if batch < done - self.KEEP:
                fields = self._store.read_json(f"{batch}.json") or {}
                if any("payload" in handle for handle in fields.get("prepared", ())):
                    self._payloads.remove(batch)
                self._store.remove(f"{batch}.json")

    def _batches(self) -> Iterator[int]:
        for name in self._store.names():
            if name.endswith(".json") and name[: -len(".json")].isdigit():
                yield int(name[: -len(".json")])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
