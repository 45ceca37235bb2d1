"""Write one value of a column as JSON to an address. A column is the address of eleven int64, `FIELDS` in order.

Values of fixed width start at `values`; strings and lists have int32 offsets at `offsets`. `quoted` puts numbers in
quotes. The caller writes NULL.
"""

from __future__ import annotations

import numpy as np

from connectors.kafka.encoding.kernels import kernel
from connectors.kafka.encoding.kernels.years import any_date_text, any_moment_text
from connectors.kafka.kernels.floats import double_json, float_json
from connectors.kafka.kernels.strings import base64_text, escaped
from connectors.shared.kernels.kernel_types import Bool, Int
from connectors.shared.kernels.memory import (
    move,
    peek8,
    peek16,
    peek32,
    peek64,
    poke8,
    poke32,
    signed8,
    signed16,
    signed32,
)
from connectors.shared.kernels.text.integers import (
    LOWER,
    decimal_text,
    digits_text,
    hex_text,
    signed_text,
    unsigned_text,
)
from connectors.shared.kernels.text.moments import span_text

FIELDS = (
    "op", "values", "validity", "validity_bit", "offsets", "detail", "bit", "quoted", "width", "prefix", "prefix_size",
)  # fmt: skip
"""The numbers of a column; an address is 0 for none. `detail` is a scale, the digits of the fraction, or a divisor."""

COLUMN_BYTES = 8 * len(FIELDS)
OP, VALUES, VALIDITY, VALIDITY_BIT, OFFSETS, DETAIL, BIT, QUOTED, WIDTH, PREFIX, PREFIX_SIZE = range(0, COLUMN_BYTES, 8)
"""The offset of each number. Kernels pass addresses, because an array costs reference counting and seven arguments."""

(
    BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64, DECIMAL, DECIMAL_BYTES, DATE,
    DIVIDED, MOMENT, INSTANT, SPAN, TEXT, RAW, BASE64, BACKWARDS, HEX, FLOATS, UINT64_BYTES, GEOMETRY, POINT, CHAR,
    PADDED, BIT_DIGIT, LATIN1, CSV, ZONED,
) = range(33)  # fmt: skip
"""The ways of writing a column's values.

DIVIDED: a 64-bit number divided by `detail`, rounded down. DECIMAL_BYTES, UINT64_BYTES: base64 of the shortest
big-endian two's complement. INSTANT: `2026-11-20T12:34:56Z`. RAW: text that is JSON already. BACKWARDS: base64 of the
bytes from the last to the first. GEOMETRY, POINT: MySQL's form, converted to Debezium's struct. CHAR: one ASCII byte.
PADDED: a number with at least `detail` digits. LATIN1: every byte is a character. CSV: text with its quotes doubled.
ZONED: `2026-11-20 12:34:56Z`.
"""

_TRUE, _FALS = 0x65757274, 0x736C6166  # "true" and "fals", little-endian
_NULL = 0x6C6C756E


@kernel
def is_null(column: Int, row: Int) -> Bool:
    """Whether the row's value is NULL."""
    if peek64(column + VALIDITY) == 0:
        return False
    bit = peek64(column + VALIDITY_BIT) + row
    return (peek8(peek64(column + VALIDITY) + (bit >> 3)) >> (bit & 7)) & 1 == 0


@kernel
def null_text(to: Int) -> Int:
    """`null`."""
    poke32(to, _NULL)
    return to + 4


@kernel
def value_text(column: Int, row: Int, to: Int) -> Int:
    """Write one value that is not NULL; return the address after it."""
    if peek64(column + QUOTED) == 0:
        return bare_text(column, row, to)
    poke8(to, 34)
    to = bare_text(column, row, to + 1)
    poke8(to, 34)
    return to + 1


