"""Archived log files by name, in log order."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from cdc.errors import SourceError
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.server.positions import LogPosition, file_number
from connectors.shared.ddl.dialect import DdlDialect

_FIRST_BYTES = 1 << 12
_BESIDE_LOGS = (".index", ".idx", ".state")
"""Suffixes of other files next to logs: the list of logs; since MariaDB 11.4 the index of GTIDs and the last GTIDs."""


class LogFiles:
    """The files matched by patterns. Kernels are loaded when one is read."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Find the files. Raises SourceError when there are none, or not exactly one for each number."""
        found = sorted(matching(patterns, "path"), key=lambda path: (file_number(path.name), path))
        for path, later in pairwise(found):
            _check_neighbours(path, later)
        self.paths = {path.name: path for path in found}

    @property
    def first(self) -> LogPosition:
        """The beginning of the first file."""
        return LogPosition(next(iter(self.paths)))

    def dialect(self, name: str) -> DdlDialect:
        """Return the SQL dialect of the server that wrote a file, from the version text of its format description."""
        from connectors.mysql.log.log_file import read_buffers

        first = next(read_buffers(self._path(name), buffer_bytes=_FIRST_BYTES))
        return DdlDialect.of(first.body(0)[2:52].rstrip(b"\0").decode("latin-1"))

    def buffers(self, start: LogPosition, end: LogPosition | None = None) -> Iterator[ReceiveBuffer]:
        """Yield all buffers from `start` to `end` (None: to the end of the last file)."""
        from connectors.mysql.log.log_file import read_buffers

        names = list(self.paths)
        for name in (start.file, *([end.file] if end is not None else [])):
            self._path(name)
        last = names.index(end.file) if end is not None else len(names) - 1
        for index in range(names.index(start.file), last + 1):
            begin = start.position if names[index] == start.file else 4
            stop = end.position if end is not None and names[index] == end.file else None
            if stop is None or begin < stop:
                yield from read_buffers(self.paths[names[index]], begin, stop)

    def _path(self, name: str) -> Path:
        if name not in self.paths:
            raise SourceError(f"the file {name} no longer exists", where="source.path", hint="put it back")
        return self.paths[name]


def matching(patterns: Sequence[str], option: str) -> list[Path]:
    """Return the files matched by the patterns of an option, each once.

    Raises SourceError for a pattern without any.
    """
    found: list[Path] = []
    for pattern in patterns:
        paths = [Path(path) for path in sorted(glob.glob(pattern)) if not path.endswith(_BESIDE_LOGS)]
        if not paths:
            hint = "check the path; on a cluster the files have to be on every machine, under the same path"
            raise SourceError(f"no file matches {pattern}", where=f"source.{option}", hint=hint)
        found += paths
    return list(dict.fromkeys(found))


def _check_neighbours(path: Path, later: Path) -> None:
    steps = file_number(later.name) - file_number(path.name)
    if steps == 0:
        raise SourceError(
            f"two binlog files have the same number: {path} and {later}",
            where="source.path",
            hint="use one pipeline per server",
        )
    if steps > 1:
        raise SourceError(
            f"between {path.name} and {later.name} files are missing, and with them changes",
            where="source.path",
            hint="add them, or leave out the older ones",
        )
