"""Remove the files that only expired snapshots named, once no query can still be reading them.

    <sink's folder>/expired/<table's UUID>/<number>.json     {"expired_s": seconds since the epoch, "paths": [...]}
    <sink's folder>/expired/<table's UUID>/<number>.unsure   the same, but the snapshots may still exist

A note is written before the snapshots expire. After a crash has left an unsure note, the files that the table still
names are kept. A note that is lost with its machine only costs space. Runs in the driver.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.state.durable import write_file
from connectors.iceberg.library import delete_quietly
from connectors.iceberg.manifest_cache import files_of, forget, manifests_of
from connectors.iceberg.tables import LakeTable

_SURE, _UNSURE = ".json", ".unsure"


@dataclass(frozen=True)
class ExpiredFiles:
    """The files of expired snapshots.

    Args:
        folder: the folder of the notes.
        keep_s: for how many seconds the files are kept.
        clock: gives the seconds since the epoch.
    """

    folder: Path
    keep_s: float
    clock: Callable[[], float] = time.time

    @contextmanager
    def expiring(self, table: LakeTable, paths: Collection[str]) -> Iterator[None]:
        """Note the files for removal later, if the block succeeds in expiring their snapshots."""
        notes = self._notes(table)
        note = self.folder / table.identity / f"{int(notes[-1].stem) + 1 if notes else 0:09}{_UNSURE}"
        write_file(note, json.dumps({"expired_s": self.clock(), "paths": sorted(paths)}).encode())
        yield
        note.rename(note.with_suffix(_SURE))
        forget(paths)

    def remove(self, table: LakeTable, *, all_at_once: bool = False) -> None:
        """Remove the files whose time has passed; `all_at_once`, for a table that is dropped, removes all of them."""
        for note in self._notes(table):
            found = _read(note)
            if not all_at_once and float(found["expired_s"]) + self.keep_s > self.clock():
                break  # the remaining notes are younger
            named = snapshot_files(table, table.metadata.snapshots) if note.suffix == _UNSURE else set[str]()
            for path in found["paths"]:
                if path not in named:
                    delete_quietly(table.library.io, path)
            note.unlink(missing_ok=True)

    def _notes(self, table: LakeTable) -> list[Path]:
        folder = self.folder / table.identity
        return sorted([*folder.glob(f"[0-9]*{_SURE}"), *folder.glob(f"[0-9]*{_UNSURE}")])


def snapshot_files(table: LakeTable, snapshots: Iterable[Any]) -> set[str]:
    """The paths of all files of the snapshots: manifest lists, manifests, data files and delete files."""
    lists = list(snapshots)
    manifests = _manifests(table, lists)
    return {*(snapshot.manifest_list for snapshot in lists), *manifests, *_files(table, manifests.values())}


def unshared_files(table: LakeTable, some: Collection[Any], others: Collection[Any]) -> set[str]:
    """The paths of the files that `some` snapshots of a table name and the `others` do not."""
    staying = _manifests(table, others)
    lonely = {path: each for path, each in _manifests(table, some).items() if path not in staying}
    files = _files(table, lonely.values())
    if files:
        files -= _files(table, staying.values())
    return {*(snapshot.manifest_list for snapshot in some), *lonely, *files}


def _manifests(table: LakeTable, snapshots: Iterable[Any]) -> dict[str, Any]:
    io = table.library.io
    return {each.manifest_path: each for snapshot in snapshots for each in manifests_of(io, snapshot)}


def _files(table: LakeTable, manifests: Iterable[Any]) -> set[str]:
    return {file.file_path for each in manifests for file in files_of(table, each)}


def _read(note: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    except ValueError:  # truncated by a crash of the machine
        return {"expired_s": 0.0, "paths": []}
    return found
