"""Writes to the state directory's growing files, on disk when they return. Stream reader process and driver."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write the whole file under a temporary name, then rename it, so that readers see the old or the new one.

    Raises OSError.
    """
    spare = path.with_suffix(".new")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(spare, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(spare, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def append_at(path: Path, position: int, data: bytes) -> None:
    """Write behind `position`, and cut what a crash has left there before. Raises OSError, also when the file ends
    before `position`: the gap would be filled with NULs."""
    with open(path, "r+b") as file:
        if file.seek(0, os.SEEK_END) < position:
            raise OSError(errno.EIO, f"the file ends before byte {position}")
        file.truncate(position)
        file.seek(position)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
