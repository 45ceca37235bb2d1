"""Decoded ranges of the log that runs share: the first run decodes a range into a file, the others read the file.

    folder/blocks/KEY            complete: renamed after its last byte is written
    folder/blocks/KEY.lock       flock: of the task that writes it, until that ends in whatever way
    folder/blocks/KEY.part-PID   being written
    folder/blocks/KEY.by-NAME    a run has read it; removed when all have

The key covers everything that the rows depend on. Without a file, or when it would take too long, a task reads the
server's log. Executor.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.process.stopwatch import in_phase
from cdc.source import Count, Siblings
from connectors.mysql.log.segment import LogRange
from connectors.mysql.log.sequences import sequence_of
from connectors.mysql.sharing.blocks_file import BlocksFile, BlocksTooLarge, write_blocks
from connectors.mysql.sharing.runs import Runs

LEAST_BYTES = 256 << 10
"""Minimum size of a shared range: a shorter one is decoded in less time than a file takes."""
MOST_BYTES = 512 << 20
"""Maximum total size of the files; the oldest are removed first.

They are in memory as far as the machine can spare it.
"""
STALLED_S = 2.0
"""Time without growth after which a file is not waited for."""
_LOOK_S = 0.005

Decode = Callable[[Count], Iterator[ChangeBlock]]
"""Decodes a range from the server's log."""


class Elsewhere(Exception):
    """The range came from another server than planned: its rows have other sequences, valid only for that task."""


class SharedBlocks:
    """The decoded ranges of one pipeline's runs. Cheap to create."""

    def __init__(self, siblings: Siblings, most_bytes: int = MOST_BYTES) -> None:
        self._siblings, self._most = siblings, most_bytes
        self._folder, self._runs = siblings.folder / "blocks", Runs(siblings)

    def read(
        self,
        part: LogRange,
        made_of: Sequence[object],
        names: Sequence[str],
        for_all: Decode,
        alone: Callable[[], Iterator[ChangeBlock]],
        count: Count,
    ) -> Iterator[ChangeBlock]:
        """Yield the blocks of a range. `made_of` is what they depend on besides it, `names` the requested metadata.

        `for_all` decodes it for the file, and may be abandoned before its end; it raises Elsewhere instead of returning
        rows of another server. `alone` decodes it for this task.
        """
        file = None
        if _bytes(part) >= LEAST_BYTES:
            file = self._file(part, _key(part, [*made_of, list(names)]), names, for_all)
        if file is None:
            yield from alone()
            return
        for reason, number in file.counts.items():
            count(reason, number)
        yield from in_phase("read", file.blocks())

    def _file(self, part: LogRange, key: str, names: Sequence[str], decode: Decode) -> BlocksFile | None:
        """Return the range's file, writing it first if another run will need it; None when there is none."""
        found = self._open(key)
        if found is not None or not self._runs.has_slower_run(_last_sequence(part), self._most // 2):
            return found
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._turn(key) as mine:
                found = self._open(key)
                if found is None and mine and self._write(part, key, names, decode):
                    found = self._open(key)
        except OSError:
            return None
        return found

    def _open(self, key: str) -> BlocksFile | None:
        path = self._folder / key
        try:
            found = BlocksFile(path)
            Path(f"{path}.by-{self._siblings.name}").touch()
            if len(list(self._folder.glob(f"{key}.by-*"))) >= self._siblings.count:
                self._remove(key)
        except (OSError, ValueError, pa.ArrowException):
            return None
        return found

    @contextmanager
    def _turn(self, key: str) -> Iterator[bool]:
        """Lock the file if this task is to write it; waits for another writer as long as that makes progress."""
        lock = os.open(self._folder / f"{key}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            yield self._try_lock(lock, key)
        finally:
            os.close(lock)

    def _try_lock(self, lock: int, key: str) -> bool:
        size, since = -1, time.monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                now = sum(each.stat().st_size for each in self._folder.glob(f"{key}.part-*"))
                if now != size:
                    size, since = now, time.monotonic()
                if time.monotonic() - since > STALLED_S:
                    return False
            time.sleep(_LOOK_S)

    def _write(self, part: LogRange, key: str, names: Sequence[str], decode: Decode) -> bool:
        """Write the file; returns whether it exists now. Raises what `decode` raises."""
        limit = max(2 * _bytes(part), self._most // 8)  # the log may be compressed
        if limit > self._most:
            return False
        self._make_room(limit)
        path = self._folder / f"{key}.part-{os.getpid()}"
        counts = Counter[str]()

        def count(reason: str, number: int) -> None:
            counts[reason] += number

        blocks = decode(count)
        try:
            write_blocks(path, blocks, names, counts, limit)
            path.replace(self._folder / key)
        except (BlocksTooLarge, Elsewhere):
            return False
        finally:
            path.unlink(missing_ok=True)
            close = getattr(blocks, "close", None)
            if close is not None:
                close()  # it holds a connection
        return True

    def _make_room(self, wanted: int) -> None:
        """Remove the oldest files until there is room."""
        held = []
        for entry in os.scandir(self._folder):
            if "." not in entry.name:
                found = entry.stat()
                held.append((found.st_mtime, found.st_size, entry.name))
        total = sum(size for _, size, _ in held) + wanted
        for _, size, name in sorted(held):
            if total <= self._most:
                return
            self._remove(name)
            total -= size

    def _remove(self, key: str) -> None:
        for path in [self._folder / key, *self._folder.glob(f"{key}.by-*"), self._folder / f"{key}.lock"]:
            path.unlink(missing_ok=True)


def _last_sequence(part: LogRange) -> int:
    return sequence_of(part.end.file, part.end.position, part.files_ahead)


def _bytes(part: LogRange) -> int:
    """Return the bytes of log in a range, ignoring the part in an earlier file."""
    return part.end.position - (part.start.position if part.start.file == part.end.file else 0)


def _key(part: LogRange, made_of: Sequence[object]) -> str:
    places = [[at.file, at.position] for at in (part.start, part.end)]
    identity = [places, part.server, part.after, part.upto, part.files_ahead, *made_of]
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode("utf-8")).hexdigest()[:32]
