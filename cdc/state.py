"""The state directory: everything a restart needs, and nothing else.

    <state>/pipeline.json         id and source of the pipeline; written once
    <state>/lock                  who is running it (flock, and the pid of the Java process)
    <state>/initial_offset.json   where the pipeline started; written once
    <state>/commits/<batch>.json  the decision on a batch, between prepare and commit
    <state>/commits/committed     the last batch that is known to be committed
    <state>/splits/<batch>.json   how a batch that is not committed yet is cut into tasks
    <state>/checkpoint/           Spark's offset and commit logs
    <state>/source/, sink/        the connectors' own files (schema history, staged rows)
    <state>/control/              requests to the stream reader process (stop)
    <state>/snapshot.json         how far the copying of tables is, for other tools to read

Every file is written to a temporary name, synced and renamed, so a crash leaves the old content or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.schema import TableId
from cdc.sink import Prepared

FORMAT = 1


def write_atomic(path: Path, text: str) -> None:
    """Write a file so that a crash leaves the old content or the new. Raises StateError (disk full, permissions)."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _state_error(path, error) from error


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _state_error(path: Path, error: OSError) -> StateError:
    hints = {
        errno.ENOSPC: "free some space and start again; nothing was lost",
        errno.EDQUOT: "raise the quota and start again; nothing was lost",
        errno.EACCES: "give this user write access, or choose another --state-dir",
        errno.EROFS: "choose another --state-dir",
    }
    reason = error.strerror or type(error).__name__
    return StateError(f"cannot write the state: {reason}", where=str(path), hint=hints.get(error.errno or 0, ""))


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(fields, dict):
        raise _damaged(path, "it is not a JSON object")
    return fields


def _damaged(path: Path, reason: str) -> StateError:
    return StateError(f"cannot be read: {reason}", where=str(path), hint="restore it from a backup")


@dataclass(frozen=True, slots=True)
class Decision:
    """The coordinator's word on one batch: these handles are to be committed. `start` and `end` are its offsets.

    `reports` is what the tasks that made the handles have to tell the source (see `Learns.decided`).
    """

    batch: int
    start: dict[str, Any]
    end: dict[str, Any]
    prepared: tuple[Prepared, ...]
    reports: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back to an equal decision."""
        return {
            "batch": self.batch,
            "start": self.start,
            "end": self.end,
            "prepared": [asdict(handle) for handle in self.prepared],
            "reports": list(self.reports),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Decision:
        """The decision that `to_json` wrote."""
        prepared = (Prepared(**{**item, "table": TableId(**item["table"])}) for item in fields["prepared"])
        return cls(fields["batch"], fields["start"], fields["end"], tuple(prepared), tuple(fields.get("reports", ())))


class StateDir:
    """The state directory of one pipeline. Picklable; opened by the driver and by the stream reader process."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def open(self, *, name: str, source: str) -> str:
        """Create or check the directory and return the pipeline's id. Driver, once per run.

        Raises StateError when it cannot be written or belongs to a pipeline with another source.
        """
        try:
            for folder in ("commits", "source", "sink", "control"):
                (self.root / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _state_error(self.root, error) from error
        path = self.root / "pipeline.json"
        known = _read_json(path)
        if known is None:
            slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "pipeline"
            known = {"format": FORMAT, "pipeline": f"{slug}-{secrets.token_hex(4)}", "source": source}
            write_atomic(path, json.dumps(known, indent=1))
        if not known.keys() >= {"format", "pipeline", "source"}:
            raise _damaged(path, "a key is missing")
        if known["format"] != FORMAT:
            raise StateError(
                f"has format {known['format']}, this version reads {FORMAT}",
                where=str(self.root),
                hint="use the version that wrote it, or another --state-dir",
            )
        if known["source"] != source:
            raise StateError(
                f"belongs to a pipeline that reads {known['source']}, this one reads {source}",
                where=str(self.root),
                hint="choose another --state-dir, or remove this one to start anew",
            )
        return str(known["pipeline"])

    @property
    def source(self) -> Path:
        """The source connector's folder."""
        return self.root / "source"

    @property
    def sink(self) -> Path:
        """The sink connector's folder."""
        return self.root / "sink"

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint folder."""
        return self.root / "checkpoint"

    def initial_offset(self) -> dict[str, Any] | None:
        """Where the pipeline started, None before its first start."""
        return _read_json(self.root / "initial_offset.json")

    def store_initial_offset(self, offset: dict[str, Any]) -> None:
        """Keep the first offset for good: Spark asks for it again when the first batch has to be replayed."""
        write_atomic(self.root / "initial_offset.json", json.dumps(offset))

    @property
    def stop_file(self) -> Path:
        """There once a stop was asked for."""
        return self.root / "control" / "stop"

    def request_stop(self) -> None:
        """Ask the stream reader to plan no more batches. Driver."""
        self._touch("stop")

    def stop_requested(self) -> bool:
        """Whether a stop was asked for. Stream reader process, before each batch."""
        return self.stop_file.exists()

    def confirm_stop(self) -> None:
        """Tell the driver that no batch is running and none will be planned. Stream reader process."""
        self._touch("stopped")

    def stop_confirmed(self) -> bool:
        """Whether the stream reader has seen the request. Driver."""
        return (self.root / "control" / "stopped").exists()

    def _touch(self, name: str) -> None:
        path = self.root / "control" / name
        try:
            path.touch()
        except OSError as error:
            raise _state_error(path, error) from error

    def clear_control(self) -> None:
        """Forget requests of an earlier run. Driver, before the start."""
        for name in ("stop", "stopped"):
            (self.root / "control" / name).unlink(missing_ok=True)


class CommitLog:
    """Decisions on batches, one small file each. Driver."""

    KEEP = 16
    """Decisions of batches that are committed, kept for a look when something went wrong."""

    def __init__(self, root: Path) -> None:
        self._root = root / "commits"

    def decide(self, decision: Decision) -> None:
        """Write the decision: from here on the batch will be committed, whatever crashes. Raises StateError."""
        write_atomic(self._root / f"{decision.batch}.json", json.dumps(decision.to_json()))

    def get(self, batch: int) -> Decision | None:
        """The decision on a batch, None when there is none."""
        path = self._root / f"{batch}.json"
        fields = _read_json(path)
        try:
            return None if fields is None else Decision.from_json(fields)
        except (KeyError, TypeError) as error:
            raise _damaged(path, f"{error!r}") from error

    def note_committed(self, batch: int) -> None:
        """Note that this batch, and so every one before it, is committed. Raises StateError."""
        write_atomic(self._root / "committed", json.dumps({"batch": batch}))

    def uncommitted(self) -> list[Decision]:
        """Decisions that are not known to be committed, in order of batches."""
        noted = _read_json(self._root / "committed")
        last = -1 if noted is None else int(noted["batch"])
        found = (self.get(batch) for batch in sorted(self._batches()) if batch > last)
        return [decision for decision in found if decision is not None]

    def prune(self, done: int) -> None:
        """Remove decisions of batches before `done - KEEP`, which is committed."""
        for batch in self._batches():
            if batch < done - self.KEEP:
                (self._root / f"{batch}.json").unlink(missing_ok=True)

    def _batches(self) -> Iterator[int]:
        for path in self._root.glob("*.json"):
            if path.stem.isdigit():
                yield int(path.stem)
