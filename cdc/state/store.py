"""Named documents and logs that a connector keeps over restarts, in a place that every process of a run sees.

Names are relative paths with `/`. Every write is on disk when it returns, and a crash leaves the old content or the
new. The place is a folder of this machine, or an object store with a working copy here (`cdc.state.remote`); the
methods are the same, so a connector never makes a path of its own - but for bulk data, see `Store.bulk`.
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
"""The way out when something is damaged."""


class Store(ABC):
    """Documents and logs by name. Picklable and hashable; holds nothing open. Driver, stream reader and executors.

    All methods raise StateError, with the place and what to do, and may be repeated.
    """

    @abstractmethod
    def where(self, name: str = "") -> str:
        """The place of a document, for messages."""

    @abstractmethod
    def within(self, folder: str) -> Store:
        """The part of the store below `folder`."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """A document; None when there is none of this name."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Put a document in the place of the one before. On disk when it returns."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a document; one that is not there is fine."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the documents, without those in folders below, sorted."""

    @abstractmethod
    def log(self, name: str, what: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log of JSON objects; see `AppendLog` for `what` and `header`."""

    @abstractmethod
    def bulk(self, folder: str) -> Path:
        """A folder of this machine's file system for bulk data, such as staged rows; it need not exist.

        Who writes there syncs file and folder before the file counts (`cdc.state.durable.new_file`), and says `keep`.
        """

    def keep(self, path: Path) -> None:  # noqa: B027 - a folder keeps what is in it
        """A bulk file is whole and synced; when it returns it lasts as long as documents do. Where it was written."""

    def note(self, path: Path, data: bytes) -> None:
        """Add lines to a bulk file that a restart can do without: they may go with the machine. Executor."""
        try:
            create_folder(path.parent)
            with open(path, "ab", opener=private) as file:
                file.write(data)
        except OSError as error:
            raise state_error(path, error) from error

    def drop(self, folder: Path) -> None:
        """Remove a folder of bulk data; one that is not there is fine. Driver."""
        shutil.rmtree(folder, ignore_errors=True)

    def write_later(self, name: str, data: bytes) -> None:
        """Put a document that a restart can do without: it lasts, at the latest, once this process writes again."""
        self.write(name, data)

    def adopt(self, name: str) -> None:  # noqa: B027 - a folder has what is in it
        """A file that somebody else writes below the folder belongs to the store: it lasts once this process writes
        again."""

    def forget(self, name: str) -> None:  # noqa: B027 - who has written it removes it
        """Drop a file of somebody else that is not needed any more."""

    def check(self) -> None:  # noqa: B027 - who has the lock of a folder keeps it
        """Raise StateError when this run may write nothing any more, as another has begun."""

    def check_lease(self) -> None:  # noqa: B027 - who has the lock of a folder keeps it
        """Raise StateUnavailable when another run may have begun: a sink is then not to be asked for anything."""

    def read_json(self, name: str, *, hint: str = RESTORE) -> dict[str, Any] | None:
        """A document that is a JSON object; None when there is none. `hint` is the way out when it is damaged."""
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
        """Put a JSON object that a restart can do without."""
        self.write_later(name, json.dumps(fields, indent=indent).encode("utf-8"))

    def write_json(self, name: str, fields: Mapping[str, Any], *, indent: int | None = None) -> None:
        """Put a JSON object in the place of the one before."""
        self.write(name, json.dumps(fields, indent=indent).encode("utf-8"))


@dataclass(frozen=True, slots=True)
class LocalStore(Store):
    """A store in a folder of the local (or mounted) file system; the folder is made when something is written."""

    root: Path

    def where(self, name: str = "") -> str:
        """The path."""
        return str(self.root / name)

    def within(self, folder: str) -> LocalStore:
        """The part of the store below `folder`."""
        return LocalStore(self.root / folder)

    def read(self, name: str) -> bytes | None:
        """A file's content; None when there is no such file."""
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
        """Remove a file; one that is not there is fine."""
        remove(self.root / name)

    def names(self) -> list[str]:
        """The files of the folder; none when there is no folder. Hidden ones are temporary and do not count."""
        try:
            return sorted(path.name for path in self.root.iterdir() if path.is_file() and path.name[0] != ".")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise state_error(self.root, error, "read") from error

    def log(self, name: str, what: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log in a file."""
        return AppendLog(self.root / name, what, header)

    def bulk(self, folder: str) -> Path:
        """A folder below."""
        return self.root / folder