@kernel
def bare_text(column: Int, row: Int, to: Int) -> Int:
    """Write one value that is not NULL, without quotes; return the address after it."""
    op, values = peek64(column + OP), peek64(column + VALUES)
    if op == TEXT:
        start, end = signed32(peek64(column + OFFSETS) + 4 * row), signed32(peek64(column + OFFSETS) + 4 * row + 4)
        return escaped(values + start, end - start, to)
    if op == INT32:
        return signed_text(signed32(values + 4 * row), to)
    if op == INT64:
        return signed_text(peek64(values + 8 * row), to)
    if op == DIVIDED:
        return signed_text(peek64(values + 8 * row) // peek64(column + DETAIL), to)
    if op == DECIMAL:
        return decimal_text(values + 16 * row, peek64(column + DETAIL), to)
    if op == DECIMAL_BYTES:
        size = shortest_size(values + 16 * row, 16)
        return base64_text(values + 16 * row + size - 1, size, -1, to)
    if op == CHAR:
        poke8(to, peek8(values + row))
        return to + 1
    if op == INSTANT:
        return _instant(peek64(values + 8 * row), peek64(column + DETAIL), to)
    if op == MOMENT:
        return any_moment_text(peek64(values + 8 * row), peek64(column + DETAIL), to)
    if op == INT8:
        return signed_text(signed8(values + row), to)
    if op == INT16:
        return signed_text(signed16(values + 2 * row), to)
    if op == DATE:
        return any_date_text(signed32(values + 4 * row), to)
    if op == FLOAT64:
        in_string = peek64(column + QUOTED) != 0
        return _with_point(to, double_json(np.uint64(peek64(values + 8 * row)), in_string, to))
    return _rare(column, row, to)


@kernel
def _with_point(begin: Int, end: Int) -> Int:
    """Write `7` as `7.0`, as Java does, for readers that tell types by values; return the address after it."""
    for at in range(begin, end):
        byte = peek8(at)
        if byte != 45 and (byte < 48 or byte > 57):
            return end
    poke8(end, 46)
    poke8(end + 1, 48)
    return end + 2


@kernel
def _rare(column: Int, row: Int, to: Int) -> Int:
    op, values = peek64(column + OP), peek64(column + VALUES)
    if op == FLOAT32:
        in_string = peek64(column + QUOTED) != 0
        return _with_point(to, float_json(np.uint64(peek32(values + 4 * row)), in_string, to))
    if op in (BOOL, BIT_DIGIT):
        bit = peek64(column + BIT) + row
        return _truth((peek8(values + (bit >> 3)) >> (bit & 7)) & 1, op, to)
    if op == UINT8:
        return unsigned_text(np.uint64(peek8(values + row)), to)
    if op == UINT16:
        return unsigned_text(np.uint64(peek16(values + 2 * row)), to)
    if op == UINT32:
        return unsigned_text(np.uint64(peek32(values + 4 * row)), to)
    if op == UINT64:
        return unsigned_text(np.uint64(peek64(values + 8 * row)), to)
    if op == UINT64_BYTES:
        return _unsigned_bytes(values + 8 * row, to)
    if op == ZONED:
        end = any_moment_text(peek64(values + 8 * row), peek64(column + DETAIL), to)
        poke8(end, 90)
        return end + 1
    if op == SPAN:
        return span_text(peek64(values + 8 * row), peek64(column + DETAIL), to)
    if op == PADDED:
        return digits_text(np.uint64(peek64(values + 8 * row)), peek64(column + DETAIL), to)
    start, end = signed32(peek64(column + OFFSETS) + 4 * row), signed32(peek64(column + OFFSETS) + 4 * row + 4)
    if op == FLOATS:
        return _floats(values, start, end, peek64(column + QUOTED) != 0, to)
    return _bytes(op, values + start, end - start, to)


@kernel
def _bytes(op: Int, at: Int, size: Int, to: Int) -> Int:
    """Write a value of variable length."""
    if op == RAW:
        move(to, at, size)
        return to + size
    if op == BASE64:
        return base64_text(at, size, 1, to)
    if op == BACKWARDS:
        return base64_text(at + size - 1, size, -1, to)
    if op == HEX:
        return hex_text(at, size, LOWER, to)
    if op == LATIN1:
        return _latin1(at, size, to)
    if op == CSV:
        return _doubled(at, size, to)
    return _geometry(op, at, size, to)


@kernel
def _floats(values: Int, start: Int, end: Int, in_string: Bool, to: Int) -> Int:
    """Write a list of 32-bit floats as a JSON array."""
    poke8(to, 91)
    to += 1
    for i in range(start, end):
        if i > start:
            poke8(to, 44)
            to += 1
        to = _with_point(to, float_json(np.uint64(peek32(values + 4 * i)), in_string, to))
    poke8(to, 93)
    return to + 1


@kernel
def _truth(bit: Int, op: Int, to: Int) -> Int:
    if op == BIT_DIGIT:
        poke8(to, 48 + bit)
        return to + 1
    if bit == 1:
        poke32(to, _TRUE)
        return to + 4
    poke32(to, _FALS)
    poke8(to + 4, 101)
    return to + 5


@kernel
def shortest_size(at: Int, width: Int) -> Int:
    """The least number of bytes that a little-endian two's complement number needs."""
    size = width
    while size > 1:
        top, below = peek8(at + size - 1), peek8(at + size - 2) >> 7
        if not ((top == 0 and below == 0) or (top == 255 and below == 1)):
            break
        size -= 1
    return size


@kernel
def _unsigned_bytes(at: Int, to: Int) -> Int:
    """Write the shortest bytes of an unsigned 64-bit number, with a leading zero byte if needed to be positive."""
    size = 8
    while size > 1 and peek8(at + size - 1) == 0:
        size -= 1
    if peek8(at + size - 1) < 128:
        return base64_text(at + size - 1, size, -1, to)
    # Copy the number, with the zero byte that it may need, to the memory after the text.
    scratch = to + 32
    move(scratch, at, size)
    poke8(scratch + size, 0)
    return base64_text(scratch + size, size + 1, -1, to)


@kernel
def _instant(micros: Int, digits: Int, to: Int) -> Int:
    """Write an instant as `2026-11-20T12:34:56.789Z`."""
    end = any_moment_text(micros, digits, to)
    poke8(end - 9 - (digits + 1 if digits > 0 else 0), 84)
    poke8(end, 90)
    return end + 1


@kernel
def _latin1(at: Int, size: Int, to: Int) -> Int:
    """Write every byte as the character of that number, in UTF-8 with JSON's escapes."""
    for i in range(size):
        byte = peek8(at + i)
        if byte < 128:
            to = escaped(at + i, 1, to)
        else:
            poke8(to, 0xC0 | byte >> 6)
            poke8(to + 1, 0x80 | byte & 63)
            to += 2
    return to


@kernel
def _doubled(at: Int, size: Int, to: Int) -> Int:
    """Write UTF-8 text with every quote doubled."""
    for i in range(size):
        byte = peek8(at + i)
        poke8(to, byte)
        to += 1
        if byte == 34:
            poke8(to, byte)
            to += 1
    return to


@kernel
def _geometry(op: Int, at: Int, size: Int, to: Int) -> Int:
    """Write `{"x":1,"y":2,"wkb":"...","srid":null}` from four bytes of SRID and the shape; x and y only for points."""
    poke8(to, 123)
    to += 1
    if op == POINT and size >= 25:
        poke32(to, 0x3A227822)  # "x":
        to = _with_point(to + 4, double_json(np.uint64(peek64(at + 9)), False, to + 4))
        poke8(to, 44)
        poke32(to + 1, 0x3A227922)  # "y":
        to = _with_point(to + 5, double_json(np.uint64(peek64(at + 17)), False, to + 5))
        poke8(to, 44)
        to += 1
    poke32(to, 0x626B7722)  # "wkb
    poke8(to + 4, 34)
    poke8(to + 5, 58)
    poke8(to + 6, 34)
    to = base64_text(at + 4, size - 4, 1, to + 7)
    poke32(to, 0x73222C22)  # ","s
    poke32(to + 4, 0x22646972)  # rid"
    poke8(to + 8, 58)
    srid = peek32(at)
    to = null_text(to + 9) if srid == 0 else unsigned_text(np.uint64(srid), to + 9)
    poke8(to, 125)
    return to + 1
