"""A file of JSON lines that one process appends to while others read it.

The first line names the format and a generation, which a cut raises so that readers notice. A torn last line is what a
crash leaves: readers overlook it, the writer cuts it. Every append is on disk (fsync) when it returns.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdc.errors import StateError
from connectors.mysql.durable import append_at, replace_file

_FORMAT = 1


class JsonLines:
    """Reads on from where it was, so keep the object. Threads may share it; one process writes.

    Args:
        path: of the file; it need not exist.
        what: names the content in errors and in the file's first line.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path, self._what = path, what
        self.generation = 0
        """Raised by each cut; whoever keeps what was read has to start over when it changes."""
        self._read_to = 0
        self._lines: list[dict[str, Any]] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        with self._lock:
            self._refresh()
            return len(self._lines)

    def items(self, first: int, last: int | None = None) -> Sequence[dict[str, Any]]:
        """Lines `first` (counted from 0) up to and without `last`. Raises StateError when there are fewer."""
        with self._lock:
            self._refresh()
            if last is not None and last > len(self._lines):
                raise StateError(
                    f"the {self._what} holds {len(self._lines)} entries, {last} are needed",
                    where=str(self.path),
                    hint="the state directory is incomplete: restore it as a whole, or start anew with an empty one",
                )
            return self._lines[first:last]

    def append(self, *items: dict[str, Any]) -> int:
        """Write lines behind the last whole one; returns the new number of lines."""
        with self._lock:
            self._refresh()
            if not items:
                return len(self._lines)
            try:
                if not self.generation:
                    self._write_anew(1, [])
                    self._refresh()
                append_at(self.path, self._read_to, b"".join(map(_line, items)))
            except OSError as error:
                raise self._failed("written", error) from error
            return len(self)

    def truncate(self, count: int) -> None:
        """Cut everything behind the first `count` lines. Repeatable. Raises StateError when there are fewer."""
        with self._lock:
            kept = self.items(0, count)
            if count == len(self._lines):
                return
            try:
                self._write_anew(self.generation + 1, kept)
            except OSError as error:
                raise self._failed("written", error) from error
            self._refresh()

    def _refresh(self) -> None:
        try:
            with open(self.path, "rb") as file:
                header = file.readline()
                generation = self._generation_of(header)
                if generation != self.generation:
                    self.generation, self._read_to, self._lines = generation, len(header), []
                file.seek(self._read_to)
                data = file.read()
        except FileNotFoundError:
            self.generation, self._read_to, self._lines = 0, 0, []
            return
        except OSError as error:
            raise self._failed("read", error) from error
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._lines.append(self._parsed(line))
        self._read_to += len(whole)

    def _generation_of(self, header: bytes) -> int:
        fields = self._parsed(header)
        if fields.get("file") != self._what or fields.get("format") != _FORMAT:
            raise self._damaged("its first line names another format")
        return int(fields["generation"])

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise self._damaged(f"line {len(self._lines) + 1} cannot be read: {error}") from error
        if not isinstance(fields, dict):
            raise self._damaged(f"line {len(self._lines) + 1} is not an object")
        return fields

    def _write_anew(self, generation: int, items: Sequence[dict[str, Any]]) -> None:
        header = _line({"file": self._what, "format": _FORMAT, "generation": generation})
        replace_file(self.path, header + b"".join(map(_line, items)))

    def _failed(self, verb: str, error: OSError) -> StateError:
        return StateError(f"the {self._what} cannot be {verb}: {error.strerror}", where=str(self.path))

    def _damaged(self, reason: str) -> StateError:
        return StateError(
            f"the {self._what} is damaged: {reason}",
            where=str(self.path),
            hint="restore the state directory from a copy, or start anew with an empty one",
        )


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
