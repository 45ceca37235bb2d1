"""Compiles each kernel once on a machine, however many processes need it at the same moment.

Spark's workers and executors start together and need the same kernels at once. Without this, each would compile all of
them, which keeps every core busy for a minute. The second process waits and loads what the first one has saved. A
kernel that cannot be loaded or saved, as on a full disk, is compiled by each process.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock

_DAMAGED = (EOFError, UnpicklingError)
"""Raised when a file was truncated by a crash of the machine: Numba does not wait until its files are on disk."""

_held: set[Path] = set()
"""Locks that this process holds. A kernel that calls itself is compiled during its own compilation."""


def compiled_once(dispatcher: Any, folder: str) -> None:
    """Make a kernel compile under a lock of its own, in its cache folder.

    A process that compiles waits only for kernels that its kernel calls, never for one that calls it, so there is no
    circular wait. Numba's own lock is taken first: otherwise the threads of one process could block each other.
    """
    place = Path(folder) / f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}.lock"
    compile_now: Callable[[Any], Any] = dispatcher.compile

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock, _locked(place):
            return _compiled(dispatcher, compile_now, signature)

    dispatcher.compile = compile_in_turn


def _compiled(dispatcher: Any, compile_now: Callable[[Any], Any], signature: Any) -> Any:
    """Load the kernel, or compile and save it. Code that cannot be saved is still used in this process."""
    try:
        try:
            return compile_now(signature)
        except _DAMAGED:
            dispatcher._cache.flush()
            return compile_now(signature)
    except OSError:
        dispatcher._cache = NullCache()
        return compile_now(signature)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold a lock file on this machine. Does without where the folder is read-only or the file system has no locks."""
    file = None if place in _held else _lock_file(place)
    if file is None:
        yield
        return
    _held.add(place)
    try:
        yield
    finally:
        _held.discard(place)
        fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked in the meantime also has the file open
        os.close(file)


def _lock_file(place: Path) -> int | None:
    """Wait for the lock and return its file; None where there can be none."""
    try:
        file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        os.close(file)
        return None
    return file
