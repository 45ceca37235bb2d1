"""Kernel that writes a double as MySQL prints it in JSON: shortest digits that read back as the same double.

The digits come from Raffaello Giulietti's Schubfach ("The Schubfach way to render doubles", 2020): one table of
powers of ten to 126 bits and three 64x126-bit products. The layout follows `my_gcvt` in MySQL's strings/dtoa.cc:
fixed notation when the first digit lies within 15 places of the point, else `d.ddde-N`; JSON adds `.0` to a fixed
number without a point.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.number_text import FULL, int64_text, uint64_text
from connectors.shared.kernels.kernel_types import Bytes, Int, Word

DOUBLE_TEXT_BYTES = 40
"""More than the longest text of a double: `-0.00000000000000` and 17 digits."""

NOT_FINITE = -2
"""The bits are an infinity or not a number: no text."""

_K_FIRST, _K_LAST = -292, 324
_FIXED_PLACES = 15


def _powers_of_ten() -> tuple[np.ndarray, np.ndarray]:
    """High and low 63 bits of floor(10**k * 2**-r) + 1 for k in -292..324, r chosen so that it has 126 bits."""
    high, low = [], []
    for k in range(_K_FIRST, _K_LAST + 1):
        r = ((k * 913_124_641_741) >> 38) - 125
        if k >= 0:
            value = 10**k << -r if r < 0 else 10**k >> r
        else:
            value = (1 << -r) // 10**-k
        high.append((value + 1) >> 63)
        low.append((value + 1) & ((1 << 63) - 1))
    return np.array(high, np.uint64), np.array(low, np.uint64)


_HIGH, _LOW = _powers_of_ten()
_U0, _U1, _U2, _U3, _U10, _U40 = (np.uint64(n) for n in (0, 1, 2, 3, 10, 40))
_U32, _U52, _U63 = np.uint64(32), np.uint64(52), np.uint64(63)
_LOW32 = np.uint64(0xFFFF_FFFF)
_LOW63 = np.uint64((1 << 63) - 1)
_FRACTION = np.uint64((1 << 52) - 1)
_HIDDEN = np.uint64(1 << 52)


@kernel.inlined
def _high_product(a: Word, b: Word) -> Word:
    """Upper 64 bits of the 128-bit product."""
    a0, a1, b0, b1 = a & _LOW32, a >> _U32, b & _LOW32, b >> _U32
    middle = a1 * b0 + ((a0 * b0) >> _U32)
    other = a0 * b1 + (middle & _LOW32)
    return a1 * b1 + (middle >> _U32) + (other >> _U32)


@kernel
def _round_to_odd(high: Word, low: Word, c: Word) -> Word:
    """The product of a 126-bit power of ten and c, shifted down 127 bits; the last bit says whether bits were lost."""
    z = ((high * c) >> _U1) + _high_product(low, c)
    w = _high_product(high, c) + (z >> _U63)
    return w | (((z & _LOW63) + _LOW63) >> _U63)


@kernel
def shortest_digits(bits: Word) -> tuple[Word, Int]:
    """(digits, exponent) with digits * 10**exponent the shortest decimal that reads back as the positive finite double.

    `bits` is its uint64 pattern without the sign bit. The digits may end in zeros; zero gives (0, 0).
    """
    biased = np.int64(bits >> _U52)
    c = bits & _FRACTION
    q = np.int64(-1074)
    if biased > 0:
        c |= _HIDDEN
        q = biased - 1075
        if -53 < q <= 0 and (c >> np.uint64(-q)) << np.uint64(-q) == c:
            return c >> np.uint64(-q), 0
    if c == _U0:
        return _U0, 0
    out = c & _U1
    cb = c << _U2
    if c != _HIDDEN or q == -1074:
        lower = cb - _U2
        k = (q * 661_971_961_083) >> 41
    else:
        lower = cb - _U1
        k = (q * 661_971_961_083 - 274_743_187_321) >> 41
    h = np.uint64(q + ((-k * 913_124_641_741) >> 38) + 2)
    high, low = _HIGH[-k - _K_FIRST], _LOW[-k - _K_FIRST]
    vb = _round_to_odd(high, low, cb << h)
    vbl = _round_to_odd(high, low, lower << h) + out
    vbr = _round_to_odd(high, low, (cb + _U2) << h) - out
    s = vb >> _U2
    if s >= _U10:
        tens = s // _U10
        down = vbl <= tens * _U40
        up = tens * _U40 + _U40 <= vbr
        if down != up:
            return (tens + _U1 if up else tens), k + 1
    down = vbl <= s << _U2
    up = (s + _U1) << _U2 <= vbr
    if down != up:
        return (s + _U1 if up else s), k
    half = (s << _U2) + _U2
    if vb > half or (vb == half and s & _U1 == _U1):
        s += _U1
    return s, k


@kernel
def double_text(bits: Word, dst: Bytes, at: Int) -> Int:
    """Write the double with this uint64 pattern at `dst[at:]` as MySQL's JSON text has it.

    Returns the offset after it, `FULL`, or `NOT_FINITE`.
    """
    if at + DOUBLE_TEXT_BYTES > dst.size:
        return FULL
    if (bits >> _U52) & np.uint64(0x7FF) == np.uint64(0x7FF):
        return NOT_FINITE
    if bits >> _U63 != _U0:
        dst[at] = np.uint8(45)
        at += 1
    digits, exponent = shortest_digits(bits & _LOW63)
    if digits == _U0:
        exponent = 0
    while digits != _U0 and digits % _U10 == _U0:
        digits = digits // _U10
        exponent += 1
    end = uint64_text(digits, dst, at)
    return _place_point(dst, at, end - at, end - at + exponent)


@kernel
def _place_point(dst: Bytes, at: Int, count: Int, point: Int) -> Int:
    """Lay out `count` digits already at `dst[at:]` with the decimal point after `point` of them."""
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
    """`d.ddde-N` from digits at `dst[at:]`."""
    end = at + count
    if count > 1:
        for i in range(end - 1, at, -1):
            dst[i + 1] = dst[i]
        dst[at + 1] = np.uint8(46)
        end += 1
    dst[end] = np.uint8(101)
    return int64_text(point - 1, dst, end + 1)
