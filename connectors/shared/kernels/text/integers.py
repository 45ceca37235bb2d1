"""Integers and decimals as text at an address.

Every writer returns the address after its text; the caller has made room for the longest text.
"""

from __future__ import annotations

import numpy as np

from connectors.shared.kernels.kernel_types import Int, Word
from connectors.shared.kernels.memory import move, peek8, peek64, poke8, poke16
from connectors.shared.kernels.text import kernel

INTEGER_BYTES = 20
"""Length of the longest 64-bit integer, with or without a sign."""

DECIMAL_BYTES = 96
"""Bytes that `decimal_text` needs: 42 for sign, zero, point and 39 digits, and as many again as working space."""

UPPER, LOWER = 55, 87
"""What is added to the numbers 10 to 15 to get the letters `A-F` or `a-f`."""

_WIDE_DIGITS, _SCRATCH_OFFSET = 39, 48

_ZERO, _POINT, _MINUS = 48, 46, 45
_U10, _U100 = np.uint64(10), np.uint64(100)
_PAIRS = np.array([(48 + n // 10) | (48 + n % 10) << 8 for n in range(100)], np.int64)
_LOW32 = np.uint64(0xFFFF_FFFF)
_U32 = np.uint64(32)
_UNITS = np.array([10**n for n in range(19)], np.uint64)
_BILLION = np.uint64(1_000_000_000)


@kernel
def hex_text(at: Int, size: Int, letters: Int, to: Int) -> Int:
    """Write two hexadecimal digits per byte; `letters` is UPPER or LOWER."""
    for i in range(size):
        byte = peek8(at + i)
        high, low = byte >> 4, byte & 15
        poke8(to + 2 * i, high + (48 if high < 10 else letters))
        poke8(to + 2 * i + 1, low + (48 if low < 10 else letters))
    return to + 2 * size


@kernel
def digits_of(value: Word) -> Int:
    """Return the number of decimal digits of an unsigned number; zero has one."""
    count = 1
    while value >= np.uint64(10_000):
        value //= np.uint64(10_000)
        count += 4
    if value >= np.uint64(1000):
        return count + 3
    if value >= _U100:
        return count + 2
    if value >= _U10:
        return count + 1
    return count


@kernel
def digits_text(value: Word, count: Int, to: Int) -> Int:
    """Write the lowest `count` digits, with leading zeros."""
    at = to + count
    while at - to >= 2:
        rest = value // _U100
        at -= 2
        poke16(at, _PAIRS[np.int64(value - rest * _U100)])
        value = rest
    if at > to:
        poke8(to, _ZERO + np.int64(value % _U10))
    return to + count


@kernel
def unsigned_text(value: Word, to: Int) -> Int:
    """Write an unsigned integer."""
    return digits_text(value, digits_of(value), to)


@kernel
def signed_text(value: Int, to: Int) -> Int:
    """Write a signed integer."""
    if value >= 0:
        return unsigned_text(np.uint64(value), to)
    poke8(to, _MINUS)
    return unsigned_text(np.uint64(0) - np.uint64(value), to + 1)


@kernel
def decimal_text(at: Int, scale: Int, to: Int) -> Int:
    """Write the 128-bit number at `at` (little-endian two's complement) with `scale` digits after the point."""
    low, high = np.uint64(peek64(at)), peek64(at + 8)
    if high < 0:
        poke8(to, _MINUS)
        to += 1
        low = np.uint64(0) - low
        high = ~high + (1 if low == np.uint64(0) else 0)
    if high != 0 or scale > 18:
        return _wide_text(low, np.uint64(high), scale, to)
    unit = _UNITS[scale]
    whole = low // unit
    to = unsigned_text(whole, to)
    if scale == 0:
        return to
    poke8(to, _POINT)
    return digits_text(low - whole * unit, scale, to + 1)


@kernel
def _wide_text(low: Word, high: Word, scale: Int, to: Int) -> Int:
    """Write any number as `decimal_text` does. Its digits are first written after the place of the text."""
    digits = to + _SCRATCH_OFFSET
    _all_digits(low, high, digits)
    first = digits
    point = digits + _WIDE_DIGITS - scale
    while first < point - 1 and peek8(first) == _ZERO:
        first += 1
    move(to, first, point - first)
    to += point - first
    if scale == 0:
        return to
    poke8(to, _POINT)
    move(to + 1, point, scale)
    return to + 1 + scale


@kernel
def _all_digits(low: Word, high: Word, to: Int) -> None:
    """Write the 39 digits of a 128-bit number, in groups of nine by long division of four 32-bit limbs."""
    l0, l1, l2, l3 = low & _LOW32, low >> _U32, high & _LOW32, high >> _U32
    end = to + _WIDE_DIGITS
    for _ in range(4):
        rest = l3 % _BILLION
        l3 = l3 // _BILLION
        part = rest << _U32 | l2
        l2, rest = part // _BILLION, part % _BILLION
        part = rest << _U32 | l1
        l1, rest = part // _BILLION, part % _BILLION
        part = rest << _U32 | l0
        l0, rest = part // _BILLION, part % _BILLION
        end -= 9
        digits_text(rest, 9, end)
    digits_text(l0, 3, to)
