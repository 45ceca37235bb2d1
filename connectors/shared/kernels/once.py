"""Kernels are compiled once on a machine, however many processes need them at the same moment.

Spark's workers and executors start together and come to the same kernels at once. Without this each would compile all
of them, which takes a minute of every core. Who comes second waits, and loads what the first one has saved. What cannot
be loaded or saved, as on a full disk, is compiled all the same.
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
"""Raised at a file that a crash of the machine has cut off: Numba does not wait for the disk."""

_held: set[Path] = set()
"""Locks of this process: a kernel that calls itself is compiled inside of its own compilation."""


def compiled_once(dispatcher: Any, folder: str) -> None:
    """Let a kernel be compiled under a lock of its own in its cache folder.

    A process that compiles waits for those of the kernels that it calls, never for one that calls it, so nobody waits
    in a circle. Numba's own lock is taken first: threads of a process would, otherwise.
    """
    place = Path(folder) / f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}.lock"
    compile_now: Callable[[Any], Any] = dispatcher.compile

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock, _locked(place):
            return _compiled(dispatcher, compile_now, signature)

    dispatcher.compile = compile_in_turn


def _compiled(dispatcher: Any, compile_now: Callable[[Any], Any], signature: Any) -> Any:
    """Loaded, or compiled and saved. What this process has compiled stays when it cannot be saved."""
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
    """Alone on this machine, as far as the folder can be written to and its file system has locks."""
    file = None if place in _held else _taken(place)
    if file is None:
        yield
        return
    _held.add(place)
    try:
        yield
    finally:
        _held.discard(place)
        fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open, too
        os.close(file)


def _taken(place: Path) -> int | None:
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
