"""A state directory in memory, for suites of thousands of small runs that are not continued."""

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
    """Documents and logs in the memory of one process. Parts of one store share its content.

    It has no bulk storage: `bulk` raises StateError.
    """

    folder: str = ""
    _documents: dict[str, bytes] = field(default_factory=dict)
    _logs: dict[str, MemoryLog] = field(default_factory=dict)

    def where(self, name: str = "") -> str:
        """Return a name for messages."""
        return str(_NOWHERE / self.folder / name)

    def within(self, folder: str) -> MemoryStore:
        """Return the part of the store below `folder`."""
        return MemoryStore(f"{self.folder}{folder}/", self._documents, self._logs)

    def read(self, name: str) -> bytes | None:
        """Return a document, None when it does not exist."""
        return self._documents.get(self.folder + name)

    def write(self, name: str, data: bytes) -> None:
        """Store a document."""
        self._documents[self.folder + name] = data

    def remove(self, name: str) -> None:
        """Remove a document."""
        self._documents.pop(self.folder + name, None)

    def names(self) -> list[str]:
        """Return the documents of this part, without those in parts below."""
        documents = list(self._documents)  # atomically: commits write in another thread
        names = (name.removeprefix(self.folder) for name in documents if name.startswith(self.folder))
        return sorted(name for name in names if "/" not in name)

    def log(self, name: str, kind: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """Return a log; the same one for the same name."""
        return self._logs.setdefault(self.folder + name, MemoryLog(_NOWHERE / self.folder / name, kind, header))

    def bulk(self, folder: str) -> Path:
        """Raise StateError: there is no bulk storage."""
        raise StateError("a state in memory has no bulk storage", where=self.where(folder), hint="use a folder")


class MemoryLog(AppendLog):
    """A log of one process."""

    def append(self, *items: Mapping[str, Any]) -> int:
        """Append lines, in the form in which they would be read back; return the new number of lines."""
        with self._lock:
            self._items += [json.loads(json.dumps(item)) for item in items]
            return len(self._items)

    def truncate(self, count: int) -> None:
        """Remove everything after the first `count` lines. Raises StateError when there are fewer."""
        with self._lock:
            retained: Sequence[dict[str, Any]] = self.items(0, count)
            if count < len(self._items):
                self._start_over(self.generation + 1, 0)
                self._items += retained

    def _refresh(self) -> None:
        """Do nothing: everything is in memory."""


class MemoryState(StateDir):
    """A state directory in memory, initially empty. Used by one process."""

    def __init__(self) -> None:
        super().__init__(_NOWHERE)
        self.store = MemoryStore()

    def _create_folders(self) -> None:
        """Do nothing: there are no folders."""
