"""Addresses of arrays, the arguments of row kernels."""

from __future__ import annotations

from typing import Any


def address(array: Any) -> int:
    """Return the address of a C-contiguous array's first byte; the caller keeps the array alive while a kernel runs."""
    if not array.flags.c_contiguous:
        raise ValueError("a kernel needs a contiguous array")
    return int(array.ctypes.data)
