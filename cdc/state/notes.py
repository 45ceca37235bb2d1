"""Names that sinks note before something gets them (`TaskAttempt.note`), so that an abort finds what has them.

    <state>/notes/<batch>-<partition>-<generation>-<attempt>-<n>.json    {"values": [...]}, in the order of the notes

An attempt has documents from its first note on, each of at most `_MOST` notes. With the decision on a batch those of
the attempts whose handles count go; what other attempts have noted stays until an abort was handed it.
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
"""Notes in one document, which is written whole for each of them."""


class AttemptNotes:
    """The notes of one attempt of a task. Executor; threads may share it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._values: list[Any] = []
        self._whole = 0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the attempt; empty while nothing is noted."""
        return self._name if self._values or self._whole else ""

    def __call__(self, value: Any) -> None:
        """Keep a JSON value, on disk when this returns. Raises StateError, and then it may be there or not."""
        with self._lock:
            self._values.append(value)
            self._store.write_json(f"{self._name}-{self._whole}.json", {"values": self._values})
            if len(self._values) == _MOST:
                self._values, self._whole = [], self._whole + 1


@dataclass(frozen=True, slots=True)
class Undecided:
    """Values that no decision covers, in the order of batches; `names` are their documents."""

    values: tuple[Any, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notes:
    """All notes of one pipeline. Picklable; `store` is their own part of the state."""

    store: Store

    @property
    def reports(self) -> Reports:
        """Reports of the source about rows that a sink commits in its tasks."""
        return Reports(self.store.within("reports"))

    def of_attempt(self, batch: int, partition: int, generation: int, attempt: int) -> AttemptNotes:
        """The notes of one attempt of one task. Executor."""
        return AttemptNotes(self.store, f"{batch}-{partition}-{generation}-{attempt}")

    def forget_decided(self, batch: int, names: Collection[str]) -> None:
        """The handles of the attempts with these names are decided: their notes go, and equal ones of others.

        Driver, once the decision is on disk and before its commit; repeatable. Raises StateError.
        """
        if not names:
            return
        there = [name for name, of in self._documents() if of == batch]
        decided = {name for name in there if name.rpartition("-")[0] in names}
        kept = {_text(value) for name in decided for value in self._values(name)}
        for name in there:
            if name not in decided:
                values = self._values(name)
                left = [value for value in values if _text(value) not in kept]
                if left:
                    self.store.write_json(name, {"values": left})
                if left or not values:
                    continue
            self.store.remove(name)

    def undecided(self, batch: int, committed: int) -> Undecided:
        """The notes that an abort of a batch has to find: its own, later ones, and leftovers of committed batches.

        Driver. Notes of batches that are decided and not committed stay. Raises StateError.
        """
        names = [name for name, of in self._documents() if of >= batch or of <= committed]
        return Undecided(tuple(value for name in names for value in self._values(name)), tuple(names))

    def forget(self, names: Sequence[str]) -> None:
        """Nothing has these names any more. Driver. Raises StateError."""
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
