"""Reads little-endian numbers from byte arrays, inside kernels. The caller has checked the bounds."""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.shared.kernels.kernel_types import Bytes, Int


@kernel.inlined
def u16(data: Bytes, at: Int) -> Int:
    """Return the number in two bytes."""
    return np.int64(data[at]) | np.int64(data[at + 1]) << 8


@kernel.inlined
def u32(data: Bytes, at: Int) -> Int:
    """Return the number in four bytes."""
    low = np.int64(data[at]) | np.int64(data[at + 1]) << 8
    return low | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24


@kernel
def number(data: Bytes, at: Int, size: Int) -> Int:
    """Return the number in `size` (0..8) bytes; eight are read as a signed number."""
    value = np.int64(0)
    for index in range(size):
        value |= np.int64(data[at + index]) << (8 * index)
    return value


@kernel.entry
def varlen(data: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read a variable-length integer of MySQL's serialization library: (value, next offset); (0, -1) past `end`.

    The number of trailing one bits in the first byte is the number of bytes that follow; the value is in the bits above
    them (`libs/mysql/serialization/readme.md`). Values from 2**63 on are returned as negative numbers.
    """
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(data[at])
    more = 0
    while more < 8 and first >> more & 1:
        more += 1
    if at + 1 + more > end:
        return np.int64(0), np.int64(-1)
    rest = number(data, at + 1, more)
    if more == 8:
        return rest, np.int64(at + 9)
    return rest << (7 - more) | first >> (more + 1), np.int64(at + 1 + more)
