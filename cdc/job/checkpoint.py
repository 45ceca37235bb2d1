"""Spark's checkpoint: which batches it has planned, with which offsets, and its repair before a query. Driver.

The repair is for what a crash or an early stop left, that Spark could not start from. Only what no decision is about
is removed: Spark then plans that batch again, under the same number, and whatever was prepared for it is aborted first.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.offsets import BATCH_KEY
from cdc.source import Offset
from cdc.state.directory import StateDir
from cdc.state.durable import sync_file, way_out
from cdc.state.store import RESTORE


def mend(checkpoint: Path, decided: Callable[[int], bool]) -> list[str]:
    """Remove what keeps Spark from going on; returns one sentence for each file that went.

    - a newest entry of the offset log that is not whole (power failure: Spark does not sync its files),
    - an entry of batch 0 that is the initial offset itself: it belongs to no batch,
    - a newest entry of the commit log, or a metadata file, that is not whole.

    Raises StateError when the folder cannot be read or written.
    """
    try:
        return [*_mend_offsets(checkpoint, decided), *_mend_commits(checkpoint), *_mend_metadata(checkpoint)]
    except OSError as error:
        raise StateError(
            f"the checkpoint cannot be looked at: {error.strerror}",
            where=str(error.filename or checkpoint),
            hint="give this user read and write access to the whole state directory",
        ) from error


def sync_offsets(checkpoint: Path, batch: int) -> None:
    """Put a batch's entry of Spark's offset log on disk, as the decision on the batch means nothing without it.

    Driver, before the decision. Raises StateError.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        sync_file(path)
    except OSError as error:
        reason = f"Spark's offsets cannot be put on disk: {error.strerror}"
        raise StateError(reason, where=str(path), hint=way_out(error)) from error


def any_planned(checkpoint: Path) -> bool:
    """Whether Spark has planned a batch, decided or not."""
    return _newest(checkpoint / "offsets") is not None


class OffsetLog:
    """Begin and end of each batch, from Spark's log of offsets and the stored start. Driver."""

    def __init__(self, state: StateDir) -> None:
        self._state = state

    def __call__(self, batch: int) -> tuple[Offset, Offset]:
        """Start and end of a planned batch. Raises StateError when the log does not have it."""
        end = logged_offset(self._state.checkpoint, batch)
        start = logged_offset(self._state.checkpoint, batch - 1) if batch > 0 else self._state.initial_offset()
        if start is None or end is None or end.get(BATCH_KEY) != batch + 1:
            raise StateError(
                f"the offsets of batch {batch} are missing or of another batch",
                where=str(self._state.checkpoint),
                hint="the folder was changed by hand; restore it, or start over with another --state-dir",
            )
        return start, end


def logged_offset(checkpoint: Path, batch: int) -> Offset | None:
    """The end offset of a batch from Spark's offset log, None when it has none. Raises StateError.

    Format (Spark's OffsetSeqLog, version v1): a version line, a metadata line, then one line per source.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) < 3 or lines[0] != "v1":
            raise ValueError("it is no entry of an offset log of version v1")
        return dict(json.loads(lines[2]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise StateError(f"cannot be read: {error}", where=str(path), hint=RESTORE) from error


def _mend_offsets(checkpoint: Path, decided: Callable[[int], bool]) -> list[str]:
    batch = _newest(checkpoint / "offsets")
    if batch is None or decided(batch) or _newest(checkpoint / "commits") == batch:
        return []
    path = checkpoint / "offsets" / str(batch)
    entry = _last_line(path)
    if entry is None:
        return _remove(path, "is not whole, after a power failure")
    if batch == 0 and entry.get(BATCH_KEY) == 0:
        return _remove(path, "belongs to no batch, after a stop before the first one")
    return []


def _mend_commits(checkpoint: Path) -> list[str]:
    batch = _newest(checkpoint / "commits")
    if batch is None or _last_line(path := checkpoint / "commits" / str(batch)) is not None:
        return []
    return _remove(path, "is not whole, after a power failure")


def _mend_metadata(checkpoint: Path) -> list[str]:
    path = checkpoint / "metadata"
    if not path.exists():
        return []
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return _remove(path, "is not whole, after a power failure")
    return []


def _newest(folder: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
    return None


def _last_line(path: Path) -> dict[str, Any] | None:
    """The JSON object of a log entry's last line; None when the entry is not whole."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        fields = json.loads(lines[-1])
    except (IndexError, ValueError):
        return None
    return fields if isinstance(fields, dict) else None


def _remove(path: Path, why: str) -> list[str]:
    path.unlink()
    name = path.relative_to(path.parent.parent) if path.name.isdigit() else path.name
    return [f"removed {name} of the checkpoint, which {why}: nothing depends on it"]
