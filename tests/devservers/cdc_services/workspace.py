"""Temporary folders of servers: each is locked by the process that owns it, and swept away when that one is gone."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LOCK = "owner.lock"


class Workspace:
    """A new temporary folder, `path`. One that a killed process left behind is removed when the next is made."""

    def __init__(self, name: str) -> None:
        base = Path(tempfile.gettempdir()) / f"cdc-servers-{os.geteuid()}"
        base.mkdir(mode=0o700, exist_ok=True)
        gate = os.open(base / "gate.lock", os.O_CREAT | os.O_WRONLY)
        try:
            fcntl.flock(gate, fcntl.LOCK_EX)
            for folder in _abandoned(base):
                shutil.rmtree(folder, ignore_errors=True)
            self.path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_WRONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        finally:
            os.close(gate)

    def remove(self) -> None:
        """Remove the folder; a second call does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _abandoned(base: Path) -> Iterator[Path]:
    for path in base.glob(f"*/{_LOCK}"):
        lock = os.open(path, os.O_WRONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
        yield path.parent
