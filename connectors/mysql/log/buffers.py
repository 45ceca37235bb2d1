"""Buffers for log readers, each reused as soon as nothing refers to it any more.

The system clears new memory page by page on first write, in a virtual machine after the host has found it; that costs
as much as receiving the data. A buffer is in use as long as it, or an array made from it, exists: CPython counts the
references.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

import numpy as np

from connectors.mysql.log.receive_buffer import Bytes

BUFFER_BYTES: Final = 4 << 20
"""Maximum bytes in one buffer, unless one event is bigger."""
_POOL_SIZE = 3

_lock = threading.Lock()
_pool: list[Bytes] = []


def _idle(kept: list[Bytes]) -> Bytes | None:
    """Return a buffer of the list without other references."""
    for buffer in kept:
        if sys.getrefcount(buffer) <= _OURS:
            return buffer
    return None


def _count_ours() -> int:
    """Count the references to an unused buffer as `_idle` does; the number depends on the Python version."""
    count = 0
    for buffer in [np.empty(1, np.uint8)]:
        count = sys.getrefcount(buffer)
    return count


_OURS = _count_ours()


def acquire_buffer(size: int = BUFFER_BYTES) -> Bytes:
    """Return an unused buffer; a process keeps a few of the usual size for all its readers. Thread-safe."""
    if size != BUFFER_BYTES:
        return np.empty(size, np.uint8)
    with _lock:
        idle = _idle(_pool)
        if idle is not None:
            return idle
        fresh = np.empty(size, np.uint8)
        if len(_pool) < _POOL_SIZE:
            _pool.append(fresh)
        return fresh


def carry(buffer: Bytes, at: int, filled: int, size: int = BUFFER_BYTES) -> Bytes:
    """Return another buffer that begins with `buffer[at:filled]`, of at least `size` bytes and twice that content."""
    rest = filled - at
    fresh = acquire_buffer(max(size, 2 * rest))
    fresh[:rest] = buffer[at:filled]
    return fresh
