"""Kernels that write integers as decimal text into a byte buffer.

Every writer takes the buffer and an offset, and returns the offset after the text. It returns `FULL` when the buffer
may be too small; then its contents are undefined, and the caller tries again with a bigger one.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.shared.kernels.kernel_types import Bytes, Int, Word

FULL = -1
"""The destination is too small."""

INTEGER_TEXT_BYTES = 20
"""Length of the longest 64-bit integer, with or without a sign."""

_TEN = np.uint64(10)
_ZERO = np.uint64(48)
_MINUS = np.uint8(45)


@kernel.entry
def uint64_text(value: Word, dst: Bytes, at: Int) -> Int:
    """Write an unsigned integer (`value` is a uint64) at `dst[at:]`. Returns the offset after it, or `FULL`."""
    digits = 1
    rest = np.uint64(value) // _TEN
    while rest > np.uint64(0):
        digits += 1
        rest = rest // _TEN
    if at + digits > dst.size:
        return FULL
    rest = np.uint64(value)
    for i in range(at + digits - 1, at - 1, -1):
        quotient = rest // _TEN
        dst[i] = np.uint8(_ZERO + rest - quotient * _TEN)
        rest = quotient
    return at + digits


@kernel.entry
def int64_text(value: Int, dst: Bytes, at: Int) -> Int:
    """Write a signed integer (`value` is an int64) at `dst[at:]`. Returns the offset after it, or `FULL`."""
    if value >= 0:
        return uint64_text(np.uint64(value), dst, at)
    if at >= dst.size:
        return FULL
    dst[at] = _MINUS
    return uint64_text(np.uint64(0) - np.uint64(value), dst, at + 1)


@kernel.entry
def padded_text(value: Int, width: Int, dst: Bytes, at: Int) -> Int:
    """Write the lowest `width` digits of a non-negative integer with leading zeros.

    Returns the offset after, or `FULL`.
    """
    if at + width > dst.size:
        return FULL
    rest = value
    for i in range(at + width - 1, at - 1, -1):
        dst[i] = np.uint8(48 + rest % 10)
        rest = rest // 10
    return at + width


@kernel
def two_digits(value: Int, dst: Bytes, at: Int) -> Int:
    """Write 0..99 as two digits; the caller has checked the room. Returns the offset after them."""
    tens = value // 10
    dst[at] = np.uint8(48 + tens)
    dst[at + 1] = np.uint8(48 + value - 10 * tens)
    return at + 2
