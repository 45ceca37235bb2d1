"""Restores a state from the store into an empty folder: the newest base, and the steps after it in order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from cdc.errors import StateError
from cdc.state.durable import create_folder, state_error
from cdc.state.remote.bucket import Bucket
from cdc.state.remote.entry import BASE, CLOSE, OPEN, Entry
from cdc.state.remote.writer import entry_name

BULK = "bulk"
_AT_ONCE = 16
_LOOKS = 5
_DAMAGED = "restore the objects below --state-dir from a copy, or start over with an empty prefix"


@dataclass(slots=True)
class Restored:
    """The state of the log: its last step (-1 for none), and opening steps of runs after an unclean end."""

    last: int = -1
    closed: bool = True
    openings: list[int] = field(default_factory=list)
    size: int = 0

    def apply(self, entry: Entry) -> None:
        """Apply the next step."""
        if entry.kind == OPEN and not self.closed:
            self.openings.append(entry.number)
        self.closed = entry.kind == CLOSE
        self.last = entry.number


def restore(bucket: Bucket, folder: Path) -> Restored:
    """Apply all steps to an empty folder. Raises StateError if some are missing or damaged."""
    for _ in range(_LOOKS):
        entries = _entries(bucket)
        if entries is not None:
            break
    else:
        raise StateError("steps of the log are missing", where=f"{bucket.url}/log", hint=_DAMAGED)
    found = Restored()
    for entry in entries:
        _carry_out(entry, folder)
        if entry.kind == BASE:
            found = Restored(entry.number, bool(entry.notes["closed"]), list(entry.notes["openings"]))
        else:
            found.apply(entry)
            found.size += sum(len(change.data or b"") for change in entry.changes)
    return found


def restore_bulk(bucket: Bucket, folder: Path) -> None:
    """Download staged rows; of files with the same name, that of the latest run. Raises StateError."""
    newest: dict[str, str] = {}
    for name in bucket.names(BULK):
        newest[name.split("/", 2)[2]] = name
    try:
        for relative in newest:
            create_folder((folder / relative).parent)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda item: bucket.download(item[1], folder / item[0]), newest.items()))
    except OSError as error:
        raise state_error(folder, error) from error


def extend(folder: Path, found: Restored, entry: Entry) -> None:
    """Apply a step that was written after `restore`."""
    _carry_out(entry, folder)
    found.apply(entry)


def _entries(bucket: Bucket) -> Sequence[Entry] | None:
    """The newest base and the steps after it; None if a compaction ran meanwhile."""
    bases = bucket.names(BASE)
    first = int(bases[-1].rpartition("/")[2]) + 1 if bases else 0
    entry_names = [name for name in bucket.names("log") if int(name.rpartition("/")[2]) >= first]
    if entry_names != [entry_name(first + index) for index in range(len(entry_names))] or bucket.names(BASE) != bases:
        return None
    names = [*bases[-1:], *entry_names]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        contents = list(pool.map(bucket.get, names))
    read = [
        Entry.from_bytes(data, f"{bucket.url}/{name}")
        for name, data in zip(names, contents, strict=True)
        if data is not None
    ]
    return read if len(read) == len(names) else None


def _carry_out(entry: Entry, folder: Path) -> None:
    try:
        for change in entry.changes:
            change.carry_out(folder)
    except OSError as error:
        raise state_error(folder, error) from error
