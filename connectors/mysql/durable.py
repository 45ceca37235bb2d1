"""Writes to the state directory's growing files, on disk when they return. Stream reader process and driver."""

from __future__ import annotations

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
    """Write behind `position`, and cut what a crash has left there before. Raises OSError."""
    with open(path, "r+b") as file:
        file.truncate(position)
        file.seek(position)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
