"""The lock of a state directory: one run at a time, and none while the Java process of a killed run is still alive.

The lock file also names the temporary folder of the run's Java process, so that the next run can remove what a killed
one has left.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from cdc.errors import StateError
from cdc.process.pids import start_time
from cdc.state.durable import create_folder, private, state_error

HELD_HINT = "stop that run, or choose another --state-dir"
_SCRATCH = "cdc-scratch-"
_ROOM = 1 << 20
"""Free bytes required for temporary files: Java and Spark exchange files there."""
_LOOKS, _LOOK_S = 4, 0.05
"""Attempts to lock, and seconds between them: `is_locked` holds the lock for a moment."""


class RunLock:
    """Holds `<state>/lock`. A killed driver releases it at once, but its Java process may write a moment longer: the
    lock file names that process, and the next run waits until it has ended."""

    def __init__(
        self,
        root: Path,
        *,
        wait_s: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
        held: str = "another run is using this state directory",
        hint: str = HELD_HINT,
    ) -> None:
        """`held` and `hint` are the texts of the error if another process has the lock."""
        self._path, self._wait_s, self._sleep = root / "lock", wait_s, sleep
        self._held, self._hint = held, hint
        self._file: IO[str] | None = None
        self._holder: dict[str, int | str] = {}

    def acquire(self) -> None:
        """Take the lock. Raises StateError if another run holds it."""
        try:
            create_folder(self._path.parent)
            file = open(self._path, "a+", encoding="utf-8", opener=private)  # noqa: SIM115 - held until release
        except OSError as error:
            raise state_error(self._path, error) from error
        try:
            self._acquire(file)
        except OSError as error:
            file.seek(0)
            holder = _holder(file.read())
            file.close()
            raise StateError(
                f"{self._held} (process {holder.get('driver', '?')})", where=str(self._path.parent), hint=self._hint
            ) from error
        file.seek(0)
        earlier = _holder(file.read())
        try:
            self._refuse_copy(earlier)
            self._await_java(earlier)
        except StateError:
            file.close()
            raise
        _remove_scratch(earlier)
        self._file = file
        self._write({"driver": os.getpid(), "driver_started": start_time(os.getpid())})

    def _acquire(self, file: IO[str]) -> None:
        """Lock the file; retries while `is_locked` of another process holds it. Raises OSError if another run does."""
        for _ in range(_LOOKS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                driver = _holder(file.read()).get("driver")
                if isinstance(driver, int) and start_time(driver):
                    raise
            else:
                return
            self._sleep(_LOOK_S)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def create_scratch_folder(self) -> Path:
        """Create a private temporary folder, which is removed when the lock is released.

        Raises StateError if it cannot be created, or the disk is full: Java would wait forever for a file that it
        cannot write, and Spark for Java.
        """
        scratch = ""
        try:
            folder = Path(scratch := tempfile.mkdtemp(prefix=_SCRATCH))
            self._write({**self._holder, "scratch": scratch})
            (folder / "room").write_bytes(bytes(_ROOM))
            (folder / "room").unlink()
        except OSError as error:
            hint = "free some space there, or set TMPDIR to another folder"
            raise StateError(
                f"cannot make a temporary folder: {error.strerror}", where=str(error.filename or scratch), hint=hint
            ) from error
        return folder

    def name_java(self, pid: int) -> None:
        """Record the Java process of this run."""
        self._write({**self._holder, "java": pid, "java_started": start_time(pid)})

    def release(self) -> None:
        """Release the lock, after the Java process has ended."""
        if self._file is not None:
            _remove_scratch(self._holder)
            with contextlib.suppress(StateError):  # on a full disk the names of ended processes stay, which is harmless
                self._write({})
            self._file.close()
            self._file = None

    def _write(self, holder: dict[str, int | str]) -> None:
        self._holder = holder
        if self._file is not None:
            try:
                self._file.seek(0)
                self._file.truncate()
                self._file.write(json.dumps(holder))
                self._file.flush()
            except OSError as error:
                raise state_error(self._path, error) from error

    def _refuse_copy(self, holder: dict[str, int | str]) -> None:
        """Raise StateError if the run that the file names is active: it holds the lock of another directory."""
        pid = holder.get("driver")
        if isinstance(pid, int) and pid != os.getpid() and start_time(pid) == holder.get("driver_started") != "":
            raise StateError(
                f"is a copy of the state directory of a run that is active (process {pid})",
                where=str(self._path.parent),
                hint="remove it; `cdc savepoint` makes a copy to keep or to move, once that run is stopped",
            )

    def _await_java(self, holder: dict[str, int | str]) -> None:
        pid = holder.get("java")
        if not isinstance(pid, int) or pid == os.getpid():
            return
        waited = 0.0
        while start_time(pid) == holder.get("java_started") and start_time(pid):
            if waited >= self._wait_s:
                raise StateError(
                    f"the Java process {pid} of an earlier run is still alive",
                    where=str(self._path.parent),
                    hint=f"end it (kill -9 {pid}) and start again",
                )
            self._sleep(0.1)
            waited += 0.1


def is_locked(root: Path) -> bool:
    """Whether a run on this machine uses a state directory now. Any process."""
    try:
        with open(root / "lock", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    except OSError as error:
        raise state_error(root, error, "read") from error
    return False


def _holder(text: str) -> dict[str, int | str]:
    try:
        fields = json.loads(text or "{}")
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _remove_scratch(holder: dict[str, int | str]) -> None:
    folder = Path(str(holder.get("scratch", "")))
    # Path.is_symlink raises without permission.
    if folder.name.startswith(_SCRATCH) and not os.path.islink(folder):
        shutil.rmtree(folder, ignore_errors=True)
