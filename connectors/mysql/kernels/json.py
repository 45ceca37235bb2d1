"""Converts MySQL's binary JSON to the text that `SELECT` shows for the column.

Format: MySQL's sql-common/json_binary.h. A value is a type byte and its bytes. An object or array holds its element
count and size, then key entries (offset, length), value entries (type, inlined value or offset), keys and values. All
offsets count from the first byte of the object or array. "Small" ones have 2-byte offsets, "large" ones 4-byte.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.json_opaque import opaque_text
from connectors.mysql.kernels.json_scalar import (
    CORRUPT,
    INT32,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    OPAQUE,
    SMALL_OBJECT,
    STRING,
    UINT16,
    UINT32,
    little,
    number_or_literal_text,
    quoted_text,
    variable_length,
)
from connectors.mysql.kernels.number_text import FULL
from connectors.shared.kernels.kernel_types import Bytes, Int
from connectors.shared.kernels.memory import peek32, poke32

MAX_DEPTH = 100
"""How deep MySQL allows objects and arrays to be nested."""
STACK_BYTES = 8 * MAX_DEPTH

_OBJECT, _LARGE = 1, 2
_NULL = np.frombuffer(b"null", np.uint8)


@kernel.entry
def json_text_bound(size: Int) -> Int:
    """Return the number of destination bytes that is enough for any valid document of `size` bytes."""
    return 6 * size + 128


@kernel.entry
def json_text(src: Bytes, start: Int, end: Int, dst: Bytes, at: Int, stack: Int) -> Int:
    """Write the text of the binary JSON document `src[start:end]` (uint8) at `dst[at:]` (uint8).

    stack: address of STACK_BYTES of working space, so that no document allocates memory.

    Returns the offset after the text; -1 when `dst` may be too small (`json_text_bound` bytes in `dst[at:]` are always
    enough); -2 when the bytes cannot be a JSON document. Never reads outside `src[start:end]` and never writes before
    `at`; the bytes from `at` on are undefined after a negative answer. Zero bytes are the document `null`.
    """
    if start < 0 or end > src.size or start > end or at < 0:
        return CORRUPT
    if start == end:
        return _null_text(dst, at)
    # A valid document cannot become longer than this; one whose offsets repeat the same bytes can.
    ceiling = at + json_text_bound(end - start)
    # The stack has, for each enclosing container, its offset from `start`, and its next element * 4 + its kind.
    depth, index, holder, flags, count = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    base, limit = start, end
    kind, value = np.int64(src[np.uint64(start)]), start + 1
    while True:
        if at > ceiling:
            return CORRUPT
        if kind == STRING:
            length, first = variable_length(src, value, limit)
            if length < 0 or first + length > limit:
                return CORRUPT
            at = quoted_text(src, first, first + length, dst, at)
        elif kind == OPAQUE:
            at = opaque_text(src, value, limit, dst, at)
        elif kind > LARGE_ARRAY:
            at = number_or_literal_text(kind, src, value, limit, dst, at)
        else:
            if depth >= MAX_DEPTH:
                return CORRUPT
            if depth > 0:
                poke32(stack + 8 * depth - 8, base - start)
                poke32(stack + 8 * depth - 4, index << 2 | holder)
            depth += 1
            base, index, holder = value, np.int64(0), kind
            flags, count, limit = _open(kind, src, base, limit)
            if count < 0:
                return CORRUPT
            if at >= dst.size:
                return FULL
            dst[at] = np.uint8(123 if flags & _OBJECT else 91)
            at += 1
        if at < 0:
            return at
        while depth > 0 and index == count:
            if at >= dst.size:
                return FULL
            dst[at] = np.uint8(125 if flags & _OBJECT else 93)
            at += 1
            depth -= 1
            if depth > 0:
                base = start + peek32(stack + 8 * depth - 8)
                index, holder = peek32(stack + 8 * depth - 4) >> 2, peek32(stack + 8 * depth - 4) & 3
                flags, count, limit = _open(holder, src, base, end)
        if depth == 0:
            return at
        if index > 0:
            if at + 2 > dst.size:
                return FULL
            dst[at] = np.uint8(44)
            dst[at + 1] = np.uint8(32)
            at += 2
        width = np.int64(4 if flags & _LARGE else 2)
        entry = base + 2 * width + index * (1 + width)
        if flags & _OBJECT:
            entry += count * (width + 2)
            at = _key_text(src, base, limit, width, index, dst, at)
            if at < 0:
                return at
        index += 1
        kind, value = np.int64(src[np.uint64(entry)]), entry + 1
        if not (LITERAL <= kind <= UINT16 or (width == 4 and INT32 <= kind <= UINT32)):
            value = base + np.int64(little(src, entry + 1, width))
            if value >= limit:
                return CORRUPT


@kernel
def _null_text(dst: Bytes, at: Int) -> Int:
    if at + 4 > dst.size:
        return FULL
    for i in range(4):
        dst[at + i] = _NULL[i]
    return at + 4


@kernel
def _open(kind: Int, src: Bytes, base: Int, end: Int) -> tuple[Int, Int, Int]:
    """Return (flags, element count, end offset) of the object or array at `base`; count is -1 when it does not fit."""
    large = kind in (LARGE_OBJECT, LARGE_ARRAY)
    is_object = kind in (SMALL_OBJECT, LARGE_OBJECT)
    flags = (_LARGE if large else 0) | (_OBJECT if is_object else 0)
    width = 4 if large else 2
    if base + 2 * width > end:
        return flags, -1, end
    count = np.int64(little(src, base, width))
    size = np.int64(little(src, base + width, width))
    header = 2 * width + count * ((width + 2 if is_object else 0) + 1 + width)
    if base + size > end or header > size:
        return flags, -1, end
    return flags, count, base + size


@kernel
def _key_text(src: Bytes, base: Int, limit: Int, width: Int, index: Int, dst: Bytes, at: Int) -> Int:
    """Write `"key": ` of the member number `index`."""
    entry = base + 2 * width + index * (width + 2)
    first = base + np.int64(little(src, entry, width))
    last = first + np.int64(little(src, entry + width, 2))
    if last > limit:
        return CORRUPT
    at = quoted_text(src, first, last, dst, at)
    if at < 0:
        return at
    if at + 2 > dst.size:
        return FULL
    dst[at] = np.uint8(58)
    dst[at + 1] = np.uint8(32)
    return at + 2
