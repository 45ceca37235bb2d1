"""Memory of a process: what is freed is given back to the system, and what is loaded is not searched for garbage."""

from __future__ import annotations

import ctypes
import functools
import gc

import pyarrow as pa

MUCH = 16 << 20
"""Bytes of rows or messages that leave enough behind to give it back."""


def trim_memory() -> None:
    """Give back what is freed. Any process; takes 4 to 10 ms. C libraries other than glibc do so without being told."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


@functools.cache
def freeze_loaded_objects() -> None:
    """Leave all objects of this process out of Python's searches for cycles, once: after the first task they are code.

    PySpark's worker searches after every task, 30 ms each time among half a million objects.
    """
    gc.freeze()
