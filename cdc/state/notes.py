"""Names that sinks note before they create something (`TaskAttempt.note`), so that an abort finds it.

    <state>/notes/<batch>-<partition>-<generation>-<attempt>-<n>.json    {"values": [...]}, in the order of the notes

An attempt has documents of at most `_MOST` notes each. The decision on a batch removes those of the attempts whose
handles it has; notes of other attempts stay until an abort has handled them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cdc.state.reports import Reports
from cdc.state.store import Store

_NAME = re.compile(r"((\d+)-\d+-\d+-\d+)-(\d+)\.json")
_MOST = 64
"""The most notes in one document, which is rewritten for each of them."""


class AttemptNotes:
    """The notes of one attempt of a task. Executor; threads may share it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._values: list[Any] = []
        self._whole = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the attempt; empty if it has no notes."""
        return self._name if self._values or self._whole else ""

    def __call__(self, value: Any) -> None:
        """Note a JSON value; it is on disk when this returns. After a StateError it may be stored or not."""
        with self._lock:
            self._values.append(value)
            self._store.write_json(f"{self._name}-{self._whole}.json", {"values": self._values})
            if len(self._values) == _MOST:
                self._values, self._whole = [], self._whole + 1


@dataclass(frozen=True, slots=True)
class Undecided:
    """Noted values that no decision covers, in the order of batches; `names` are their documents."""

    values: tuple[Any, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notes:
    """All notes of one pipeline. Picklable; `store` is the part of the state with the notes."""

    store: Store

    @property
    def reports(self) -> Reports:
        """Reports of the source about rows that a sink commits in its tasks."""
        return Reports(self.store.within("reports"))

    def of_attempt(self, batch: int, partition: int, generation: int, attempt: int) -> AttemptNotes:
        """The notes of one attempt of one task. Executor."""
        return AttemptNotes(self.store, f"{batch}-{partition}-{generation}-{attempt}")

    def forget_decided(self, batch: int, names: Collection[str]) -> None:
        """Remove the notes of attempts whose handles are decided, and equal notes of other attempts.

        Driver, once the decision is on disk and before its commit; repeatable. Raises StateError.
        """
        if not names:
            return
        matching = [name for name, of in self._documents() if of == batch]
        decided = {name for name in matching if name.rpartition("-")[0] in names}
        retained = {_text(value) for name in decided for value in self._values(name)}
        for name in matching:
            if name not in decided:
                values = self._values(name)
                remaining = [value for value in values if _text(value) not in retained]
                if remaining:
                    self.store.write_json(name, {"values": remaining})
                if remaining or not values:
                    continue
            self.store.remove(name)

    def undecided(self, batch: int, committed: int) -> Undecided:
        """The notes for an abort of a batch: its own, later ones, and leftovers of committed batches.

        Driver. Notes of batches that are decided but not committed are not among them. Raises StateError.
        """
        names = [name for name, of in self._documents() if of >= batch or of <= committed]
        return Undecided(tuple(value for name in names for value in self._values(name)), tuple(names))

    def forget(self, names: Sequence[str]) -> None:
        """Remove documents whose names an abort has handled. Driver. Raises StateError."""
        for name in names:
            self.store.remove(name)

    def _documents(self) -> Iterator[tuple[str, int]]:
        """Names and batches, in the order of batches; those of an attempt in the order of its notes."""
        matches = [match for name in self.store.names() if (match := _NAME.fullmatch(name))]
        for match in sorted(matches, key=lambda match: (int(match[2]), match[1], int(match[3]))):
            yield match[0], int(match[2])

    def _values(self, name: str) -> list[Any]:
        fields = self.store.read_json(name)
        return [] if fields is None else list(fields["values"])


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
