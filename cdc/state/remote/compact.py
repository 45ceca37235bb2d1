"""Compaction of the log: a base with all documents after a step, so that earlier steps can be removed. Driver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cdc.state.durable import state_error
from cdc.state.remote.entry import BASE, DocumentChange, Entry
from cdc.state.remote.writer import FOLDER, StateWriter, entry_name

OF_THIS_MACHINE = frozenset({
    FOLDER, ".bulk", "control", "history.jsonl", "lock", "run.log", "run.log.1", "runs.json", "status.json",
})  # fmt: skip
"""Files of a working copy that are not part of the state."""
_OFFSETS, _METADATA = "checkpoint/offsets", "checkpoint/metadata"
MOST_STEPS, MOST_BYTES = 200, 4 << 20
"""The most steps and bytes after a base, which a restart has to read."""


def is_compaction_due(writer: StateWriter, base: int) -> bool:
    """Whether there are many steps after the base with this number."""
    with writer.paused() as (number, size):
        return number - base > MOST_STEPS or size > MOST_BYTES


def compact(writer: StateWriter, openings: Sequence[int], *, closed: bool = False) -> int:
    """Write a base and remove the steps and bases before it; return its number. Raises StateError.

    Opening steps of runs that followed a run without a clean end (`openings`) are kept: that run may only be paused,
    and has to find its number taken.
    """
    with writer.paused() as (number, _):
        changes = tuple(documents(writer.copy))
    last, bucket = number - 1, writer.bucket
    notes = {"closed": closed, "openings": list(openings)}
    base = Entry(BASE, writer.session.owner, last, "", changes, notes)
    bucket.put(base_name(last), base.to_bytes())
    writer.note_base()
    retained = {entry_name(opening) for opening in openings}
    steps = [name for name in bucket.names("log") if name <= entry_name(last) and name not in retained]
    bucket.delete([*steps, *(name for name in bucket.names(BASE) if name < base_name(last))])
    return last


def base_name(number: int) -> str:
    """The name of the object of a base."""
    return f"{BASE}/{number:012}"


def documents(copy: Path) -> Iterator[DocumentChange]:
    """All documents of a working copy while no step is written. Raises StateError.

    Files removed meanwhile, by `StateWriter.write_later` or by Spark, are not part of the state.
    """
    try:
        for folder, folders, files in os.walk(copy, onerror=_unlistable):
            within = Path(folder).relative_to(copy)
            if within == Path():
                folders[:] = [name for name in folders if name not in OF_THIS_MACHINE]
                files = [name for name in files if name not in OF_THIS_MACHINE]
            for name in files:
                path = (within / name).as_posix()
                if not name.startswith(".") and (not path.startswith("checkpoint/") or _is_kept(path)):
                    with contextlib.suppress(FileNotFoundError):
                        yield DocumentChange(path, (copy / path).read_bytes())
    except OSError as error:
        raise state_error(copy, error, "read") from error


def _unlistable(error: OSError) -> None:
    """Raise errors of listing a folder: its files must not be omitted."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _is_kept(path: str) -> bool:
    """Whether a file of Spark's is part of the state: the offsets, and the id of the query."""
    folder, _, name = path.rpartition("/")
    return path == _METADATA or (folder == _OFFSETS and name.isdigit())
