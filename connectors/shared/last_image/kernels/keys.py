"""The kernel that numbers rows by their key: equal keys get equal numbers, in order of first occurrence.

A key column is a row of six numbers, `FIELDS` in order; values are compared byte by byte, and NULL equals NULL.
"""

from __future__ import annotations

import numpy as np

from connectors.shared.kernels.kernel_types import Bool, Int, Ints, Word
from connectors.shared.kernels.memory import peek8, peek16, peek32, peek64, signed32
from connectors.shared.last_image.kernels import kernel

FIELDS = ("width", "values", "validity", "validity_bit", "offsets", "bit")
"""width: bytes of a value; 0 for single bits starting at `bit`, -1 for strings, -n for lists of n-1 byte items."""

_WIDTH, _VALUES, _VALIDITY, _VALIDITY_BIT, _OFFSETS, _BIT = range(6)
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
_FOLD = np.uint64(0xD6E8_FEB8_6659_FD93)
_U32 = np.uint64(32)


@kernel.entry
def number_keys(columns: Ints, rows: Int, table: Ints, numbers: Ints, first: Ints) -> Int:
    """Fill `numbers` int32[rows] with the group of each row and `first` int32[rows] with the first row of each group.

    table: int32[power of two, at least 2 * rows], all -1; left filled. Returns the number of groups.
    """
    mask = np.uint64(table.size - 1)
    groups = 0
    for row in range(rows):
        slot = _hash(columns, row) & mask
        while True:
            group = table[slot]
            if group < 0:
                table[slot] = groups
                first[groups] = row
                numbers[row] = groups
                groups += 1
                break
            if _same(columns, first[group], row):
                numbers[row] = group
                break
            slot = (slot + np.uint64(1)) & mask
    return groups


@kernel
def _mix(state: Word, word: Int) -> Word:
    state = (state ^ np.uint64(word)) * _MIX
    return (state ^ (state >> _U32)) * _FOLD


@kernel
def _present(column: Ints, row: Int) -> Bool:
    if column[_VALIDITY] == 0:
        return True
    bit = column[_VALIDITY_BIT] + row
    return (peek8(column[_VALIDITY] + (bit >> 3)) >> (bit & 7)) & 1 == 1


@kernel
def _extent(column: Ints, row: Int) -> tuple[Int, Int]:
    """Return address and size of a value that is not a single bit."""
    width = column[_WIDTH]
    if width > 0:
        return column[_VALUES] + width * row, width
    item = max(np.int64(1), -width - 1)
    start, end = signed32(column[_OFFSETS] + 4 * row), signed32(column[_OFFSETS] + 4 * row + 4)
    return column[_VALUES] + item * start, item * (end - start)


@kernel
def _truth(column: Ints, row: Int) -> Int:
    bit = column[_BIT] + row
    return (peek8(column[_VALUES] + (bit >> 3)) >> (bit & 7)) & 1


@kernel
def _hash(columns: Ints, row: Int) -> Word:
    state = _FOLD
    for i in range(columns.shape[0]):
        column = columns[i]
        if not _present(column, row):
            state = _mix(state, np.int64(-1))
        elif column[_WIDTH] == 0:
            state = _mix(state, _truth(column, row))
        else:
            at, size = _extent(column, row)
            state = _mix(state, size)
            while size >= 8:
                state = _mix(state, peek64(at))
                at += 8
                size -= 8
            state = _mix(state, _tail(at, size))
    return state ^ (state >> _U32)


@kernel
def _tail(at: Int, size: Int) -> Int:
    """Return the last 0..7 bytes as a number."""
    if size == 4:
        return peek32(at)
    word = np.int64(0)
    if size >= 4:
        word = peek32(at)
        at += 4
        size -= 4
    if size >= 2:
        word = word << 16 | peek16(at)
        at += 2
        size -= 2
    return word << 8 | peek8(at) if size == 1 else word


@kernel
def _same(columns: Ints, one: Int, other: Int) -> bool:
    for i in range(columns.shape[0]):
        column = columns[i]
        present = _present(column, one)
        if present != _present(column, other):
            return False
        if not present:
            continue
        if column[_WIDTH] == 0:
            if _truth(column, one) != _truth(column, other):
                return False
            continue
        at, size = _extent(column, one)
        to, size2 = _extent(column, other)
        if size != size2:
            return False
        while size >= 8:
            if peek64(at) != peek64(to):
                return False
            at += 8
            to += 8
            size -= 8
        if _tail(at, size) != _tail(to, size):
            return False
    return True
