"""Memory that a process has freed and keeps: given back to the system where much was used for a moment."""

from __future__ import annotations

import ctypes

import pyarrow as pa

MUCH = 16 << 20
"""Bytes of rows or messages that leave enough behind to give it back."""


def give_back_memory() -> None:
    """Give back what is freed. Any process; takes 4 to 10 ms. C libraries other than glibc do so without being told."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
