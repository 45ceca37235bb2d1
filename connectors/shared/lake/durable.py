"""Files of a lake on a local disk."""

from __future__ import annotations

import os


def sync_to_disk(path: str) -> None:
    """Bring a file of a local folder, and its name, to the disk; an object store has it already."""
    path = path.removeprefix("file://")
    if "://" in path:
        return
    for place in (path, os.path.dirname(path)):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
