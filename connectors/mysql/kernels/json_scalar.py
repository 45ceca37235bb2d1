"""Kernels for the scalars of MySQL's binary JSON: literals, numbers, strings. Opaque values are in `json_opaque`.

Format: MySQL's sql-common/json_binary.h and .cc; text: `double_quote` and `wrapper_to_string` in json_dom.cc.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.double_text import double_text
from connectors.mysql.kernels.number_text import FULL, int64_text, uint64_text
from connectors.shared.kernels.kernel_types import Bytes, Int, Word

CORRUPT = -2
"""The bytes cannot be a JSON value."""

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY = 0, 1, 2, 3
LITERAL, INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 4, 5, 6, 7, 8, 9, 10, 11, 12, 15

_LITERALS = np.frombuffer(b"nulltruefalse", np.uint8)
_ONES = np.uint64(0x0101_0101_0101_0101)
_HIGHS = np.uint64(0x8080_8080_8080_8080)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
# The letter after the backslash for a control character; 0 means the form \u00XX.
_ESCAPES = np.array([{8: 98, 9: 116, 10: 110, 12: 102, 13: 114}.get(i, 0) for i in range(32)], np.uint8)


@kernel.inlined
def little(src: Bytes, at: Int, width: Int) -> Word:
    """Return the little-endian unsigned integer of `width` bytes at `at`; the caller has checked the bounds."""
    # With unsigned subscripts, Numba omits its check for negative ones, and LLVM turns the loop into one load.
    first = np.uint64(at)
    value = np.uint64(0)
    for i in range(width):
        value |= np.uint64(src[first + np.uint64(i)]) << np.uint64(8 * i)
    return value


@kernel
def variable_length(src: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read a length of 7 bits per byte, lowest first, at most 5 bytes: (length, offset after it), or (-1, at)."""
    length = np.int64(0)
    for i in range(5):
        if at + i >= end:
            return np.int64(-1), at
        byte = np.int64(src[at + i])
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return (length, at + i + 1) if length <= 0xFFFF_FFFF else (np.int64(-1), at)
    return np.int64(-1), at


@kernel
def utf8_width(src: Bytes, at: Int, end: Int) -> Int:
    """Return the bytes of the UTF-8 character at `at`, whose first byte is 0x80 or more; 0 when it is malformed."""
    first = src[at]
    if first < 0xC2 or first > 0xF4:
        return 0
    width = 2 if first < 0xE0 else (3 if first < 0xF0 else 4)
    if at + width > end:
        return 0
    for i in range(at + 1, at + width):
        if src[i] & 0xC0 != 0x80:
            return 0
    second = src[at + 1]
    if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
        return 0
    if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
        return 0
    return width


@kernel.inlined
def _special(word: Word) -> Word:
    """Return zero when all eight bytes are ASCII and none needs an escape."""
    high = word | (word - _ONES * np.uint64(32)) & ~word  # a high bit for 0x80 and more, and for less than 0x20
    quote, backslash = word ^ _ONES * np.uint64(34), word ^ _ONES * np.uint64(92)
    high |= (quote - _ONES) & ~quote | (backslash - _ONES) & ~backslash
    return high & _HIGHS


@kernel
def quoted_text(src: Bytes, start: Int, end: Int, dst: Bytes, at: Int) -> Int:
    """Write the UTF-8 text `src[start:end]` as a quoted JSON string.

    Returns the offset after it, `FULL` or `CORRUPT`.
    """
    room = dst.size - 9
    if at > room:
        return FULL
    dst[at] = np.uint8(34)
    at += 1
    i = start
    while i < end:
        if at > room:
            return FULL
        if i + 8 <= end:
            word = little(src, i, 8)
            if _special(word) == np.uint64(0):
                first = np.uint64(at)
                for j in range(8):
                    dst[first + np.uint64(j)] = np.uint8(word >> np.uint64(8 * j))
                at += 8
                i += 8
                continue
        byte = src[np.uint64(i)]
        if byte >= 0x80:
            width = utf8_width(src, i, end)
            if width == 0:
                return CORRUPT
            for j in range(width):
                dst[at + j] = src[i + j]
            at += width
            i += width
            continue
        if byte >= 0x20 and byte != 34 and byte != 92:
            dst[np.uint64(at)] = byte
            at += 1
        else:
            at = _escaped(byte, dst, at)
        i += 1
    if at > room + 8:
        return FULL
    dst[at] = np.uint8(34)
    return at + 1


@kernel
def _escaped(byte: Int, dst: Bytes, at: Int) -> Int:
    """Write the escape of a quote, a backslash or a control character: 2 or 6 bytes, room was checked."""
    dst[at] = np.uint8(92)
    letter = byte if byte >= 32 else _ESCAPES[byte]
    if letter != 0:
        dst[at + 1] = np.uint8(letter)
        return at + 2
    dst[at + 1] = np.uint8(117)
    dst[at + 2] = np.uint8(48)
    dst[at + 3] = np.uint8(48)
    dst[at + 4] = _HEX[byte >> 4]
    dst[at + 5] = _HEX[byte & 15]
    return at + 6


@kernel
def _literal_text(code: Int, dst: Bytes, at: Int) -> Int:
    if code > 2:
        return CORRUPT
    first = 4 * code
    last = 13 if code == 2 else first + 4
    if at + last - first > dst.size:
        return FULL
    for i in range(first, last):
        dst[at] = _LITERALS[i]
        at += 1
    return at


@kernel.inlined
def number_or_literal_text(kind: Int, src: Bytes, start: Int, end: Int, dst: Bytes, at: Int) -> Int:
    """Write the literal or number whose bytes start at `start`. Returns the offset after it, `FULL` or `CORRUPT`."""
    left = end - start
    if kind == LITERAL:
        return _literal_text(src[start], dst, at) if left >= 1 else CORRUPT
    if kind in (INT16, UINT16):
        if left < 2:
            return CORRUPT
        small = np.int64(little(src, start, 2))
        return int64_text(small - 0x10000 if kind == INT16 and small >= 0x8000 else small, dst, at)
    if kind in (INT32, UINT32):
        if left < 4:
            return CORRUPT
        wide = np.int64(little(src, start, 4))
        return int64_text(wide - 0x1_0000_0000 if kind == INT32 and wide >= 0x8000_0000 else wide, dst, at)
    if left < 8:
        return CORRUPT
    bits = little(src, start, 8)
    if kind == INT64:
        return int64_text(np.int64(bits), dst, at)
    if kind == UINT64:
        return uint64_text(bits, dst, at)
    return double_text(bits, dst, at) if kind == DOUBLE else CORRUPT
