"""Kernels that convert text columns in a MySQL character set to UTF-8.

All work on the buffers of an Arrow binary array: `src` the value bytes, `offsets` int32[n + 1], `valid` uint8[n], empty
when there are no nulls. They return `DONE`, `TOO_LONG`, or the row whose bytes have no characters in the set. With
`replaced`, uint8[n], such bytes become U+FFFD, and the row's entry in it becomes 1; it is empty where such bytes are an
error.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.json_scalar import little
from connectors.shared.kernels.kernel_types import Bytes, Int, Ints, Word

DONE = -1
"""Every value was read."""

TOO_LONG = -2
"""The result is too long for 32-bit offsets."""

UNDEFINED, LEAD = 0xFFFF_FFFF, 0xFFFF_FFFE
"""Entries of `single` other than code points: no character; the first of several bytes."""

_HIGHS = np.uint64(0x8080_8080_8080_8080)
_UNDEFINED, _LEAD = np.uint32(UNDEFINED), np.uint32(LEAD)
_MOST_BYTES = 0x7FFF_FFFF
_REPLACEMENT = 0xFFFD
_GB_BMP, _GB_BEYOND, _GB_LAST = 39_420, 189_000, 189_000 + 0xFFFFF


@kernel
def put_utf8(code: Int, dst: Bytes, at: Int) -> Int:
    """Write a code point as UTF-8; room was checked.

    Returns the offset after it, or -1 for one that UTF-8 does not have.
    """
    if code < 0x80:
        dst[at] = np.uint8(code)
        return at + 1
    if code < 0x800:
        dst[at] = np.uint8(0xC0 | code >> 6)
        dst[at + 1] = np.uint8(0x80 | code & 63)
        return at + 2
    if code < 0x10000:
        if 0xD800 <= code < 0xE000:
            return np.int64(-1)
        dst[at] = np.uint8(0xE0 | code >> 12)
        dst[at + 1] = np.uint8(0x80 | code >> 6 & 63)
        dst[at + 2] = np.uint8(0x80 | code & 63)
        return at + 3
    if code > 0x10FFFF:
        return np.int64(-1)
    dst[at] = np.uint8(0xF0 | code >> 18)
    dst[at + 1] = np.uint8(0x80 | code >> 12 & 63)
    dst[at + 2] = np.uint8(0x80 | code >> 6 & 63)
    dst[at + 3] = np.uint8(0x80 | code & 63)
    return at + 4


@kernel.entry
def decode_table(
    src: Bytes, offsets: Ints, valid: Bytes, single: Ints, double: Ints, triple: Ints, quad: Ints, dst: Bytes,
    out: Ints, replaced: Bytes,
) -> Int:  # fmt: skip
    """Decode with tables.

    Args:
        single: uint32[256], the code point of each byte, `UNDEFINED` or `LEAD`.
        double: uint16[65536] or empty, the code point of first byte * 256 + second byte, 0 for none.
        triple: uint16[65536] or empty, the code points of the two bytes after 0x8F.
        quad: uint16[39420] or empty, GB 18030's four-byte characters of the basic plane; its others are computed.
        dst: room for three bytes per source byte.
        out: int32[n + 1], receives the offsets of the result.
    """
    ascii_alike = single[64] == 64
    at = np.int64(0)
    for row in range(offsets.size - 1):
        out[row] = at
        if valid.size > 0 and valid[row] == 0:
            continue
        i, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while i < end:
            if ascii_alike and i + 8 <= end:
                word = little(src, i, 8)
                if word & _HIGHS == np.uint64(0):
                    _put_eight(word, dst, at)
                    at += 8
                    i += 8
                    continue
            code = single[src[i]]
            width = np.int64(1)
            if code == _LEAD:
                code, width = _several(src, i, end, double, triple, quad)
            if code == _UNDEFINED:
                if replaced.size == 0:
                    return row
                replaced[row] = 1
                code = np.uint32(_REPLACEMENT)
                width = max(width, np.int64(2 if double.size > 0 else 1))  # the server stores well-formed text
            at = put_utf8(np.int64(code), dst, at)
            if at < 0:
                return row
            i += width
        if at > _MOST_BYTES:
            return TOO_LONG
    out[offsets.size - 1] = at
    return DONE


@kernel.inlined
def _put_eight(word: Word, dst: Bytes, at: Int) -> None:
    first = np.uint64(at)
    for j in range(8):
        dst[first + np.uint64(j)] = np.uint8(word >> np.uint64(8 * j))


@kernel
def _several(src: Bytes, i: Int, end: Int, double: Ints, triple: Ints, quad: Ints) -> tuple[Int, Int]:
    """Return (code point or `UNDEFINED`, bytes) of the multibyte character at `i`."""
    code = np.uint32(0)
    width = np.int64(2)
    if src[i] == 0x8F and triple.size > 0:
        width = np.int64(3)
        if i + 3 <= end:
            code = np.uint32(triple[np.int64(src[i + 1]) << 8 | src[i + 2]])
    elif i + 2 <= end:
        if quad.size > 0 and 0x30 <= src[i + 1] <= 0x39:
            return _four(src, i, end, quad), np.int64(4)
        code = np.uint32(double[np.int64(src[i]) << 8 | src[i + 1]])
    return (code if code != 0 else _UNDEFINED), width


@kernel
def _four(src: Bytes, i: Int, end: Int, quad: Ints) -> Int:
    if i + 4 > end or not (0x81 <= src[i + 2] <= 0xFE and 0x30 <= src[i + 3] <= 0x39):
        return _UNDEFINED
    rank = (np.int64(src[i]) - 0x81) * 10 + src[i + 1] - 0x30
    rank = (rank * 126 + src[i + 2] - 0x81) * 10 + src[i + 3] - 0x30
    if rank < _GB_BMP:
        code = np.uint32(quad[rank])
        return code if code != 0 else _UNDEFINED
    if _GB_BEYOND <= rank <= _GB_LAST:
        return np.uint32(0x10000 + rank - _GB_BEYOND)
    return _UNDEFINED


@kernel.entry
def decode_units(
    src: Bytes, offsets: Ints, valid: Bytes, width: Int, big_endian: Int, pairs: Int, dst: Bytes, out: Ints,
    replaced: Bytes,
) -> Int:  # fmt: skip
    """Decode text of 2- or 4-byte units (`width`); with `pairs`, two surrogates make a character. `dst` as above."""
    at = np.int64(0)
    for row in range(offsets.size - 1):
        out[row] = at
        if valid.size > 0 and valid[row] == 0:
            continue
        i, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        while i < end:
            code = _unit(src, i, width, big_endian) if i + width <= end else np.int64(-1)
            i += width
            if pairs and 0xD800 <= code < 0xDC00 and i + width <= end:
                low = _unit(src, i, width, big_endian)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
                    i += width
            if code < 0 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
                if replaced.size == 0:
                    return row
                replaced[row] = 1
                code = np.int64(_REPLACEMENT)
            at = put_utf8(code, dst, at)
        if at > _MOST_BYTES:
            return TOO_LONG
    out[offsets.size - 1] = at
    return DONE


@kernel
def _unit(src: Bytes, i: Int, width: Int, big_endian: Int) -> Int:
    code = np.int64(0)
    for j in range(width):
        code = code << 8 | src[i + (j if big_endian else width - 1 - j)]
    return code
