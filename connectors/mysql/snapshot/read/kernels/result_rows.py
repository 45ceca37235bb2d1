"""The row reader: converts rows of a binary protocol result set to column buffers, with no Python per row or value.

A row is a zero byte, a bitmap of its NULLs that begins with two unused bits, then the values without gaps: numbers in
their own size, everything else after its length (MySQL "Binary Protocol Resultset Row"). Every read is checked against
the row's end, every write against its buffer's. All arguments are addresses and numbers; records: see `ops` and
`protocol`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import ops
from connectors.mysql.kernels.nulls import set_null
from connectors.mysql.kernels.ops import COLUMN, HEAD, offset
from connectors.mysql.kernels.temporal import INVALID
from connectors.mysql.snapshot.read.kernels import kernel, protocol
from connectors.mysql.snapshot.read.kernels.values import (
    BROKEN,
    DECIMAL_ROOM,
    date_of,
    decimal64_of,
    decimal128_of,
    decimal_text,
    moment_of,
    span_of,
)
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import (
    fill,
    move,
    move64,
    peek8,
    peek16,
    peek24,
    peek32,
    peek64,
    poke8,
    poke16,
    poke32,
    poke64,
)

_SIZE = COLUMN.itemsize
_OP, _NEED, _WIDTH = offset(COLUMN, "op"), offset(COLUMN, "need"), offset(COLUMN, "width")
_B, _C = offset(COLUMN, "b"), offset(COLUMN, "c")
_VALUES, _VALID, _NULLS = offset(COLUMN, "values"), offset(COLUMN, "valid"), offset(COLUMN, "nulls")
_DATA, _DATA_AT, _DATA_END = offset(COLUMN, "data"), offset(COLUMN, "data_at"), offset(COLUMN, "data_end")
_INVALID = offset(COLUMN, "invalid")
_KINDS, _SEQUENCES = offset(HEAD, "kinds"), offset(HEAD, "sequences")
_NUMBERS, _TIMES = offset(HEAD, "rows"), offset(HEAD, "times")


@kernel
def _undo(nulls: Int, row: Int, columns: Int, layout: Int) -> None:
    """Undo the first `columns` columns of a row that did not fit. nulls: address of its NULL bitmap."""
    for c in range(columns):
        column = layout + c * _SIZE
        width = peek64(column + _WIDTH)
        if width < 0:
            used = peek32(peek64(column + _VALUES) + 4 * row)
            poke64(column + _DATA_AT, peek64(column + _DATA) + (used * 4 if width == ops.FLOATS_OUT else used))
        elif width == ops.BITS_OUT:
            at = peek64(column + _VALUES) + (row >> 3)
            poke8(at, peek8(at) & ~(1 << (row & 7)))
        valid = peek64(column + _VALID) + (row >> 3)
        if peek8(valid) >> (row & 7) & 1 == 0:
            poke8(valid, peek8(valid) | 1 << (row & 7))
            poke64(column + _NULLS, peek64(column + _NULLS) - 1)
            if peek8(nulls + (c + 2 >> 3)) >> (c + 2 & 7) & 1 == 0:
                poke64(column + _INVALID, peek64(column + _INVALID) - 1)


@kernel
def _fixed(op: Int, at: Int, row: Int, values: Int) -> None:
    """Read a number of one of the less frequent types."""
    if op == protocol.INT16:
        poke16(values + 2 * row, peek16(at))
    elif op == protocol.YEAR:
        poke32(values + 4 * row, peek16(at))
    elif op == protocol.YEAR2:
        year = peek16(at)
        poke32(values + 4 * row, year + (1900 if year >= 70 else 2000))
    elif peek8(at) != 0:
        byte = values + (row >> 3)
        poke8(byte, peek8(byte) | 1 << (row & 7))


@kernel
def _stamp(op: Int, at: Int, size: Int, row: Int, column: Int, strict: Int) -> Int:
    """Read a date or time. Returns a code."""
    if op == protocol.MOMENT:
        value = moment_of(at, size)
    elif op == protocol.DATE:
        value = date_of(at, size)
    else:
        value = span_of(at, size)
    if value == BROKEN:
        return np.int64(protocol.CORRUPT)
    if value == INVALID:
        if strict:
            return np.int64(protocol.INVALID_DATE)
        set_null(row, column)
        poke64(column + _INVALID, peek64(column + _INVALID) + 1)
    elif op == protocol.DATE:
        poke32(peek64(column + _VALUES) + 4 * row, value)
    else:
        poke64(peek64(column + _VALUES) + 8 * row, value)
    return np.int64(protocol.DONE)


@kernel
def _bit(at: Int, size: Int, row: Int, values: Int) -> None:
    """Read a BIT(1): true when any bit is set."""
    some = np.int64(0)
    for i in range(size):
        some |= peek8(at + i)
    if some != 0:
        byte = values + (row >> 3)
        poke8(byte, peek8(byte) | 1 << (row & 7))


@kernel
def _varying(op: Int, at: Int, size: Int, row: Int, column: Int) -> Int:
    """Read a value of variable length. Returns a code."""
    to = peek64(column + _DATA_AT)
    room = peek64(column + _DATA_END) - to
    if op == protocol.DECIMAL_TEXT:
        if room < DECIMAL_ROOM:
            return np.int64(protocol.FULL)
        to = decimal_text(at, size, peek64(column + _C), to)
        if to == 0:
            return np.int64(protocol.CORRUPT)
    else:
        pad = max(peek64(column + _B) - size, np.int64(0)) if op == protocol.BITS else np.int64(0)
        if op == protocol.FLOATS and size & 3 != 0:
            return np.int64(protocol.ODD_VECTOR)
        if size + pad > room:
            return np.int64(protocol.FULL)
        fill(to, pad, 0)
        move(to + pad, at, size)
        to += pad + size
    poke64(column + _DATA_AT, to)
    used = to - peek64(column + _DATA)
    poke32(peek64(column + _VALUES) + 4 * row + 4, used >> 2 if op == protocol.FLOATS else used)
    return np.int64(protocol.DONE)


@kernel
def _sized(op: Int, at: Int, size: Int, row: Int, column: Int, strict: Int) -> Int:
    """Read a value after its length. Returns a code."""
    if op < protocol.BIT:
        return _stamp(op, at, size, row, column, strict)
    if op >= protocol.BYTES:
        return _varying(op, at, size, row, column)
    values = peek64(column + _VALUES)
    good = np.int64(1)
    if op == protocol.DECIMAL64:
        good = decimal64_of(at, size, peek64(column + _C), values + 16 * row)
    elif op == protocol.DECIMAL128:
        good = decimal128_of(at, size, peek64(column + _C), values + 16 * row)
    else:
        _bit(at, size, row, values)
    return np.int64(protocol.DONE if good else protocol.CORRUPT)


@kernel
def _length_size(first: Int) -> Int:
    """Return the number of bytes of a length after its first byte `first` (251..255); 0 if it is not a length."""
    if first == 252:
        return np.int64(2)
    if first == 253:
        return np.int64(3)
    return np.int64(8 if first == 254 else 0)


@kernel
def _read_row(at: Int, end: Int, row: Int, columns: Int, layout: Int, strict: Int, source: Int, state: Int) -> Int:
    """Read the row at addresses at..end into row `row` of the arena.

    Returns a code; on failure, partial writes are undone.
    """
    nulls = at + 1
    pos = nulls + (columns + 9 >> 3)
    if pos > end:
        return np.int64(protocol.CORRUPT)
    column = layout - _SIZE
    for c in range(columns):
        column += _SIZE
        if peek8(nulls + (c + 2 >> 3)) >> (c + 2 & 7) & 1:
            set_null(row, column)
            continue
        op = peek64(column + _OP)
        code = np.int64(protocol.CORRUPT)
        begin = pos
        if op < protocol.DATE:
            need = peek64(column + _NEED)
            if end - pos >= need:
                values = peek64(column + _VALUES)
                if op == protocol.INT32:
                    poke32(values + 4 * row, peek32(pos))
                elif op == protocol.INT64:
                    poke64(values + 8 * row, peek64(pos))
                elif op == protocol.INT8:
                    poke8(values + row, peek8(pos))
                else:
                    _fixed(op, pos, row, values)
                pos += need
                continue
        elif pos < end:
            size = peek8(pos)
            pos += 1
            if size > 250:
                more = _length_size(size)
                size = np.int64(-1)
                if more > 0 and end - pos >= more:
                    size = peek64(pos) if more == 8 else peek16(pos) if more == 2 else peek24(pos)
                    pos += more
            if size >= 0 and size <= end - pos:
                to = peek64(column + _DATA_AT)
                if op == protocol.BYTES and size <= 64 and peek64(column + _DATA_END) - to >= 64:
                    move64(to, pos)
                    to += size
                    poke64(column + _DATA_AT, to)
                    poke32(peek64(column + _VALUES) + 4 * row + 4, to - peek64(column + _DATA))
                    pos += size
                    continue
                code = _sized(op, pos, size, row, column, strict)
                if code == protocol.DONE:
                    pos += size
                    continue
        poke64(state + 8 * protocol.FAULT_COLUMN, c)
        poke64(state + 8 * protocol.FAULT_AT, begin - source)
        _undo(nulls, row, c, layout)
        return code
    if pos != end:
        return np.int64(protocol.CORRUPT)
    return np.int64(protocol.DONE)


@kernel.entry
def read_rows(
    source: Int,
    starts: Int,
    ends: Int,
    first: Int,
    last: Int,
    columns: Int,
    layout: Int,
    head: Int,
    capacity: Int,
    sequence: Int,
    number: Int,
    time: Int,
    strict: Int,
    state: Int,
) -> Int:
    """Read rows `first` up to `last` of `starts`, `ends` into an open arena, after its existing rows.

    source: address of the buffer, readable for 64 bytes after the last row. layout: COLUMN records; head: a HEAD
    record; capacity: rows that fit. sequence, time: the same for every row; number: of the arena's first row. strict: 1
    when an invalid date is a fault.

    Returns DONE, FULL (state has the number of rows read; continue with a new arena), or CORRUPT, INVALID_DATE or
    ODD_VECTOR, whose column and offset are in the state.
    """
    row = peek64(state + 8 * protocol.ROWS)
    for entry in range(first, last):
        if row >= capacity:
            return np.int64(protocol.FULL)
        poke64(state + 8 * protocol.FAULT_COLUMN, -1)
        begin = source + peek64(starts + 8 * entry)
        code = _read_row(begin, source + peek64(ends + 8 * entry), row, columns, layout, strict, source, state)
        if code != protocol.DONE:
            return code
        poke8(peek64(head + _KINDS) + row, 0)
        poke64(peek64(head + _SEQUENCES) + 8 * row, sequence)
        poke32(peek64(head + _NUMBERS) + 4 * row, number + row)
        poke64(peek64(head + _TIMES) + 8 * row, time)
        row += 1
        poke64(state + 8 * protocol.ROWS, row)
    return np.int64(protocol.DONE)
