"""Values of the binary protocol: dates and times as fields, decimals as text.

Formats: MySQL "Binary Protocol Value": a date is year (2), month, day; a moment adds hour, minute, second and
microseconds (4); a time is sign, days (4), hour, minute, second, microseconds (4). Trailing zero parts are omitted, as
the length shows. at: address after the length; size: the length.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels.decimal import write_limbs
from connectors.mysql.kernels.temporal import INVALID, days
from connectors.mysql.snapshot.read.kernels import kernel
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek16, peek32, poke8, poke64

BROKEN = INVALID - 1
"""Result for bytes that are not a value."""
DECIMAL_ROOM = 68
"""Bytes that `decimal_text` may write."""

_SECOND = 1_000_000
_LOW = 0xFFFFFFFF
_POWERS = np.array([10**n for n in range(10)], np.int64)
_MINUS, _POINT, _ZERO = 45, 46, 48


@kernel
def date_of(at: Int, size: Int) -> Int:
    """Return days since the epoch, INVALID for invalid dates, or BROKEN."""
    if size == 0:
        return INVALID
    if size != 4 and size != 7 and size != 11:
        return BROKEN
    return days(peek16(at), peek8(at + 2), peek8(at + 3))


@kernel
def moment_of(at: Int, size: Int) -> Int:
    """Return microseconds since the epoch, as if in UTC; INVALID or BROKEN."""
    number = date_of(at, size)
    if number <= INVALID:
        return number
    clock = np.int64(0)
    if size >= 7:
        hour = peek8(at + 4)
        minute = peek8(at + 5)
        second = peek8(at + 6)
        micros = peek32(at + 7) if size == 11 else np.int64(0)
        if hour > 23 or minute > 59 or second > 59 or micros >= _SECOND:
            return INVALID
        clock = (hour * 3_600 + minute * 60 + second) * _SECOND + micros
    return number * 86_400 * _SECOND + clock


@kernel
def span_of(at: Int, size: Int) -> Int:
    """Return a TIME in signed microseconds, or BROKEN."""
    if size == 0:
        return np.int64(0)
    if size != 8 and size != 12:
        return BROKEN
    micros = peek32(at + 8) if size == 12 else np.int64(0)
    minute = peek8(at + 6)
    second = peek8(at + 7)
    if minute > 59 or second > 59 or micros >= _SECOND:
        return BROKEN
    span = (((peek32(at + 1) * 24 + peek8(at + 5)) * 60 + minute) * 60 + second) * _SECOND + micros
    return -span if peek8(at) else span


@kernel
def decimal64_of(at: Int, size: Int, scale: Int, to: Int) -> Int:
    """Parse a decimal of at most 18 significant digits, `scale` of them after the point, and write 128 bits.

    Returns 0 when it is not a decimal.
    """
    end = at + size
    negative = size > 0 and peek8(at) == _MINUS
    if negative:
        at += 1
    value = np.int64(0)
    behind = np.int64(-1)
    digits = np.int64(0)
    while at < end:
        digit = peek8(at) - _ZERO
        at += 1
        if digit == _POINT - _ZERO and behind < 0:
            behind = np.int64(0)
            continue
        if digit < 0 or digit > 9 or value > 99_999_999_999_999_999:
            return 0
        value = value * 10 + digit
        digits += 1
        if behind >= 0:
            behind += 1
    if digits == 0 or max(behind, np.int64(0)) != scale:
        return 0
    if negative:
        value = -value
    poke64(to, value)
    poke64(to + 8, value >> 63)
    return 1


@kernel
def decimal128_of(at: Int, size: Int, scale: Int, to: Int) -> Int:
    """Parse a decimal of up to 38 digits, as `decimal64_of`: groups of nine go into four 32-bit limbs."""
    end = at + size
    negative = size > 0 and peek8(at) == _MINUS
    if negative:
        at += 1
    l0 = l1 = l2 = l3 = np.int64(0)
    group = np.int64(0)
    held = np.int64(0)
    behind = np.int64(-1)
    digits = np.int64(0)
    while at <= end:
        if held == 9 or (at == end and held > 0):
            power = _POWERS[held]
            t = l0 * power + group
            l0 = t & _LOW
            t = l1 * power + (t >> 32)
            l1 = t & _LOW
            t = l2 * power + (t >> 32)
            l2 = t & _LOW
            t = l3 * power + (t >> 32)
            if t > _LOW >> 1:
                return 0
            l3 = t
            group = held = np.int64(0)
        if at == end:
            break
        digit = peek8(at) - _ZERO
        at += 1
        if digit == _POINT - _ZERO and behind < 0:
            behind = np.int64(0)
            continue
        if digit < 0 or digit > 9:
            return 0
        group = group * 10 + digit
        held += 1
        digits += 1
        if behind >= 0:
            behind += 1
    if digits == 0 or max(behind, np.int64(0)) != scale:
        return 0
    write_limbs(l0 | l1 << 32, l2 | l3 << 32, negative, to)
    return 1


@kernel
def decimal_text(at: Int, size: Int, scale: Int, to: Int) -> Int:
    """Copy a decimal as `-12.340`: no leading zeros of ZEROFILL, one zero before the point, no minus for zero.

    Returns the address after it, at most DECIMAL_ROOM further on, or 0 when it is not a decimal.
    """
    end = at + size
    if size > DECIMAL_ROOM:
        return 0
    negative = size > 0 and peek8(at) == _MINUS
    if negative:
        at += 1
    behind = np.int64(-1)
    digits = np.int64(0)
    zero = True
    for i in range(at, end):
        code = peek8(i)
        if code == _POINT and behind < 0:
            behind = np.int64(0)
            continue
        if code < _ZERO or code > _ZERO + 9:
            return 0
        zero = zero and code == _ZERO
        digits += 1
        if behind >= 0:
            behind += 1
    if digits == 0 or max(behind, np.int64(0)) != scale:
        return 0
    while end - at > 1 and peek8(at) == _ZERO and peek8(at + 1) != _POINT:
        at += 1
    if negative and not zero:
        poke8(to, _MINUS)
        to += 1
    if peek8(at) == _POINT:
        poke8(to, _ZERO)
        to += 1
    for i in range(at, end):
        poke8(to, peek8(i))
        to += 1
    return to
