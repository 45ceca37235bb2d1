"""The kernel that hashes bucket columns as Paimon's Java code does: MurmurHash3 over the words of a BinaryRow.

A BinaryRow (`org.apache.paimon.data.BinaryRow`) has a header of null bits, then 8 bytes for each field, then the values
that do not fit into those. A column is described by five numbers, `FIELDS` in order; there are no NULLs.

| form | in the field's 8 bytes | after them |
|---|---|---|
| PLAIN | the value, little-endian, padded with zeros | |
| TRUTH | 0 or 1 | |
| TEXT up to 7 bytes | the bytes; the last byte is 0x80 + their number | |
| TEXT | offset << 32 + length | the bytes, padded to whole words of 8 bytes |
| SHORT_DECIMAL (up to 18 digits) | the unscaled number | |
| LONG_DECIMAL | offset << 32 + length | shortest big-endian two's complement, in 16 bytes |
| MOMENT (microseconds) | offset << 32 + nanoseconds of the millisecond | milliseconds |
"""

from __future__ import annotations

import numpy as np

from connectors.paimon.kernels import kernel
from connectors.shared.kernels.kernel_types import Int, Ints
from connectors.shared.kernels.memory import fill, move, peek8, peek32, peek64, poke8, poke64, signed32

FIELDS = ("form", "width", "values", "offsets", "bit")
PLAIN, TRUTH, TEXT, SHORT_DECIMAL, LONG_DECIMAL, MOMENT = range(6)
_FORM, _WIDTH, _VALUES, _OFFSETS, _BIT = range(5)
_MASK = 0xFFFF_FFFF
_INLINE = 7


@kernel.entry
def hash_buckets(columns: Ints, rows: Int, buckets: Int, work: Int, found: Ints) -> Int:
    """Fill `found` (int32[rows]) with the bucket of each row; return the number of rows.

    `work` is the address of a buffer with room for one BinaryRow.
    """
    fields = columns.shape[0]
    fixed = ((fields + 71) >> 6) * 8 + 8 * fields
    for row in range(rows):
        fill(work, fixed, 0)
        size = fixed
        for i in range(fields):
            size = _write(columns[i], row, work, fixed - 8 * (fields - i), size)
        found[row] = _bucket(_murmur(work, size), buckets)
    return rows


@kernel
def _write(column: Ints, row: Int, work: Int, at: Int, size: Int) -> Int:
    """Write a field at `at`; return the row's size after that."""
    form = column[_FORM]
    if form == TEXT:
        return _write_text(column, row, work, at, size)
    if form == TRUTH:
        bit = column[_BIT] + row
        poke8(work + at, (peek8(column[_VALUES] + (bit >> 3)) >> (bit & 7)) & 1)
        return size
    place = column[_VALUES] + column[_WIDTH] * row
    if form == PLAIN:
        move(work + at, place, column[_WIDTH])
        return size
    if form == SHORT_DECIMAL:
        poke64(work + at, peek64(place))
        return size
    if form == MOMENT:
        micros = peek64(place)
        millis = micros // 1000
        poke64(work + at, size << 32 | (micros - millis * 1000) * 1000)
        poke64(work + size, millis)
        return size + 8
    return _write_decimal(place, work, at, size)


@kernel
def _write_text(column: Ints, row: Int, work: Int, at: Int, size: Int) -> Int:
    start = signed32(column[_OFFSETS] + 4 * row)
    length = signed32(column[_OFFSETS] + 4 * row + 4) - start
    if length <= _INLINE:
        move(work + at, column[_VALUES] + start, length)
        poke8(work + at + 7, 0x80 | length)
        return size
    words = (length + 7) >> 3 << 3
    poke64(work + size + words - 8, 0)
    move(work + size, column[_VALUES] + start, length)
    poke64(work + at, size << 32 | length)
    return size + words


@kernel
def _write_decimal(place: Int, work: Int, at: Int, size: Int) -> Int:
    """Write a little-endian number of 16 bytes in the form of Java's BigInteger."""
    fill(work + size, 16, 0)
    sign = 0xFF if peek64(place + 8) < 0 else 0
    length = 16
    while length > 1 and peek8(place + length - 1) == sign and peek8(place + length - 2) >> 7 == sign & 1:
        length -= 1
    for i in range(length):
        poke8(work + size + i, peek8(place + length - 1 - i))
    poke64(work + at, size << 32 | length)
    return size + 16


@kernel
def _murmur(at: Int, size: Int) -> Int:
    state = np.int64(42)
    for word in range(size >> 2):
        k = (peek32(at + 4 * word) * 0xCC9E2D51) & _MASK
        k = ((k << 15 | k >> 17) & _MASK) * 0x1B873593 & _MASK
        state ^= k
        state = ((state << 13 | state >> 19) & _MASK) * 5 + 0xE6546B64 & _MASK
    state ^= size
    state ^= state >> 16
    state = state * 0x85EBCA6B & _MASK
    state ^= state >> 13
    state = state * 0xC2B2AE35 & _MASK
    return state ^ state >> 16


@kernel
def _bucket(unsigned: Int, buckets: Int) -> Int:
    """The absolute value of the signed hash's remainder, as Java computes it."""
    return (np.int64(0x1_0000_0000) - unsigned) % buckets if unsigned >= 0x8000_0000 else unsigned % buckets
