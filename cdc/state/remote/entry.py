"""One step of the log: an atomic set of document changes, as the bytes of one object.

A JSON line has the owner and the changes; the contents follow in order:

    {"format": 1, "kind": "write", "owner": "...", "number": 7, "id": "...", "changes": [["put", "a.json", 12],
     ["append", "source/schemas", 1024, 80], ["remove", "splits/3.json"]]}
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from cdc.state.durable import FOLDER_MODE, private, replace_file

FORMAT = 1
WRITE, OPEN, CLOSE, BASE = "write", "open", "close", "base"


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document is written (`offset` None), extended at an offset, or removed (`data` None). Names contain `/`."""

    name: str
    data: bytes | None
    offset: int | None = None

    def carry_out(self, root: Path) -> None:
        """Apply the change to the working copy, without sync: the store is durable. Repeatable. Raises OSError."""
        path = root / self.name
        if self.data is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        if self.offset is None:
            replace_file(path, self.data)
            return
        with open(path, "r+b", opener=private) as file:
            if file.seek(0, os.SEEK_END) < self.offset:
                raise OSError(f"{path} is shorter than {self.offset} bytes")
            file.truncate(self.offset)
            file.seek(self.offset)
            file.write(self.data)


@dataclass(frozen=True, slots=True)
class Entry:
    """A step. `owner` is the run that wrote it, `id` distinguishes its steps, `notes` depend on the kind."""

    kind: str
    owner: str
    number: int
    id: str = ""
    changes: tuple[DocumentChange, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def opened_by(self) -> str:
        """A description of the run that this step opened, for messages; empty for other kinds."""
        return str(self.notes.get("who", ""))

    def to_bytes(self) -> bytes:
        """The bytes for `from_bytes`."""
        head = {
            "format": FORMAT, "kind": self.kind, "owner": self.owner, "number": self.number, "id": self.id,
            "changes": [_head(change) for change in self.changes], "notes": dict(self.notes),
        }  # fmt: skip
        return b"".join([json.dumps(head).encode(), b"\n", *(change.data or b"" for change in self.changes)])

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Entry:
        """The step in these bytes. Raises StateError if they are damaged or of a newer version."""
        try:
            line, _, body = data.partition(b"\n")
            head = json.loads(line)
            if head["format"] > FORMAT:
                hint = "use the version of cdc that wrote it or a newer one"
                message = f"has format {head['format']}, this version reads up to {FORMAT}"
                raise StateError(message, where=where, hint=hint)
            changes = tuple(_changes(head["changes"], body))
            return cls(head["kind"], head["owner"], head["number"], head["id"], changes, head["notes"])
        except (ValueError, LookupError, TypeError) as error:
            hint = "restore the objects below --state-dir from a copy, or start over with an empty prefix"
            raise StateError(f"cannot be read: {error!r}", where=where, hint=hint) from error


def _head(change: DocumentChange) -> list[Any]:
    if change.data is None:
        return ["remove", change.name]
    if change.offset is None:
        return ["put", change.name, len(change.data)]
    return ["append", change.name, change.offset, len(change.data)]


def _changes(heads: Sequence[Sequence[Any]], body: bytes) -> Sequence[DocumentChange]:
    found, at = [], 0
    for verb, name, *numbers in heads:
        _check(name)
        if verb == "remove":
            found.append(DocumentChange(name, None))
            continue
        length = numbers[-1]
        data = body[at : at + length]
        if len(data) != length:
            raise ValueError("it ends too early")
        at += length
        found.append(DocumentChange(name, data, numbers[0] if verb == "append" else None))
    return found


def _check(name: str) -> None:
    """Raise ValueError for a name that leads out of the working copy."""
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{name} is not the name of a document")
