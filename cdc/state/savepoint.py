"""Savepoints: copies of a state directory at a batch boundary, and state directories created from them.

    <savepoint>/savepoint.json    format, name of the pipeline, time of creation, last batch
    <savepoint>/state/            the copy, without files of the run

A copy is atomic: it is written under a temporary name, synced to disk, and renamed. A pipeline's next savepoint removes
what an interrupted one has left, and its next start from a savepoint what a killed start has left.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.process.pids import start_time
from cdc.state.durable import create_folder, state_error, sync_folder
from cdc.state.store import LocalStore

FORMAT = 1
FILE = "savepoint.json"
_STATE = "state"
_OF_A_RUN = (
    ".bulk",
    ".store",
    "control",
    "history.jsonl",
    "lock",
    "run.log",
    "run.log.1",
    "runs.json",
    "status.json",
    "snapshot.json",
)
_PIPELINE = "pipeline.json"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The description of a savepoint. `made_s` is epoch seconds, `batch` the last committed batch, -1 for none."""

    pipeline: str
    name: str
    source: str
    sink: str
    batch: int
    made_s: float
    format: int = FORMAT


def write_savepoint(root: Path, target: Path, savepoint: Savepoint) -> None:
    """Copy a state directory that no process writes to. Raises StateError, also if `target` exists."""

    def fill(folder: Path) -> None:
        _copy(root, folder / _STATE)
        LocalStore(folder).write_json(FILE, asdict(savepoint), indent=1)

    _fill_atomically(target, target.with_name(f".{savepoint.pipeline}.tmp"), fill)


def read_savepoint(path: Path) -> Savepoint:
    """The description in a savepoint. Raises StateError if it is not a savepoint, or of a newer version."""
    hint = "name a folder that `cdc savepoint` has created"
    fields: dict[str, Any] | None = LocalStore(path).read_json(FILE)
    if fields is None or not (path / _STATE / _PIPELINE).is_file():
        raise StateError("is not a savepoint", where=str(path), hint=hint)
    try:
        found = Savepoint(**fields)
    except TypeError as error:
        raise StateError(f"cannot be read: {error}", where=str(path / FILE), hint=hint) from error
    if found.format > FORMAT:
        raise StateError(f"has format {found.format}", where=str(path), hint="use the version of cdc that wrote it")
    return found


def start_from(path: Path, root: Path, *, renamed: bool) -> str:
    """Create a state directory from a savepoint; return the id of its pipeline, a new one if `renamed`.

    Raises StateError if the state directory exists already, or `path` is not a savepoint.
    """
    found = read_savepoint(path)
    if root.exists() and any(root.iterdir()):
        raise StateError(
            "there is a state directory already, which a savepoint does not replace",
            where=str(root),
            hint="choose another --state-dir, or remove this one",
        )
    pipeline = f"{found.pipeline.rpartition('-')[0]}-{secrets.token_hex(4)}" if renamed else found.pipeline

    def fill(folder: Path) -> None:
        _copy(path / _STATE, folder)
        store = LocalStore(folder)
        store.write_json(_PIPELINE, {**(store.read_json(_PIPELINE) or {}), "pipeline": pipeline}, indent=1)

    if root.exists():
        root.rmdir()
    _remove_leftovers(root)
    _fill_atomically(root, root.with_name(f".{root.name}.{os.getpid()}.tmp"), fill)
    return pipeline


def _remove_leftovers(root: Path) -> None:
    """Remove copies of starts that were killed: their names have the number of a process that has ended."""
    for path in root.parent.iterdir() if root.parent.exists() else ():
        pid = path.name.removeprefix(f".{root.name}.").removesuffix(".tmp")
        if path.name == f".{root.name}.{pid}.tmp" and pid.isdecimal() and not start_time(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def _fill_atomically(target: Path, temporary: Path, fill: Callable[[Path], None]) -> None:
    try:
        if target.exists():
            raise StateError("is there already", where=str(target), hint="name another folder")
        shutil.rmtree(temporary, ignore_errors=True)
        create_folder(temporary)
        fill(temporary)
        os.rename(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        raise state_error(target, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    """Copy the files of the pipeline, and sync them to disk. Raises OSError."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder) == source and name in _OF_A_RUN]

    shutil.copytree(source, target, ignore=left_out, dirs_exist_ok=True)
    for folder, _, names in os.walk(target):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))
