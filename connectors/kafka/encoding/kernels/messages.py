"""The kernel that writes the texts of messages (literals, rows as objects, values) from buffers of Arrow columns."""

from __future__ import annotations

from connectors.kafka.encoding.kernels import avro, kernel
from connectors.kafka.encoding.kernels.values import (
    BIT,
    COLUMN_BYTES,
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
from connectors.shared.kernels.memory import move, peek8, peek64, poke8, poke32, poke64, signed32

LITERAL, ROW, VALUE, CHANGED, OLD, MEMBERS, WHOLE, SHARED, AVRO_IMAGE, AVRO_RECORD, AVRO_VALUE = range(11)
"""The kinds of parts of a text.

ROW: an object with all columns. VALUE: a value of the message, not of a row. CHANGED: a list with one object, which has
the before image's values that differ from the after image; null unless there are both images. OLD: a comma and the same
object as the member `old`; nothing unless there are both. MEMBERS: a ROW without its braces. WHOLE: a list with the
before image as one object; null unless there are both. SHARED: the next `first` parts are the same for all messages of
one event, and are only written once for neighbouring messages. AVRO_IMAGE, AVRO_RECORD, AVRO_VALUE: in Avro's binary
encoding, a row that may be absent, a row that may not, and a value of the message.
"""

BEFORE, AFTER, KEY = range(3)
"""The row of a message that a part writes; -1 in `picks` means that there is none, and is written as null."""

PART = ("kind", "first", "last", "which")
"""The numbers of a part; for a LITERAL, first and last are its address and size."""

SHORT_PREFIX = 16
"""Prefixes of columns up to this size are copied as two numbers, so every prefix has at least that much memory."""

MEMO = ("event", "at", "size")
"""The memory of a SHARED part: the event for which it was written last, and where that text is; size 0 for none."""

PART_BYTES, MEMO_BYTES, PICKS_BYTES = 8 * len(PART), 8 * len(MEMO), 24
_FIRST, _LAST, _WHICH = 8, 16, 24
_AT, _SIZE = 8, 16


@kernel
def parts_text(parts: Int, number: Int, columns: Int, memo: Int, rows: Int, message: Int, event: Int, to: Int) -> Int:
    """Write parts of a message, whose rows are at an address (int64[3]). Messages of one event share parts."""
    end = parts + PART_BYTES * number
    while parts < end:
        if peek64(parts) == SHARED:
            shared = PART_BYTES * peek64(parts + _FIRST)
            size = peek64(memo + _SIZE)
            if size > 0 and peek64(memo) == event:
                move(to, peek64(memo + _AT), size)
                to += size
            else:
                begin = to
                for inner in range(PART_BYTES, PART_BYTES + shared, PART_BYTES):
                    to = _part(parts + inner, columns, rows, message, to)
                poke64(memo, event)
                poke64(memo + _AT, begin)
                poke64(memo + _SIZE, to - begin)
            parts += PART_BYTES + shared
            memo += MEMO_BYTES * (1 + shared // PART_BYTES)
        else:
            to = _part(parts, columns, rows, message, to)
            parts += PART_BYTES
            memo += MEMO_BYTES
    return to


@kernel
def _part(part: Int, columns: Int, rows: Int, message: Int, to: Int) -> Int:
    kind, first, last = peek64(part), peek64(part + _FIRST), peek64(part + _LAST)
    if kind == LITERAL:
        move(to, first, last)
        return to + last
    first = columns + COLUMN_BYTES * first
    if kind == VALUE:
        return _value(first, message, to)
    if kind == AVRO_VALUE:
        return avro.column_value(first, message, to)
    last = columns + COLUMN_BYTES * last
    row, before, after = peek64(rows + 8 * peek64(part + _WHICH)), peek64(rows), peek64(rows + 8)
    if kind == AVRO_IMAGE:
        return avro.image(first, last, row, to)
    if kind == AVRO_RECORD:
        return avro.record(first, last, row, to)
    if kind == CHANGED:
        if before < 0 or after < 0:
            return null_text(to)
        poke8(to, 91)
        to = _changed(first, last, before, after, to + 1)
        poke8(to, 93)
        return to + 1
    if kind == OLD:
        if before < 0 or after < 0:
            return to
        poke32(to, 0x6C6F222C)  # ,"ol
        poke8(to + 4, 100)
        poke8(to + 5, 34)
        poke8(to + 6, 58)
        return _changed(first, last, before, after, to + 7)
    if row < 0 or (kind == WHOLE and after < 0):
        return null_text(to)
    if kind == WHOLE:
        poke8(to, 91)
        to += 1
    if kind == MEMBERS:
        return _members(first, last, row, to)
    poke8(to, 123)
    to = _members(first, last, row, to + 1)
    poke8(to, 125)
    if kind == WHOLE:
        poke8(to + 1, 93)
        return to + 2
    return to + 1


@kernel
def _members(first: Int, last: Int, row: Int, to: Int) -> Int:
    for column in range(first, last, COLUMN_BYTES):
        if column > first:
            poke8(to, 44)
            to += 1
        to = _named(column, row, to)
    return to


@kernel
def _changed(first: Int, last: Int, before: Int, after: Int, to: Int) -> Int:
    poke8(to, 123)
    to += 1
    some = False
    for column in range(first, last, COLUMN_BYTES):
        if not same(column, before, after):
            if some:
                poke8(to, 44)
                to += 1
            some = True
            to = _named(column, before, to)
    poke8(to, 125)
    return to + 1


@kernel
def _named(column: Int, row: Int, to: Int) -> Int:
    prefix, size = peek64(column + PREFIX), peek64(column + PREFIX_SIZE)
    if size <= SHORT_PREFIX:
        poke64(to, peek64(prefix))
        poke64(to + 8, peek64(prefix + 8))
    else:
        move(to, prefix, size)
    return _value(column, row, to + size)


@kernel
def _value(column: Int, row: Int, to: Int) -> Int:
    if is_null(column, row):
        return null_text(to)
    return value_text(column, row, to)


@kernel
def same(column: Int, one: Int, other: Int) -> Bool:
    """Whether a column has the same bytes in two rows, or NULL in both."""
    if is_null(column, one) or is_null(column, other):
        return is_null(column, one) and is_null(column, other)
    width = peek64(column + WIDTH)
    if width == 0:
        first, second = peek64(column + BIT) + one, peek64(column + BIT) + other
        values = peek64(column + VALUES)
        return (peek8(values + (first >> 3)) >> (first & 7)) & 1 == (peek8(values + (second >> 3)) >> (second & 7)) & 1
    if width > 0:
        return _same_bytes(peek64(column + VALUES) + width * one, peek64(column + VALUES) + width * other, width)
    item = 1 if width == -1 else -width - 1
    start, end = signed32(peek64(column + OFFSETS) + 4 * one), signed32(peek64(column + OFFSETS) + 4 * one + 4)
    begin, stop = signed32(peek64(column + OFFSETS) + 4 * other), signed32(peek64(column + OFFSETS) + 4 * other + 4)
    if end - start != stop - begin:
        return False
    return _same_bytes(
        peek64(column + VALUES) + item * start, peek64(column + VALUES) + item * begin, item * (end - start)
    )


@kernel
def _same_bytes(one: Int, other: Int, size: Int) -> Bool:
    for i in range(size):  # noqa: SIM110 - Numba compiles no generators
        if peek8(one + i) != peek8(other + i):
            return False
    return True


@kernel.entry
def differing(columns: Int, number: Int, pairs: Ints, out: Ints) -> None:
    """Fill out (uint8[n]) with 1 for each pair of rows (int64[n, 2]) that differ in any of `number` columns, else 0."""
    for index in range(pairs.shape[0]):
        found = 0
        for column in range(columns, columns + COLUMN_BYTES * number, COLUMN_BYTES):
            if not same(column, pairs[index, 0], pairs[index, 1]):
                found = 1
        out[index] = found
