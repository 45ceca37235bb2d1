"""A state directory without files, for suites of thousands of small runs that nobody goes on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.state.append_log import AppendLog
from cdc.state.directory import StateDir
from cdc.state.store import Store

_NOWHERE = Path("in memory")


@dataclass(frozen=True, eq=False)
class MemoryStore(Store):
    """Documents and logs of one process, which are gone with it. Parts of one store share what it holds.

    It has no place for bulk data: `bulk` raises StateError.
    """

    folder: str = ""
    _documents: dict[str, bytes] = field(default_factory=dict)
    _logs: dict[str, MemoryLog] = field(default_factory=dict)

    def where(self, name: str = "") -> str:
        """A name for messages."""
        return str(_NOWHERE / self.folder / name)

    def within(self, folder: str) -> MemoryStore:
        """The part of the store below `folder`."""
        return MemoryStore(f"{self.folder}{folder}/", self._documents, self._logs)

    def read(self, name: str) -> bytes | None:
        """A document; None when there is none of this name."""
        return self._documents.get(self.folder + name)

    def write(self, name: str, data: bytes) -> None:
        """Keep a document."""
        self._documents[self.folder + name] = data

    def remove(self, name: str) -> None:
        """Forget a document."""
        self._documents.pop(self.folder + name, None)

    def names(self) -> list[str]:
        """The documents of this part, without those in parts below."""
        there = list(self._documents)  # in one go: commits write in a thread of their own
        names = (name.removeprefix(self.folder) for name in there if name.startswith(self.folder))
        return sorted(name for name in names if "/" not in name)

    def log(self, name: str, what: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log; whoever asks for the same name gets the same one."""
        return self._logs.setdefault(self.folder + name, MemoryLog(_NOWHERE / self.folder / name, what, header))

    def bulk(self, folder: str) -> Path:
        """There is none."""
        raise StateError("a state in memory has no place for bulk data", where=self.where(folder), hint="use a folder")


class MemoryLog(AppendLog):
    """A log of one process."""

    def append(self, *items: Mapping[str, Any]) -> int:
        """Keep lines after the last one, as they would be read again; the new number of lines."""
        with self._lock:
            self._items += [json.loads(json.dumps(item)) for item in items]
            return len(self._items)

    def truncate(self, count: int) -> None:
        """Forget everything after the first `count` lines. Raises StateError when there are fewer."""
        with self._lock:
            kept: Sequence[dict[str, Any]] = self.items(0, count)
            if count < len(self._items):
                self._start_over(self.generation + 1, 0)
                self._items += kept

    def _refresh(self) -> None:
        """Everything is here."""


class MemoryState(StateDir):
    """A state directory that is empty at first and gone with the object. Belongs to one process."""

    def __init__(self) -> None:
        super().__init__(_NOWHERE)
        self.store = MemoryStore()

    def _create_folders(self) -> None:
        """There are none."""
