"""Memory of a process: returns freed memory to the system, and keeps loaded modules out of garbage collections."""

from __future__ import annotations

import ctypes
import functools
import gc

import pyarrow as pa

MUCH = 16 << 20
"""Bytes of rows or messages from which on it pays off to return freed memory."""


def trim_memory() -> None:
    """Return freed memory to the system. Any process; takes 4 to 10 ms. Only glibc needs it."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@functools.cache
def freeze_loaded_objects() -> None:
    """Exclude all current objects from Python's garbage collections. Called after the first task: most are code.

    PySpark's worker collects after every task, which takes 30 ms with half a million objects.
    """
    gc.freeze()
