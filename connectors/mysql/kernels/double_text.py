"""Writes a double as MySQL prints it in JSON: the shortest digits that read back as the same double.

The digits come from `connectors.shared.kernels.text.floats`. The layout follows `my_gcvt` in MySQL's strings/dtoa.cc:
fixed notation when the first digit is within 15 places of the point, otherwise `d.ddde-N`; JSON adds `.0` to a fixed
number without a point.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.number_text import FULL, int64_text, uint64_text
from connectors.shared.kernels.kernel_types import Bytes, Int, Word
from connectors.shared.kernels.text.floats import shortest_digits

DOUBLE_TEXT_BYTES = 40
"""More bytes than the longest text of a double has: `-0.00000000000000` and 17 digits."""

NOT_FINITE = -2
"""The bits are an infinity or not a number, which have no text."""

_FIXED_PLACES = 15
_U0, _U10, _U52, _U63 = (np.uint64(n) for n in (0, 10, 52, 63))
_LOW63 = np.uint64((1 << 63) - 1)


@kernel.entry
def double_text(bits: Word, dst: Bytes, at: Int) -> Int:
    """Write the double with this uint64 pattern at `dst[at:]` as in MySQL's JSON text.

    Returns the offset after it, `FULL`, or `NOT_FINITE`.
    """
    if at + DOUBLE_TEXT_BYTES > dst.size:
        return FULL
    if (bits >> _U52) & np.uint64(0x7FF) == np.uint64(0x7FF):
        return NOT_FINITE
    if bits >> _U63 != _U0:
        dst[at] = np.uint8(45)
        at += 1
    digits, exponent = _U0, 0
    if bits & _LOW63 != _U0:
        digits, exponent = shortest_digits(bits & _LOW63)
    while digits != _U0 and digits % _U10 == _U0:
        digits = digits // _U10
        exponent += 1
    end = uint64_text(digits, dst, at)
    return _place_point(dst, at, end - at, end - at + exponent)


@kernel
def _place_point(dst: Bytes, at: Int, count: Int, point: Int) -> Int:
    """Put the decimal point after `point` of the `count` digits that are already at `dst[at:]`."""
    if point < 1 - _FIXED_PLACES or (point > _FIXED_PLACES and point >= count):
        return _scientific(dst, at, count, point)
    if point <= 0:
        shift = 2 - point
        for i in range(at + count - 1, at - 1, -1):
            dst[i + shift] = dst[i]
        for i in range(at, at + shift):
            dst[i] = np.uint8(48)
        dst[at + 1] = np.uint8(46)
        return at + shift + count
    if point >= count:
        for i in range(at + count, at + point):
            dst[i] = np.uint8(48)
        dst[at + point] = np.uint8(46)
        dst[at + point + 1] = np.uint8(48)
        return at + point + 2
    for i in range(at + count - 1, at + point - 1, -1):
        dst[i + 1] = dst[i]
    dst[at + point] = np.uint8(46)
    return at + count + 1


@kernel
def _scientific(dst: Bytes, at: Int, count: Int, point: Int) -> Int:
    """Turn the digits at `dst[at:]` into `d.ddde-N`."""
    end = at + count
    if count > 1:
        for i in range(end - 1, at, -1):
            dst[i + 1] = dst[i]
        dst[at + 1] = np.uint8(46)
        end += 1
    dst[end] = np.uint8(101)
    return int64_text(point - 1, dst, end + 1)
