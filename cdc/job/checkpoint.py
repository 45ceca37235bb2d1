"""Spark's checkpoint: the offsets of planned batches, and the repair of the checkpoint before a query. Driver.

The repair removes files that a crash or an early stop has left and that Spark cannot start from. Only files of a batch
without a decision are removed: Spark then plans that batch again under the same number, and everything prepared for it
is aborted first.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.offsets import BATCH_KEY
from cdc.source import Offset
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.durable import hint_for, sync_file, write_file
from cdc.state.store import RESTORE


def repair(checkpoint: Path, decided: Callable[[int], bool]) -> list[str]:
    """Remove or rewrite files that Spark cannot start from; return one sentence per file.

    - the newest entry of the offset log, if incomplete (power failure: Spark does not sync its files),
    - an entry of batch 0 that is the initial offset itself: it belongs to no batch,
    - the newest entry of the commit log, if incomplete,
    - the metadata file, if missing or incomplete: a new one is written, as Spark refuses offsets without it.

    Raises StateError if the folder cannot be read or written.
    """
    try:
        return [*_repair_offsets(checkpoint, decided), *_repair_commits(checkpoint), *_repair_metadata(checkpoint)]
    except OSError as error:
        raise StateError(
            f"the checkpoint cannot be read: {error.strerror}",
            where=str(error.filename or checkpoint),
            hint="give this user read and write access to the whole state directory",
        ) from error


def check_decided(checkpoint: Path, log: CommitLog) -> None:
    """Check that the last decision and Spark's logs are of the same batches; Spark would start at its own position.

    Raises StateError if a file is missing, damaged, or of another copy of the folder.
    """
    last, done = log.last(), _newest(checkpoint / "commits")
    done = max(log.committed(), -1 if done is None else done)
    if done > last:
        raise StateError(f"the decision on batch {done} is missing", where=str(checkpoint.parent), hint=RESTORE)
    decision = log.get(last)
    if decision is not None and logged_offset(checkpoint, last) != decision.end:
        reason = f"the offsets of batch {last} are missing, or other ones than it was decided with"
        raise StateError(reason, where=str(checkpoint / "offsets" / str(last)), hint=RESTORE)


def sync_offsets(checkpoint: Path, batch: int) -> None:
    """Sync a batch's entry of Spark's offset log to disk: a decision is worthless without the offsets of its batch.

    Driver, before the decision. Raises StateError.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        sync_file(path)
    except OSError as error:
        reason = f"Spark's offsets cannot be put on disk: {error.strerror}"
        raise StateError(reason, where=str(path), hint=hint_for(error)) from error


def any_planned(checkpoint: Path) -> bool:
    """Whether Spark has planned a batch, decided or not."""
    return _newest(checkpoint / "offsets") is not None


class OffsetLog:
    """The start and end offset of each batch, from Spark's offset log and the stored initial offset. Driver."""

    def __init__(self, state: StateDir) -> None:
        self._state = state

    def __call__(self, batch: int) -> tuple[Offset, Offset]:
        """The start and end offset of a planned batch. Raises StateError if the log does not have it."""
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
    """The end offset of a batch from Spark's offset log, None if there is none. Raises StateError.

    Format (Spark's OffsetSeqLog, version v1): a version line, a metadata line, then one line per source.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) < 3 or lines[0] != "v1":
            raise ValueError("it is not an entry of an offset log of version v1")
        return dict(json.loads(lines[2]))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise StateError(f"cannot be read: {error}", where=str(path), hint=RESTORE) from error


def _repair_offsets(checkpoint: Path, decided: Callable[[int], bool]) -> list[str]:
    batch = _newest(checkpoint / "offsets")
    if batch is None or decided(batch) or _newest(checkpoint / "commits") == batch:
        return []
    path = checkpoint / "offsets" / str(batch)
    entry = _last_line(path)
    if entry is None:
        return _remove(path, "is incomplete, after a power failure")
    if batch == 0 and entry.get(BATCH_KEY) == 0:
        return _remove(path, "belongs to no batch, after a stop before the first one")
    return []


def _repair_commits(checkpoint: Path) -> list[str]:
    batch = _newest(checkpoint / "commits")
    if batch is None or _last_line(path := checkpoint / "commits" / str(batch)) is not None:
        return []
    return _remove(path, "is incomplete, after a power failure")


def _repair_metadata(checkpoint: Path) -> list[str]:
    path = checkpoint / "metadata"
    with contextlib.suppress(FileNotFoundError):
        if isinstance((_last_line(path) or {}).get("id"), str):
            return []
    if not path.exists() and not any_planned(checkpoint):
        return []
    write_file(path, json.dumps({"id": str(uuid.uuid4())}).encode())
    return ["rewrote metadata of the checkpoint, which was missing or incomplete: nothing depends on it"]


def _newest(folder: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=None)
    return None


def _last_line(path: Path) -> dict[str, Any] | None:
    """The JSON object in the last line of a log entry; None if the entry is incomplete."""
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
