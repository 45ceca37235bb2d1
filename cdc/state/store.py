"""Named documents and logs that a connector keeps across restarts, visible to every process of a run.

Names are relative paths with `/`. Every write is on disk when it returns, and a crash leaves either the old content or
the new. The store is a folder of this machine, or an object store with a working copy here (`cdc.state.remote`). A
connector never builds paths of its own, except for bulk data (`Store.bulk`).
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.state.append_log import AppendLog
from cdc.state.durable import create_folder, private, remove, state_error, write_file

RESTORE = "restore the state directory from a copy, or start over with an empty one"
"""The next step for a damaged file."""


class Store(ABC):
    """Documents and logs by name. Picklable and hashable; holds nothing open. Driver, stream reader and executors.

    All methods raise StateError, with the location and the next step, and are repeatable.
    """

    @abstractmethod
    def where(self, name: str = "") -> str:
        """The location of a document, for messages."""

    @abstractmethod
    def within(self, folder: str) -> Store:
        """The part of the store below `folder`."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a document; None if it does not exist."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write or replace a document. It is on disk when this returns."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a document if it exists."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the documents, without those in folders below, sorted."""

    @abstractmethod
    def log(self, name: str, kind: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log of JSON objects; see `AppendLog` for `kind` and `header`."""

    @abstractmethod
    def bulk(self, folder: str) -> Path:
        """A local folder for bulk data, such as staged rows; it need not exist.

        A writer syncs the file and its folder (`cdc.state.durable.new_file`), and then calls `persist`.
        """

    def persist(self, path: Path) -> None:  # noqa: B027 - nothing to do for a folder
        """Make a complete and synced bulk file as durable as documents. In the process that has written it."""

    def note(self, path: Path, data: bytes) -> None:
        """Append lines to a bulk file that a restart does not need: they may be lost with the machine. Executor."""
        try:
            create_folder(path.parent)
            with open(path, "ab", opener=private) as file:
                file.write(data)
        except OSError as error:
            raise state_error(path, error) from error

    def drop(self, folder: Path) -> None:
        """Remove a folder of bulk data if it exists. Driver."""
        shutil.rmtree(folder, ignore_errors=True)

    def write_later(self, name: str, data: bytes) -> None:
        """Write a document that a restart does not need: it is durable after this process's next write."""
        self.write(name, data)

    def adopt(self, name: str) -> None:  # noqa: B027 - no action needed for a folder
        """Take a file that another program has written below the folder into the store; it is durable after the next
        write of this process."""

    def forget(self, name: str) -> None:  # noqa: B027 - in a folder, its writer removes it
        """Remove a file taken in with `adopt` that is no longer needed."""

    def check(self) -> None:  # noqa: B027 - the lock of a folder cannot be lost
        """Raise StateError if this run must not write any more, as another run has taken over."""

    def check_lease(self) -> None:  # noqa: B027 - the lock of a folder cannot be lost
        """Raise StateUnavailable if another run may have taken over: nothing may be sent to the sink then."""

    def read_json(self, name: str, *, hint: str = RESTORE) -> dict[str, Any] | None:
        """A document that is a JSON object; None if it does not exist. `hint` is the next step if it is damaged."""
        data = self.read(name)
        if data is None:
            return None
        try:
            fields = json.loads(data)
        except ValueError as error:
            raise StateError(f"cannot be read: {error}", where=self.where(name), hint=hint) from error
        if not isinstance(fields, dict):
            raise StateError("cannot be read: it is not a JSON object", where=self.where(name), hint=hint)
        return fields

    def write_json_later(self, name: str, fields: Mapping[str, Any], *, indent: int | None = None) -> None:
        """Write a JSON object that a restart does not need; see `write_later`."""
        self.write_later(name, json.dumps(fields, indent=indent).encode("utf-8"))

    def write_json(self, name: str, fields: Mapping[str, Any], *, indent: int | None = None) -> None:
        """Write or replace a JSON object."""
        self.write(name, json.dumps(fields, indent=indent).encode("utf-8"))


@dataclass(frozen=True, slots=True)
class LocalStore(Store):
    """A store in a folder of a local or mounted file system; the folder is created on the first write."""

    root: Path

    def where(self, name: str = "") -> str:
        """The path of a document."""
        return str(self.root / name)

    def within(self, folder: str) -> LocalStore:
        """The part of the store below `folder`."""
        return LocalStore(self.root / folder)

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        path = self.root / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise state_error(path, error, "read") from error

    def write(self, name: str, data: bytes) -> None:
        """Write a temporary file, sync it, rename it, sync the folder."""
        write_file(self.root / name, data)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        remove(self.root / name)

    def names(self) -> list[str]:
        """The files of the folder; empty if it does not exist. Hidden files are temporary and ignored."""
        try:
            return sorted(path.name for path in self.root.iterdir() if path.is_file() and path.name[0] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise state_error(self.root, error, "read") from error

    def log(self, name: str, kind: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log in a file of the folder."""
        return AppendLog(self.root / name, kind, header)

    def bulk(self, folder: str) -> Path:
        """A subfolder."""
        return self.root / folder
