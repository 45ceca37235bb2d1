"""Converts packed decimals, MySQL's binary DECIMAL, to 128-bit integers or to text.

Format (MySQL `strings/decimal.cc`, decimal2bin): digits in groups of nine, with four big-endian bytes each; the partial
groups at both ends take (digits + 1) / 2 bytes. The first bit is inverted; a negative value has all bits inverted.

Arguments everywhere: at: address of the first byte; lead: digits of the first, partial group; tail: digits of the last
one; to: address to write to.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek32b, peekb, poke8, poke64

TEXT_ROOM = 68
"""Bytes that `decimal_text` needs."""

_POWERS = np.array([10**n for n in range(10)], np.int64)
_LOW = 0xFFFFFFFF
_BILLION = 1_000_000_000


@kernel
def _group(at: Int, digits: Int, flip: Int, negative: Int) -> Int:
    """Return a partial group's number, or -1 when it has too many digits. flip: 1 for the value's first group."""
    size = (digits + 1) >> 1
    value = peekb(at, size)
    value ^= flip << (8 * size - 1)
    if negative:
        value ^= (np.int64(1) << (8 * size)) - 1
    return value if value < _POWERS[digits] else np.int64(-1)


@kernel
def _nine(at: Int, flip: Int, negative: Int) -> Int:
    """Return a full group's number, or -1 when it has too many digits."""
    value = peek32b(at) ^ flip << 31
    if negative:
        value ^= _LOW
    return value if value < _BILLION else np.int64(-1)


@kernel
def write_limbs(low: Int, high: Int, negative: Int, to: Int) -> None:
    """Write the 128 bits of a number given without its sign."""
    if negative:
        low = -low
        high = ~high
        if low == 0:
            high += 1
    poke64(to, low)
    poke64(to + 8, high)


@kernel
def decimal64(at: Int, lead: Int, full: Int, tail: Int, to: Int) -> Int:
    """Write a value of at most 18 digits as 128 bits. Returns 0 when the bytes are not a decimal.

    full: number of groups of nine, before and after the point together.
    """
    negative = 1 if peek8(at) < 0x80 else 0
    flip = np.int64(1)
    value = np.int64(0)
    if lead > 0:
        value = _group(at, lead, flip, negative)
        at += (lead + 1) >> 1
        flip = np.int64(0)
    sound = value
    for _ in range(full):
        part = _nine(at, flip, negative)
        sound |= part
        value = value * _BILLION + part
        at += 4
        flip = np.int64(0)
    if tail > 0:
        part = _group(at, tail, flip, negative)
        sound |= part
        value = value * _POWERS[tail] + part
    if negative:
        value = -value
    poke64(to, value)
    poke64(to + 8, value >> 63)
    return 1 if sound >= 0 else 0


@kernel
def decimal128(at: Int, lead: Int, full: Int, tail: Int, to: Int) -> Int:
    """Write a value of up to 38 digits like `decimal64`.

    The product is kept in four 32-bit limbs in 64-bit integers.
    """
    negative = 1 if peek8(at) < 0x80 else 0
    flip = np.int64(1)
    l0 = l1 = l2 = l3 = np.int64(0)
    groups = full + (1 if lead > 0 else 0) + (1 if tail > 0 else 0)
    for g in range(groups):
        digits = np.int64(9)
        if g == 0 and lead > 0:
            digits = lead
        elif g == groups - 1 and tail > 0:
            digits = tail
        if digits == 9:
            part = _nine(at, flip, negative)
            at += 4
        else:
            part = _group(at, digits, flip, negative)
            at += (digits + 1) >> 1
        if part < 0:
            return 0
        flip = np.int64(0)
        power = _POWERS[digits]
        t = l0 * power + part
        l0 = t & _LOW
        t = l1 * power + (t >> 32)
        l1 = t & _LOW
        t = l2 * power + (t >> 32)
        l2 = t & _LOW
        l3 = (l3 * power + (t >> 32)) & _LOW
    write_limbs(l0 | l1 << 32, l2 | l3 << 32, negative, to)
    return 1


@kernel
def _digits(value: Int, count: Int, to: Int, started: Int) -> Int:
    """Write `count` digits; leading zeros are left out until `started`. Returns the address after them."""
    power = _POWERS[count]
    for _ in range(count):
        power //= 10
        digit = value // power % 10
        if started or digit != 0:
            poke8(to, 48 + digit)
            to += 1
            started = 1
    return to


@kernel.entry
def decimal_text(at: Int, lead: Int, whole: Int, fraction: Int, tail: Int, to: Int) -> Int:
    """Write a value of any precision up to 65 as `-12.340`, in at most TEXT_ROOM bytes.

    whole, fraction: groups of nine before and after the point. Returns the address after the text, or 0 when corrupt.
    """
    negative = 1 if peek8(at) < 0x80 else 0
    flip = np.int64(1)
    begin = to
    zero = True
    if negative:
        poke8(to, 45)
        to += 1
    integer = to
    first = 1 if lead > 0 else 0
    point = first + whole
    groups = point + fraction + (1 if tail > 0 else 0)
    for g in range(groups + 1):
        if g == point:
            if to == integer:
                poke8(to, 48)
                to += 1
            if groups > point:
                poke8(to, 46)
                to += 1
        if g == groups:
            break
        digits = np.int64(9)
        if g < first:
            digits = lead
        elif g == point + fraction:
            digits = tail
        if digits == 9:
            part = _nine(at, flip, negative)
            at += 4
        else:
            part = _group(at, digits, flip, negative)
            at += (digits + 1) >> 1
        if part < 0:
            return 0
        flip = np.int64(0)
        zero = zero and part == 0
        to = _digits(part, digits, to, 1 if g >= point or to > integer else 0)
    if negative and zero:
        for i in range(begin, to - 1):
            poke8(i, peek8(i + 1))
        to -= 1
    return to
