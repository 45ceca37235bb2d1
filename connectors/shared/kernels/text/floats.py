"""Doubles and floats as the shortest decimal text that reads back as the same number.

The digits come from Raffaello Giulietti's Schubfach ("The Schubfach way to render doubles", 2020): one table of powers
of ten with 126 bits each, of which floats need the upper half. Layout: plain digits from 0.00001 up to 16 digits before
the point (`0.001`, `1500`), otherwise `d.ddde-N`; so no text is longer than 24 bytes. The servers read no text for
infinity and not-a-number; the caller handles those before.
"""

from __future__ import annotations

import numpy as np

from connectors.shared.kernels.kernel_types import Int, Pair, Word
from connectors.shared.kernels.memory import poke8
from connectors.shared.kernels.text import kernel
from connectors.shared.kernels.text.integers import digits_of, digits_text, signed_text

FLOAT_BYTES = 24
"""The longest text: a sign, 17 digits, the point and an exponent of three digits with its sign."""

_K_FIRST, _K_LAST = -292, 324
_FIXED_PLACES, _FIXED_ZEROS = 16, 4


def _powers_of_ten() -> tuple[np.ndarray, np.ndarray]:
    """Return the high and low 63 bits of floor(10**k * 2**-r) + 1 for k in -292..324; r makes it 126 bits long."""
    high, low = [], []
    for k in range(_K_FIRST, _K_LAST + 1):
        r = ((k * 913_124_641_741) >> 38) - 125
        value = (10**k << -r if r < 0 else 10**k >> r) if k >= 0 else (1 << -r) // 10**-k
        high.append((value + 1) >> 63)
        low.append((value + 1) & ((1 << 63) - 1))
    return np.array(high, np.uint64), np.array(low, np.uint64)


_HIGH, _LOW = _powers_of_ten()
_U0, _U1, _U2, _U3, _U10, _U40 = (np.uint64(n) for n in (0, 1, 2, 3, 10, 40))
_U31, _U32, _U63 = np.uint64(31), np.uint64(32), np.uint64(63)
_LOW31, _LOW32, _LOW63 = (np.uint64((1 << n) - 1) for n in (31, 32, 63))


@kernel
def _high_product(a: Word, b: Word) -> Word:
    """Return the upper 64 bits of the 128-bit product."""
    a0, a1, b0, b1 = a & _LOW32, a >> _U32, b & _LOW32, b >> _U32
    middle = a1 * b0 + ((a0 * b0) >> _U32)
    other = a0 * b1 + (middle & _LOW32)
    return a1 * b1 + (middle >> _U32) + (other >> _U32)


@kernel
def _round_to_odd(high: Word, low: Word, c: Word) -> Word:
    """Return the product of a 126-bit power of ten and c, shifted right by 127 bits.

    The last bit is set when bits were lost.
    """
    z = ((high * c) >> _U1) + _high_product(low, c)
    w = _high_product(high, c) + (z >> _U63)
    return w | (((z & _LOW63) + _LOW63) >> _U63)


@kernel
def _round_to_odd_short(g: Word, c: Word) -> Word:
    """Round to odd like `_round_to_odd`, with a 63-bit power of ten, for floats."""
    product = _high_product(g, c)
    return (product >> _U31) | (((product & _LOW31) + _LOW31) >> _U31)


@kernel
def _choose(vb: Word, vbl: Word, vbr: Word, k: Int) -> Pair:
    """Return the shortest number within the rounding interval, the nearest if there are several.

    The arguments are four times the number and four times the ends of the interval.
    """
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
def shortest_digits(bits: Word) -> Pair:
    """Return (digits, exponent): digits * 10**exponent is the shortest decimal that reads back as this double.

    `bits` is the uint64 pattern of a positive finite double, not zero. The digits may end in zeros.
    """
    biased = np.int64(bits >> np.uint64(52))
    c = bits & np.uint64((1 << 52) - 1)
    q = np.int64(-1074)
    if biased > 0:
        c |= np.uint64(1 << 52)
        q = biased - 1075
        if -53 < q <= 0 and (c >> np.uint64(-q)) << np.uint64(-q) == c:
            return c >> np.uint64(-q), np.int64(0)
    out = c & _U1
    cb = c << _U2
    if c != np.uint64(1 << 52) or q == -1074:
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
    return _choose(vb, vbl, vbr, k)


