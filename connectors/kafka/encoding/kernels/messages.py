"""The kernel that writes texts of messages: literals, rows as objects, and values, from buffers of Arrow columns."""

from __future__ import annotations

from connectors.kafka.encoding.kernels import kernel
from connectors.kafka.encoding.kernels.values import (
    BIT,
    OFFSETS,
    PREFIX,
    PREFIX_SIZE,
    VALUES,
    WIDTH,
    is_null,
    null_text,
    value_text,
)
from connectors.shared.kernels.kernel_types import Bool, Int, Ints
from connectors.shared.kernels.memory import move, peek8, poke8, poke32, signed32

LITERAL, ROW, VALUE, CHANGED, OLD, MEMBERS, WHOLE = range(7)
"""Parts of a text. ROW: an object of all columns. VALUE: of the message, not of a row. CHANGED: a list of one object,
of the before image's values that the after image has not; null unless there are both. OLD: the same object as the
member `old` behind a comma; nothing unless there are both. MEMBERS: the inside of a ROW, without braces.
WHOLE: a list of the before image as one object; null unless there are both."""

BEFORE, AFTER, KEY = range(3)
"""Which row of a message a part is about; -1 in `picks` is none, and its text is null."""

PART = ("kind", "first", "last", "which")
"""What the numbers of a part are; for a LITERAL, first and last are its address and size."""


@kernel
def write_texts(parts: Ints, columns: Ints, picks: Ints, skip: Int, to: Int, ends: Ints) -> Int:
    """Write one text per message, one behind the other; returns the address after the last.

    parts: int64[p, 4]; columns: int64[c, 11]; picks: int64[m, 3]; skip: address of a byte per message, 1 for no text;
    ends: int64[m] takes where each text ends, counted from `to`. The caller has made room.
    """
    start = to
    for message in range(picks.shape[0]):
        if peek8(skip + message) == 0:
            for index in range(parts.shape[0]):
                to = _part(parts[index], columns, picks[message], message, to)
        ends[message] = to - start
    return to


@kernel
def _part(part: Ints, columns: Ints, rows: Ints, message: Int, to: Int) -> Int:
    kind, first, last = part[0], part[1], part[2]
    if kind == LITERAL:
        move(to, first, last)
        return to + last
    if kind == VALUE:
        return _value(columns[first], message, to)
    row = rows[part[3]]
    if kind == CHANGED:
        if rows[BEFORE] < 0 or rows[AFTER] < 0:
            return null_text(to)
        poke8(to, 91)
        to = _changed(columns, first, last, rows[BEFORE], rows[AFTER], to + 1)
        poke8(to, 93)
        return to + 1
    if kind == OLD:
        if rows[BEFORE] < 0 or rows[AFTER] < 0:
            return to
        poke32(to, 0x6C6F222C)  # ,"ol
        poke8(to + 4, 100)
        poke8(to + 5, 34)
        poke8(to + 6, 58)
        return _changed(columns, first, last, rows[BEFORE], rows[AFTER], to + 7)
    if row < 0 or (kind == WHOLE and rows[AFTER] < 0):
        return null_text(to)
    if kind == WHOLE:
        poke8(to, 91)
        to += 1
    if kind == MEMBERS:
        return _members(columns, first, last, row, to)
    poke8(to, 123)
    to = _members(columns, first, last, row, to + 1)
    poke8(to, 125)
    if kind == WHOLE:
        poke8(to + 1, 93)
        return to + 2
    return to + 1


@kernel
def _members(columns: Ints, first: Int, last: Int, row: Int, to: Int) -> Int:
    for index in range(first, last):
        if index > first:
            poke8(to, 44)
            to += 1
        to = _named(columns[index], row, to)
    return to


@kernel
def _changed(columns: Ints, first: Int, last: Int, before: Int, after: Int, to: Int) -> Int:
    poke8(to, 123)
    to += 1
    some = False
    for index in range(first, last):
        if not same(columns[index], before, after):
            if some:
                poke8(to, 44)
                to += 1
            some = True
            to = _named(columns[index], before, to)
    poke8(to, 125)
    return to + 1


@kernel
def _named(column: Ints, row: Int, to: Int) -> Int:
    move(to, column[PREFIX], column[PREFIX_SIZE])
    return _value(column, row, to + column[PREFIX_SIZE])


@kernel
def _value(column: Ints, row: Int, to: Int) -> Int:
    if is_null(column, row):
        return null_text(to)
    return value_text(column, row, to)


@kernel
def same(column: Ints, one: Int, other: Int) -> Bool:
    """Whether a column's values in two rows are the same bytes, or both NULL."""
    if is_null(column, one) or is_null(column, other):
        return is_null(column, one) and is_null(column, other)
    width = column[WIDTH]
    if width == 0:
        first, second = column[BIT] + one, column[BIT] + other
        values = column[VALUES]
        return (peek8(values + (first >> 3)) >> (first & 7)) & 1 == (peek8(values + (second >> 3)) >> (second & 7)) & 1
    if width > 0:
        return _same_bytes(column[VALUES] + width * one, column[VALUES] + width * other, width)
    item = 1 if width == -1 else -width - 1
    start, end = signed32(column[OFFSETS] + 4 * one), signed32(column[OFFSETS] + 4 * one + 4)
    begin, stop = signed32(column[OFFSETS] + 4 * other), signed32(column[OFFSETS] + 4 * other + 4)
    if end - start != stop - begin:
        return False
    return _same_bytes(column[VALUES] + item * start, column[VALUES] + item * begin, item * (end - start))


@kernel
def _same_bytes(one: Int, other: Int, size: Int) -> Bool:
    for i in range(size):  # noqa: SIM110 - Numba compiles no generators
        if peek8(one + i) != peek8(other + i):
            return False
    return True


@kernel
def differing(columns: Ints, pairs: Ints, out: Ints) -> None:
    """For each pair of rows (int64[n, 2]) whether any of the columns differs, 1 or 0 in out uint8[n]."""
    for index in range(pairs.shape[0]):
        found = 0
        for number in range(columns.shape[0]):
            if not same(columns[number], pairs[index, 0], pairs[index, 1]):
                found = 1
        out[index] = found
