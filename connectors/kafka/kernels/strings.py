"""Write text and bytes as JSON strings to an address: escapes, base64, hexadecimal digits. The caller provides room."""

from __future__ import annotations

import numpy as np

from connectors.kafka.kernels import kernel
from connectors.shared.kernels.kernel_types import Bool, Int, Word
from connectors.shared.kernels.memory import peek8, peek64, poke8, poke64, signed32

_QUOTE, _BACKSLASH = 34, 92
_NONE = np.uint64(0)
_ONES, _SPACES, _QUOTES, _BACKSLASHES, _HIGHEST = (
    np.uint64(0x0101_0101_0101_0101 * byte) for byte in (1, 32, _QUOTE, _BACKSLASH, 128)
)
"""Words that repeat one byte eight times."""
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).astype(np.int64)
_SHORT = np.zeros(32, np.int64)
_SHORT[8], _SHORT[9], _SHORT[10], _SHORT[12], _SHORT[13] = 98, 116, 110, 102, 114

ESCAPE_BYTES = 5
"""The most bytes that an escape adds to the escaped byte."""


@kernel.entry
def escapes(offsets: Int, values: Int, rows: Int) -> Int:
    """How many bytes of a string column need an escape.

    offsets: address of the first row's int32 offset; values: address that the offsets count from.
    """
    found = 0
    for i in range(signed32(offsets), signed32(offsets + 4 * rows)):
        byte = peek8(values + i)
        if byte < 32 or byte in (_QUOTE, _BACKSLASH):
            found += 1
    return found


@kernel
def escaped(at: Int, size: Int, to: Int) -> Int:
    """Write UTF-8 text as the content of a JSON string; return the address after it.

    Copies eight bytes at a time as one number, until one of them needs an escape.
    """
    i = 0
    while i + 8 <= size:
        word = np.uint64(peek64(at + i))
        if _needs_escape(word):
            to = _escaped_bytes(at + i, 8, to)
        else:
            poke64(to, np.int64(word))
            to += 8
        i += 8
    return _escaped_bytes(at + i, size - i, to)


@kernel
def _needs_escape(word: Word) -> Bool:
    """Whether one of eight bytes is below 32, a quote or a backslash."""
    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
    low = (word - _SPACES) & ~word
    return (low | ((quotes - _ONES) & ~quotes) | ((backslashes - _ONES) & ~backslashes)) & _HIGHEST != _NONE


@kernel
def _escaped_bytes(at: Int, size: Int, to: Int) -> Int:
    for i in range(size):
        byte = peek8(at + i)
        if byte < 32 or byte in (_QUOTE, _BACKSLASH):
            to = _escape(byte, to)
        else:
            poke8(to, byte)
            to += 1
    return to


@kernel
def _escape(byte: Int, to: Int) -> Int:
    """Write the escape of one byte; return the address after it."""
    poke8(to, _BACKSLASH)
    if byte >= 32:
        poke8(to + 1, byte)
        return to + 2
    if _SHORT[byte] != 0:
        poke8(to + 1, _SHORT[byte])
        return to + 2
    poke8(to + 1, 117)
    poke8(to + 2, 48)
    poke8(to + 3, 48)
    poke8(to + 4, 48 + (byte >> 4))
    low = byte & 15
    poke8(to + 5, low + (48 if low < 10 else 87))
    return to + 6


@kernel
def base64_text(at: Int, size: Int, step: Int, to: Int) -> Int:
    """Write padded base64 of `size` bytes from `at` on; with `step` -1, of the bytes from `at` downwards."""
    i = 0
    while i + 2 < size:
        word = peek8(at + step * i) << 16 | peek8(at + step * (i + 1)) << 8 | peek8(at + step * (i + 2))
        poke8(to, _BASE64[word >> 18])
        poke8(to + 1, _BASE64[(word >> 12) & 63])
        poke8(to + 2, _BASE64[(word >> 6) & 63])
        poke8(to + 3, _BASE64[word & 63])
        to += 4
        i += 3
    if i < size:
        word = peek8(at + step * i) << 16
        if i + 1 < size:
            word |= peek8(at + step * (i + 1)) << 8
        poke8(to, _BASE64[word >> 18])
        poke8(to + 1, _BASE64[(word >> 12) & 63])
        poke8(to + 2, _BASE64[(word >> 6) & 63] if i + 1 < size else 61)
        poke8(to + 3, 61)
        to += 4
    return to
