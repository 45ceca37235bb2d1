"""The documents of a working copy: read locally, written to the object store first. Driver's machine, any process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from cdc.state.append_log import AppendLog
from cdc.state.remote.entry import DocumentChange
from cdc.state.remote.lease_deadline import check_lease
from cdc.state.remote.restore import BULK
from cdc.state.remote.writer import StateWriter, WorkingCopy
from cdc.state.store import LocalStore


@dataclass(frozen=True, slots=True)
class RemoteStore(LocalStore):
    """A part of a working copy. `root` is its folder, `copy` that of the whole working copy."""

    copy: Path
    session: WorkingCopy

    def where(self, name: str = "") -> str:
        """The URL of a document."""
        return f"{self.session.url}/{self._name(name)}".removesuffix("/.")

    def within(self, folder: str) -> RemoteStore:
        """The part of the store below `folder`."""
        return RemoteStore(self.root / folder, self.copy, self.session)

    def read(self, name: str) -> bytes | None:
        """A document of the working copy. Raises StateError if this run cannot continue."""
        self._writer.check()
        return LocalStore.read(self, name)

    def write(self, name: str, data: bytes) -> None:
        """Write a document as one step."""
        self._writer.write(DocumentChange(self._name(name), data))

    def write_later(self, name: str, data: bytes) -> None:
        """Write to the working copy, and to the store with the next step of this process."""
        self._writer.write_later(DocumentChange(self._name(name), data))

    def remove(self, name: str) -> None:
        """Remove from the working copy, and from the store with the next step of this process."""
        if (self.root / name).exists():
            self._writer.write_later(DocumentChange(self._name(name), None))

    def adopt(self, name: str) -> None:
        """Take in a file that another program has written, with the next step of this process."""
        self._writer.adopt(self._name(name))

    def forget(self, name: str) -> None:
        """Remove a file, with the next step of this process."""
        self.remove(name)

    def log(self, name: str, kind: str, header: Mapping[str, Any] | None = None) -> AppendLog:
        """A log whose lines are written as steps."""
        return RemoteLog(self, name, kind, header)

    def bulk(self, folder: str) -> Path:
        """A folder of the working copy; files become durable by `persist`."""
        return self.copy / ".bulk" / self.root.relative_to(self.copy) / folder

    def persist(self, path: Path) -> None:
        """Upload a file of bulk data, under a name unique to this run. Raises StateError."""
        relative = path.relative_to(self.copy / ".bulk").as_posix()
        writer = self._writer
        writer.check()
        writer.bucket.put(f"{BULK}/{self.session.number:012}/{relative}", path)

    def drop(self, folder: Path) -> None:
        """Remove a folder of bulk data here and in the store, except files of later runs."""
        shutil.rmtree(folder, ignore_errors=True)
        relative = folder.relative_to(self.copy / ".bulk").as_posix()
        bucket, found = self._writer.bucket, []
        for name in bucket.names(BULK):
            _, run, path = name.split("/", 2)
            if int(run) <= self.session.number and path.startswith(f"{relative}/"):
                found.append(name)
        bucket.delete(found)

    def check(self) -> None:
        """Raise StateError if this run cannot write any more."""
        self._writer.check()

    def check_lease(self) -> None:
        """Raise StateUnavailable if the lease was not renewed in time. Driver."""
        self._writer.check()
        check_lease(self.copy)

    def change(self, name: str, data: bytes, offset: int | None = None) -> None:
        """Write a document, or write at an offset of it. For `RemoteLog`."""
        self._writer.write(DocumentChange(self._name(name), data, offset))

    @property
    def _writer(self) -> StateWriter:
        return _writer(self.copy, self.session, os.getpid())

    def _name(self, name: str) -> str:
        return (self.root.relative_to(self.copy) / name).as_posix()


@cache
def _writer(copy: Path, session: WorkingCopy, process: int) -> StateWriter:
    """The writer of this process, which holds its pending changes."""
    return StateWriter(copy, session)


def writer_of(store: RemoteStore) -> StateWriter:
    """The writer of a store in this process."""
    return _writer(store.copy, store.session, os.getpid())


class RemoteLog(AppendLog):
    """A log of a working copy: each append is one step."""

    def __init__(self, store: RemoteStore, name: str, kind: str, header: Mapping[str, Any] | None) -> None:
        super().__init__(store.root / name, kind, header)
        self._store, self._name = store, name

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_store": self._store, "_name": self._name}

    def items(self, first: int = 0, last: int | None = None) -> Sequence[dict[str, Any]]:
        """Entries, as `AppendLog.items`. Raises StateError, also if this run cannot write any more."""
        self._store.check()
        return super().items(first, last)

    def _append_bytes(self, file: IO[bytes], data: bytes) -> None:
        self._store.change(self._name, data, self._read_to)

    def _replace_file(self, data: bytes) -> None:
        if self.path.exists():
            self._store.write(self._name, data)
        else:  # the header, which is only needed together with the next line
            self._store.write_later(self._name, data)


def store_at(root: Path) -> LocalStore:
    """The store of a state directory: a folder, or the working copy of a URL. Raises StateError."""
    session = WorkingCopy.of(root)
    return LocalStore(root) if session is None else RemoteStore(root, root, session)
