"""A file of JSON lines that one process appends to while others read it.

The first line names the content and a generation, which a truncation increases so that readers notice. A crash may
leave an incomplete last line: readers ignore it, the writer removes it. An append is on disk (fsync) when it returns.
Threads may share an object, and a second writer waits for the first (flock).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from cdc.errors import StateError
from cdc.state.durable import hint_for, write_file

_RESTORE = "restore the state directory from a copy, or start over with an empty one"


class AppendLog:
    """A log of JSON objects. Reads incrementally, so keep the object. Cheap to create and pickle; holds no file open.

    Args:
        path: of the file; it need not exist.
        kind: names the content in errors, such as `chunk plan`.
        header: the fields of the file's first line, besides its generation.
    """

    def __init__(self, path: Path, kind: str, header: Mapping[str, Any] | None = None) -> None:
        self.path, self._kind = path, kind
        self._header = dict(header) if header is not None else {"file": kind, "format": 1}
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._start_over(0, 0)

    def _start_over(self, generation: int, read_to: int) -> None:
        self.generation = generation
        """Increased by each truncation; callers that cache entries have to start over when it changes."""
        self._read_to = read_to
        self._seen: tuple[int, ...] | None = None
        self._items: list[dict[str, Any]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("path", "_kind", "_header")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __len__(self) -> int:
        """The number of complete lines. Raises StateError."""
        with self._lock:
            self._refresh()
            return len(self._items)

    def items(self, first: int = 0, last: int | None = None) -> Sequence[dict[str, Any]]:
        """Lines from `first` (counted from 0) up to but excluding `last`. Raises StateError if there are fewer."""
        with self._lock:
            self._refresh()
            if last is not None and last > len(self._items):
                raise StateError(
                    f"the {self._kind} holds {len(self._items)} entries, {last} are needed",
                    where=str(self.path),
                    hint="the state directory is incomplete: restore it as a whole, or start over with an empty one",
                )
            return self._items[first:last]

    def append(self, *items: Mapping[str, Any]) -> int:
        """Append lines; return the new number of lines. After a StateError none of them is in the file."""
        with self._lock, self._writing() as file:
            self._read_new_lines(file)
            if items:
                self._append_bytes(file, b"".join(map(_line, items)))
                self._read_new_lines(file)
            return len(self._items)

    def truncate(self, count: int) -> None:
        """Remove everything after the first `count` lines. Repeatable. Raises StateError if there are fewer."""
        with self._lock:
            retained = self.items(0, count)
            if count == len(self._items):
                return
            with self._writing():
                self._rewrite(self.generation + 1, retained)
            self._refresh()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[IO[bytes]]:
        """Context manager: the file, locked for writing; it is created if it does not exist."""
        try:
            while True:
                if not self.path.exists():
                    self._rewrite(1, [])
                with open(self.path, "r+b", buffering=0) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    if _is_at(file, self.path):  # it may have been replaced while we waited
                        yield file
                        return
        except OSError as error:
            raise self._failed("written", error) from error

    def _append_bytes(self, file: IO[bytes], data: bytes) -> None:
        """Write after the last complete line, in the place of an incomplete one. On an error, such as a full disk, the
        data is removed again."""
        if file.seek(0, os.SEEK_END) < self._read_to:
            raise OSError(errno.EIO, "the file has become shorter")
        file.truncate(self._read_to)
        file.seek(self._read_to)
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[file.write(remaining) :]
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fileno(), self._read_to)
            raise

    def _refresh(self) -> None:
        try:
            with open(self.path, "rb") as file:  # NFS may answer a stat from its cache; opening revalidates it
                if self._seen is None or _state_of(file) != self._seen:
                    self._read_new_lines(file)
        except FileNotFoundError:
            self._start_over(0, 0)
        except OSError as error:
            raise self._failed("read", error) from error

    def _read_new_lines(self, file: IO[bytes]) -> None:
        """Read the complete lines added since the last call; all lines if the file was truncated."""
        file.seek(0)
        header = file.readline()
        generation = self._generation_of(header)
        if generation != self.generation:
            self._start_over(generation, len(header))
        file.seek(self._read_to)
        data = file.read()
        lines = data[: data.rfind(b"\n") + 1]
        self._items += [self._parse(line, number) for number, line in enumerate(lines.splitlines(), len(self._items))]
        self._read_to += len(lines)
        state = _state_of(file)
        self._seen = (
            state if state[-1] == self._read_to else None
        )  # an incomplete line may be replaced by as many bytes

    def _generation_of(self, header: bytes) -> int:
        fields = self._parse(header, -1)
        if not fields.keys() >= {*self._header, "generation"} or not isinstance(fields["generation"], int):
            raise self._damaged_error("its first line does not name a format")
        for key, expected in self._header.items():
            if fields[key] != expected:
                raise self._damaged_error(f"its {key} is {fields[key]}, this version reads {expected}")
        return int(fields["generation"])

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        name = "its first line" if number < 0 else f"entry {number}"
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise self._damaged_error(f"{name} cannot be read: {error}") from error
        if not isinstance(fields, dict):
            raise self._damaged_error(f"{name} is not an object")
        return fields

    def _rewrite(self, generation: int, items: Sequence[Mapping[str, Any]]) -> None:
        header = _line({**self._header, "generation": generation})
        self._replace_file(header + b"".join(map(_line, items)))

    def _replace_file(self, data: bytes) -> None:
        write_file(self.path, data)

    def _failed(self, verb: str, error: OSError) -> StateError:
        return StateError(
            f"the {self._kind} cannot be {verb}: {error.strerror or error}", where=str(self.path), hint=hint_for(error)
        )

    def _damaged_error(self, reason: str) -> StateError:
        return StateError(f"the {self._kind} is damaged: {reason}", where=str(self.path), hint=_RESTORE)


def _state_of(file: IO[bytes]) -> tuple[int, ...]:
    """Identity and length of a file: an append changes its length, a rewrite replaces the file."""
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