@kernel
def _digits32(bits: Word) -> Pair:
    """Return (digits, exponent) of the positive float with these bits, not zero."""
    biased = np.int64(bits >> np.uint64(23))
    c = bits & np.uint64((1 << 23) - 1)
    q = np.int64(-149)
    if biased > 0:
        c |= np.uint64(1 << 23)
        q = biased - 150
        if -24 < q <= 0 and (c >> np.uint64(-q)) << np.uint64(-q) == c:
            return c >> np.uint64(-q), np.int64(0)
    out = c & _U1
    cb = c << _U2
    if c != np.uint64(1 << 23) or q == -149:
        lower = cb - _U2
        k = (q * 661_971_961_083) >> 41
    else:
        lower = cb - _U1
        k = (q * 661_971_961_083 - 274_743_187_321) >> 41
    h = np.uint64(q + ((-k * 913_124_641_741) >> 38) + 33)
    g = _HIGH[-k - _K_FIRST] + _U1
    vb = _round_to_odd_short(g, cb << h)
    vbl = _round_to_odd_short(g, lower << h) + out
    vbr = _round_to_odd_short(g, (cb + _U2) << h) - out
    return _choose(vb, vbl, vbr, k)


@kernel
def double_text(bits: Word, to: Int) -> Int:
    """Write the finite double with these bits. Returns the address after the text."""
    if bits >> _U63 != _U0:
        poke8(to, 45)
        to += 1
        bits &= _LOW63
    if bits == _U0:
        poke8(to, 48)
        return to + 1
    digits, exponent = shortest_digits(bits)
    return _layout(digits, exponent, to)


@kernel
def float_text(bits: Word, to: Int) -> Int:
    """Write the finite float with these 32 bits. Returns the address after the text."""
    if bits >> _U31 != _U0:
        poke8(to, 45)
        to += 1
        bits &= _LOW31
    if bits == _U0:
        poke8(to, 48)
        return to + 1
    digits, exponent = _digits32(bits)
    return _layout(digits, exponent, to)


@kernel
def _layout(digits: Word, exponent: Int, to: Int) -> Int:
    """Write digits * 10**exponent."""
    while digits % _U10 == _U0:
        digits //= _U10
        exponent += 1
    count = digits_of(digits)
    point = count + exponent
    if point > _FIXED_PLACES or point < -_FIXED_ZEROS:
        return _scientific(digits, count, point, to)
    if exponent >= 0:
        to = digits_text(digits, count, to)
        for _ in range(exponent):
            poke8(to, 48)
            to += 1
        return to
    if point > 0:
        return _split(digits, count, point, to)
    poke8(to, 48)
    poke8(to + 1, 46)
    to += 2
    for _ in range(-point):
        poke8(to, 48)
        to += 1
    return digits_text(digits, count, to)


@kernel
def _split(digits: Word, count: Int, point: Int, to: Int) -> Int:
    """Write digits with the point after `point` of them, 0 < point < count."""
    unit = _U1
    for _ in range(count - point):
        unit *= _U10
    whole = digits // unit
    to = digits_text(whole, point, to)
    poke8(to, 46)
    return digits_text(digits - whole * unit, count - point, to + 1)


@kernel
def _scientific(digits: Word, count: Int, point: Int, to: Int) -> Int:
    """Write as `d.ddde-N`."""
    to = _split(digits, count, np.int64(1), to) if count > 1 else digits_text(digits, count, to)
    poke8(to, 101)
    return signed_text(point - 1, to + 1)
