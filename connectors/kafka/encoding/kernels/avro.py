"""Write values in Avro's binary encoding to an address, from the same columns as the JSON values.

A nullable column is a union of null and its type. That is marked by `quoted`, since Avro has no quotes.
"""

from __future__ import annotations

import numpy as np

from connectors.kafka.encoding.kernels import kernel, values
from connectors.kafka.encoding.kernels.values import (
    BIT,
    COLUMN_BYTES,
    DETAIL,
    OFFSETS,
    OP,
    QUOTED,
    VALUES,
    bare_text,
    is_null,
)
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import (
    move,
    peek8,
    peek16,
    peek32,
    peek64,
    poke8,
    poke32,
    poke64,
    signed8,
    signed16,
    signed32,
)
from connectors.shared.kernels.text.integers import LOWER, hex_text

_U0, _U1, _U7, _U63, _MORE = np.uint64(0), np.uint64(1), np.uint64(7), np.uint64(63), np.uint64(128)


@kernel
def number(value: Int, to: Int) -> Int:
    """Write a number of variable length; return the address after it."""
    rest = (np.uint64(value) << _U1) ^ (_U0 - (np.uint64(value) >> _U63))
    while rest >= _MORE:
        poke8(to, np.int64(rest & (_MORE - _U1) | _MORE))
        rest >>= _U7
        to += 1
    poke8(to, np.int64(rest))
    return to + 1


@kernel
def _backwards(at: Int, size: Int, to: Int) -> Int:
    """Write the size, then the bytes from the last to the first."""
    to = number(size, to)
    for i in range(size):
        poke8(to + i, peek8(at + size - 1 - i))
    return to + size


@kernel
def _shortest(at: Int, width: Int, to: Int) -> Int:
    """Write a little-endian two's complement number as its shortest big-endian bytes."""
    return _backwards(at, values.shortest_size(at, width), to)


@kernel
def _unsigned(at: Int, to: Int) -> Int:
    """Write an unsigned number of eight bytes, with a leading zero byte if it would be negative otherwise."""
    poke64(to + 16, peek64(at))
    poke8(to + 24, 0)
    return _shortest(to + 16, 9, to)


@kernel
def _integer(op: Int, column: Int, row: Int) -> Int:
    places = peek64(column + VALUES)
    if op == values.INT64:
        return peek64(places + 8 * row)
    if op == values.INT32:
        return signed32(places + 4 * row)
    if op == values.DIVIDED:
        return peek64(places + 8 * row) // peek64(column + DETAIL)
    if op == values.INT16:
        return signed16(places + 2 * row)
    if op == values.INT8:
        return signed8(places + row)
    if op == values.UINT8:
        return peek8(places + row)
    return peek16(places + 2 * row) if op == values.UINT16 else peek32(places + 4 * row)


@kernel
def _sized(op: Int, at: Int, size: Int, to: Int) -> Int:
    """Write a value of variable length."""
    if op == values.BACKWARDS:
        return _backwards(at, size, to)
    if op == values.HEX:
        return hex_text(at, size, LOWER, number(2 * size, to))
    if op in (values.GEOMETRY, values.POINT):
        if op == values.POINT:
            poke64(to, peek64(at + 9))
            poke64(to + 8, peek64(at + 17))
            poke8(to + 16, 2)
            to += 17
        to = number(size - 4, to)
        move(to, at + 4, size - 4)
        to += size - 4
        poke8(to, 0 if peek32(at) == 0 else 2)
        return to + 1 if peek32(at) == 0 else number(peek32(at), to + 1)
    to = number(size, to)
    move(to, at, size)
    return to + size


@kernel
def _value(column: Int, row: Int, to: Int) -> Int:
    op, places = peek64(column + OP), peek64(column + VALUES)
    if op in (
        values.INT64, values.INT32, values.DIVIDED, values.INT16, values.INT8, values.UINT8, values.UINT16,
        values.UINT32,
    ):  # fmt: skip
        return number(_integer(op, column, row), to)
    if op == values.FLOAT64:
        poke64(to, peek64(places + 8 * row))
        return to + 8
    if op == values.FLOAT32:
        poke32(to, peek32(places + 4 * row))
        return to + 4
    if op == values.BOOL:
        bit = peek64(column + BIT) + row
        poke8(to, (peek8(places + (bit >> 3)) >> (bit & 7)) & 1)
        return to + 1
    if op == values.DECIMAL_BYTES:
        return _shortest(places + 16 * row, 16, to)
    if op == values.UINT64_BYTES:
        return _unsigned(places + 8 * row, to)
    if op in (values.INSTANT, values.DECIMAL, values.CHAR):
        end = bare_text(column, row, to + 1)
        poke8(to, 2 * (end - to - 1))  # one byte is enough, since these texts have less than 64 bytes
        return end
    start, end = signed32(peek64(column + OFFSETS) + 4 * row), signed32(peek64(column + OFFSETS) + 4 * row + 4)
    if op == values.FLOATS:
        to = number(end - start, to)
        move(to, places + 4 * start, 4 * (end - start))
        to += 4 * (end - start)
        if end > start:
            poke8(to, 0)
            to += 1
        return to
    return _sized(op, places + start, end - start, to)


@kernel
def column_value(column: Int, row: Int, to: Int) -> Int:
    """Write a column's value. NULL in a column that is no union, which only occurs in `source`, becomes 0 or ''."""
    if is_null(column, row):
        poke8(to, 0)
        return to + 1
    if peek64(column + QUOTED) == 0:
        return _value(column, row, to)
    poke8(to, 2)
    return _value(column, row, to + 1)


@kernel
def record(first: Int, last: Int, row: Int, to: Int) -> Int:
    """Write the columns of a row, one after the other."""
    for column in range(first, last, COLUMN_BYTES):
        to = column_value(column, row, to)
    return to


@kernel
def image(first: Int, last: Int, row: Int, to: Int) -> Int:
    """Write a union of null and a row's record; row -1 is null."""
    if row < 0:
        poke8(to, 0)
        return to + 1
    poke8(to, 2)
    return record(first, last, row, to + 1)
