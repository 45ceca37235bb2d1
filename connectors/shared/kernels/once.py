"""Kernels are compiled once on a machine, however many processes need them at the same moment.

Spark's workers and executors start together and come to the same kernels at once. Without this each would compile all
of them, which takes a minute of every core. Who comes second waits, and loads what the first one has saved.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

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
            return compile_now(signature)

    dispatcher.compile = compile_in_turn


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
