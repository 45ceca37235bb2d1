"""Copy values that `scan` found into column buffers: text, whole numbers, bytes, decimals."""

from __future__ import annotations

from connectors.kafka.kernels import ABSENT, ESCAPED, INTEGER, NULL, STRING, kernel
from connectors.kafka.kernels.escapes import escape, utf8_byte, utf8_length
from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import move, peek8, poke8

_HIGHEST = 922337203685477580


@kernel
def _unescaped(base: Int, at: Int, stop: Int, out: Int, to: Int) -> Int:
    """Write the text of a string with escapes; return the position after it, -1 for an invalid escape or surrogate."""
    while at < stop:
        byte = peek8(base + at)
        at += 1
        if byte != 92:
            poke8(out + to, byte)
            to += 1
            continue
        found = escape(base, at, stop)
        if found < 0:
            return -1
        at += found & 15
        code = found >> 4
        for place in range(utf8_length(code)):
            poke8(out + to, utf8_byte(code, place))
            to += 1
    return to


@kernel.entry
def gather(base: Int, starts: Ints, stops: Ints, kinds: Ints, out: Int, offsets: Ints) -> Int:
    """Write the texts of values one after the other, with escapes decoded; NULL and absent ones are empty.

    `out` is an address with room for all of them. Fills offsets[n + 1]. Returns -1, or the first value that is no text.
    """
    to = 0
    offsets[0] = 0
    for item in range(len(starts)):
        kind = kinds[item]
        if kind == ESCAPED:
            to = _unescaped(base, starts[item], stops[item], out, to)
            if to < 0:
                return item
        elif kind != ABSENT and kind != NULL:
            length = stops[item] - starts[item]
            move(out + to, base + starts[item], length)
            to += length
        offsets[item + 1] = to
    return -1


@kernel.entry
def integers(base: Int, starts: Ints, stops: Ints, kinds: Ints, values: Ints) -> Int:
    """Read whole numbers, also from strings; 0 for NULL. Returns -1, or the first that is none or does not fit."""
    for item in range(len(starts)):
        kind = kinds[item]
        if kind in (NULL, ABSENT):
            values[item] = 0
            continue
        at, stop = starts[item], stops[item]
        if (kind != INTEGER and kind != STRING) or at == stop:
            return item
        negative = peek8(base + at) == 45
        if negative:
            at += 1
            if at == stop:
                return item
        value = 0
        while at < stop:
            digit = peek8(base + at) - 48
            last = 8 if negative else 7
            if digit < 0 or digit > 9 or value < -_HIGHEST or (value == -_HIGHEST and digit > last):
                return item
            value = value * 10 - digit  # negative, because int64 has one more negative number
            at += 1
        values[item] = value if negative else -value
    return -1


@kernel.entry
def base64(texts: Ints, offsets: Ints, out: Ints, out_offsets: Ints) -> Int:
    """Decode base64 texts. Returns -1, or the first text that is none."""
    to = 0
    out_offsets[0] = 0
    for item in range(len(offsets) - 1):
        bits, word = 0, 0
        padding = False
        for at in range(offsets[item], offsets[item + 1]):
            byte = texts[at]
            if 65 <= byte <= 90:
                digit = byte - 65
            elif 97 <= byte <= 122:
                digit = byte - 71
            elif 48 <= byte <= 57:
                digit = byte + 4
            elif byte == 43:
                digit = 62
            elif byte == 47:
                digit = 63
            elif byte == 61:
                padding = True
                continue
            else:
                return item
            if padding:
                return item
            word = (word << 6 | digit) & 0xFFFFFF
            bits += 6
            if bits >= 8:
                bits -= 8
                out[to] = word >> bits & 255
                to += 1
        out_offsets[item + 1] = to
    return -1


@kernel.entry
def decimals(texts: Ints, offsets: Ints, out: Ints) -> Int:
    """Convert big-endian two's complement numbers to 16 little-endian bytes. Returns -1, or the first longer one."""
    for item in range(len(offsets) - 1):
        length = offsets[item + 1] - offsets[item]
        if length > 16:
            return item
        fill = 255 if length and texts[offsets[item]] >= 128 else 0
        for place in range(16):
            out[16 * item + place] = texts[offsets[item + 1] - 1 - place] if place < length else fill
    return -1
