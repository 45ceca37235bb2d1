"""Free space on a disk, as a finding of `cdc doctor`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from cdc.finding import Finding, error, ok, warning

_LITTLE = 1 << 30
_NONE = 100 << 20


def examine_folder(subject: str, folder: Path) -> Iterator[Finding]:
    """Findings about write access and free space of a folder, which need not exist yet."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        yield error(subject, f"{existing} is not a folder", "choose another location")
        return
    if not os.access(existing, os.W_OK | os.X_OK):
        yield error(
            subject, f"{existing} cannot be written to", "give this user write access, or choose another location"
        )
        return
    free = shutil.disk_usage(existing).free
    message = f"{folder}: {free / (1 << 30):.1f} GiB free"
    if free < _NONE:
        yield error(subject, message, "free some space, or choose another location")
    elif free < _LITTLE:
        yield warning(subject, message, "free some space: rows wait there until they are committed")
    else:
        yield ok(subject, message)
