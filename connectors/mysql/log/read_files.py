"""Identity of archived log files: name and position alone do not distinguish files of different servers.

`read-files.json` of the source's folder stores the time and the server id of the first event (the format description)
of each file reached by batches. Format: MySQL Internals Manual, "Binary Log Event Header". Stream reader process.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from cdc.errors import PositionLost, SourceError
from cdc.state.store import Store

FILE_NAME = "read-files.json"
_MOST_FILES = 100
"""Number of files remembered; older ones are not read again."""


class ReadFiles:
    """The files that were read before."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def check(self, files: Mapping[str, Path]) -> None:
        """Raise PositionLost when a file that was read has been replaced by another of the same name. Once per run."""
        for name, before in (self._store.read_json(FILE_NAME, hint="remove the file") or {}).items():
            if name in files and _identity(files[name]) != before:
                raise PositionLost(
                    f"{name} is not the file of this name that was read: it was opened at another time or "
                    "by another server",
                    where=str(files[name]),
                    hint="restore the former files; or use another --state-dir and other sink tables",
                )

    def note(self, files: Mapping[str, Path], first: str, last: str) -> None:
        """Record the files of a batch. On disk on return; repeatable."""
        known = self._store.read_json(FILE_NAME, hint="remove the file") or {}
        names = list(files)
        new = [name for name in names[names.index(first) : names.index(last) + 1] if name not in known]
        if new:
            found = {**known, **{name: _identity(files[name]) for name in new}}
            self._store.write_json(FILE_NAME, dict(list(found.items())[-_MOST_FILES:]))


def _identity(path: Path) -> list[int]:
    """Return time (s) and server id of the file's first event."""
    with path.open("rb") as stream:
        head = stream.read(4 + 9)
    if len(head) < 13:
        raise SourceError("is not a binary log file: it is too short", where=str(path))
    seconds, _, server_id = struct.unpack_from("<IBI", head, 4)
    return [int(seconds), int(server_id)]
