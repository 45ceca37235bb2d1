"""A file of JSON lines that one process appends to while others read it.

The first line names the content and a generation, which a cut raises so that readers notice. A torn last line is what a
crash leaves: readers overlook it, the writer cuts it. Every append is on disk (fsync) when it returns. Threads may
share an object, and a second writer waits for the first (flock).
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
from cdc.state.durable import way_out, write_file

_RESTORE = "restore the state directory from a copy, or start over with an empty one"


class AppendLog:
    """Reads on from where it was, so keep the object. Cheap to make and to pickle; holds no file open.

    Args:
        path: of the file; it need not exist.
        what: names the content in errors, such as `chunk plan`.
        header: what the file's first line has to say besides its generation.
    """

    def __init__(self, path: Path, what: str, header: Mapping[str, Any] | None = None) -> None:
        self.path, self._what = path, what
        self._header = dict(header) if header is not None else {"file": what, "format": 1}
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._start_over(0, 0)

    def _start_over(self, generation: int, read_to: int) -> None:
        self.generation = generation
        """Raised by each cut; whoever keeps what was read has to start over when it changes."""
        self._read_to = read_to
        self._seen: tuple[int, ...] | None = None
        self._items: list[dict[str, Any]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("path", "_what", "_header")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __len__(self) -> int:
        """How many whole lines there are. Raises StateError."""
        with self._lock:
            self._refresh()
            return len(self._items)

    def items(self, first: int = 0, last: int | None = None) -> Sequence[dict[str, Any]]:
        """Lines `first` (counted from 0) up to and without `last`. Raises StateError when there are fewer."""
        with self._lock:
            self._refresh()
            if last is not None and last > len(self._items):
                raise StateError(
                    f"the {self._what} holds {len(self._items)} entries, {last} are needed",
                    where=str(self.path),
                    hint="the state directory is incomplete: restore it as a whole, or start over with an empty one",
                )
            return self._items[first:last]

    def append(self, *items: Mapping[str, Any]) -> int:
        """Write lines after the last whole one; the new number of lines. Raises StateError, and then none is there."""
        with self._lock, self._writing() as file:
            self._read_new_lines(file)
            if items:
                self._append_bytes(file, b"".join(map(_line, items)))
                self._read_new_lines(file)
            return len(self._items)

    def truncate(self, count: int) -> None:
        """Cut everything after the first `count` lines. Repeatable. Raises StateError when there are fewer."""
        with self._lock:
            kept = self.items(0, count)
            if count == len(self._items):
                return
            with self._writing():
                self._rewrite(self.generation + 1, kept)
            self._refresh()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[IO[bytes]]:
        """The file, which nobody else writes to meanwhile; made when it is not there."""
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
        """Write after the lines that were read; a crash's rest there is cut off. Data that the disk has no room for is
        taken back."""
        if file.seek(0, os.SEEK_END) < self._read_to:
            raise OSError(errno.EIO, "the file has become shorter")
        file.truncate(self._read_to)
        file.seek(self._read_to)
        try:
            left = memoryview(data)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fileno(), self._read_to)
            raise

    def _refresh(self) -> None:
        try:
            with open(self.path, "rb") as file:  # asking for its length alone may be answered from a cache by NFS
                if self._seen is None or _state_of(file) != self._seen:
                    self._read_new_lines(file)
        except FileNotFoundError:
            self._start_over(0, 0)
        except OSError as error:
            raise self._failed("read", error) from error

    def _read_new_lines(self, file: IO[bytes]) -> None:
        """Take in the whole lines that came since the last look; all of them when the file was cut."""
        file.seek(0)
        header = file.readline()
        generation = self._generation_of(header)
        if generation != self.generation:
            self._start_over(generation, len(header))
        file.seek(self._read_to)
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._items += [self._parse(line, number) for number, line in enumerate(whole.splitlines(), len(self._items))]
        self._read_to += len(whole)
        state = _state_of(file)
        self._seen = state if state[-1] == self._read_to else None  # a torn tail may be replaced by as many bytes

    def _generation_of(self, header: bytes) -> int:
        fields = self._parse(header, -1)
        if not fields.keys() >= {*self._header, "generation"} or not isinstance(fields["generation"], int):
            raise self._damaged_error("its first line does not name a format")
        for key, wanted in self._header.items():
            if fields[key] != wanted:
                raise self._damaged_error(f"its {key} is {fields[key]}, this version reads {wanted}")
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
            f"the {self._what} cannot be {verb}: {error.strerror or error}", where=str(self.path), hint=way_out(error)
        )

    def _damaged_error(self, reason: str) -> StateError:
        return StateError(f"the {self._what} is damaged: {reason}", where=str(self.path), hint=_RESTORE)


def _state_of(file: IO[bytes]) -> tuple[int, ...]:
    """Identity and length of a file: one that is appended to gets longer, one that is rewritten is another file."""
    stat = os.fstat(file.fileno())
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _line(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
