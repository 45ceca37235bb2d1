"""Converts row images to column buffers, column by column, once `placing` has noted where the values are.

Every loop does one thing to many values that do not depend on each other, so a processor works on several at once
(P. Boncz, M. Zukowski, N. Nes, "MonetDB/X100: Hyper-Pipelining Query Execution", CIDR 2005). Reads stay within the
places that `placing` has checked; writes are checked against their buffer's end.

All arguments are addresses and numbers; for records see `ops`. In every loop: count: images; row: the first one's row;
column: a COLUMN record; before: places, one per image, `skip` bytes before the value; behind: places after the value,
equal to its own place where it is NULL, or 0 where no value is NULL. A NULL leaves a zero.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.decimal import decimal64
from connectors.mysql.kernels.nulls import leave_zero
from connectors.mysql.kernels.one_value import fixed, forget_document, sized, temporal
from connectors.mysql.kernels.ops import COLUMN, CONTEXT, HEAD, IMAGE, STATE, WHERE, offset
from connectors.mysql.kernels.temporal import INVALID, date3, datetime2, timestamp2
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import move, move32, move64, peek8, peek32, peek64, poke8, poke32, poke64

_SIZE, _WHERE_SIZE = COLUMN.itemsize, WHERE.itemsize
_OP, _NEED, _VALUES = offset(COLUMN, "op"), offset(COLUMN, "need"), offset(COLUMN, "values")
_VALID, _NULLS = offset(COLUMN, "valid"), offset(COLUMN, "nulls")
_A, _B, _C, _D = offset(COLUMN, "a"), offset(COLUMN, "b"), offset(COLUMN, "c"), offset(COLUMN, "d")
_DATA, _DATA_AT, _DATA_END = offset(COLUMN, "data"), offset(COLUMN, "data_at"), offset(COLUMN, "data_end")
_PLACES, _STRIDE, _WHERE = offset(IMAGE, "places"), offset(IMAGE, "stride"), offset(IMAGE, "where")
_STEP, _SKIP, _OWN, _NULLABLE = (offset(WHERE, field) for field in ("step", "skip", "own", "nullable"))
_STATE, _IMAGE, _LIMIT = offset(CONTEXT, "state"), offset(CONTEXT, "image"), offset(CONTEXT, "limit")
_DONE_ROWS = offset(STATE, "rows")
_KINDS = offset(HEAD, "kinds")
_AFTER = 2
"""Row kind of an update's after image."""


@kernel
def _clear_nulls(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    """Clear the validity bits of NULLs, and count the NULLs."""
    valid, bits, nulls = peek64(column + _VALID), np.int64(0), np.int64(0)
    for i in range(count):
        null = np.int64(peek64(behind + 8 * i) == peek64(before + 8 * i) + skip)
        position = row + i
        bits |= null << (position & 7)
        nulls += null
        if position & 7 == 7 or i == count - 1:
            if bits != 0:
                poke8(valid + (position >> 3), peek8(valid + (position >> 3)) & ~bits)
            bits = np.int64(0)
    poke64(column + _NULLS, peek64(column + _NULLS) + nulls)
    return nulls


@kernel
def _bytes1(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    to = peek64(column + _VALUES) + row
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        null = np.int64(behind != 0 and peek64(behind + 8 * i) == at)
        poke8(to + i, peek8(at) & (null - 1))
    return ops.DONE


@kernel
def _bytes4(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    to = peek64(column + _VALUES) + 4 * row
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        null = np.int64(behind != 0 and peek64(behind + 8 * i) == at)
        poke32(to + 4 * i, peek32(at) & (null - 1))
    return ops.DONE


@kernel
def _bytes8(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    to = peek64(column + _VALUES) + 8 * row
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        null = np.int64(behind != 0 and peek64(behind + 8 * i) == at)
        poke64(to + 8 * i, peek64(at) & (null - 1))
    return ops.DONE


@kernel
def _decimals(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    to = peek64(column + _VALUES) + 16 * row
    lead, full, tail = peek64(column + _A), peek64(column + _B) + peek64(column + _C), peek64(column + _D)
    sound = np.int64(1)
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        if behind != 0 and peek64(behind + 8 * i) == at:
            poke64(to + 16 * i, 0)
            poke64(to + 16 * i + 8, 0)
        else:
            sound &= decimal64(at, lead, full, tail, to + 16 * i)
    return ops.DONE if sound else ops.CORRUPT


@kernel
def _dates(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    to = peek64(column + _VALUES) + 4 * row
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        day = np.int64(0) if behind != 0 and peek64(behind + 8 * i) == at else date3(at)
        if day == INVALID:
            return ops.INVALID_DATE
        poke32(to + 4 * i, day)
    return ops.DONE


@kernel
def _timestamps(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    to, fraction = peek64(column + _VALUES) + 8 * row, peek64(column + _A)
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        stamp = np.int64(0) if behind != 0 and peek64(behind + 8 * i) == at else timestamp2(at, fraction)
        if stamp == INVALID:
            return ops.INVALID_DATE
        poke64(to + 8 * i, stamp)
    return ops.DONE


@kernel
def _datetimes(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    """Convert DATETIME values. A value equal to the one before, as most are in updates, is not converted again."""
    to, fraction = peek64(column + _VALUES) + 8 * row, peek64(column + _A)
    unused = 64 - 8 * peek64(column + _NEED)
    last, stamp = np.int64(0), INVALID
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        if behind != 0 and peek64(behind + 8 * i) == at:
            poke64(to + 8 * i, 0)
            continue
        raw = peek64(at) << unused
        if raw != last:
            stamp = datetime2(at, fraction)
            last = raw
        if stamp == INVALID:
            return ops.INVALID_DATE
        poke64(to + 8 * i, stamp)
    return ops.DONE


@kernel
def _texts(count: Int, row: Int, column: Int, before: Int, skip: Int, behind: Int) -> Int:
    """Copy bytes with a length field before them. Short ones are copied in one piece, with the bytes after them."""
    skip += peek64(column + _NEED)
    offsets, data = peek64(column + _VALUES) + 4 * row + 4, peek64(column + _DATA)
    to, room = peek64(column + _DATA_AT), peek64(column + _DATA_END)
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        size = max(peek64(behind + 8 * i) - at, np.int64(0))
        if size > 128 or room - to < 128:
            if size > room - to:
                return ops.FULL
            move(to, at, size)
        elif size <= 32:
            move32(to, at)
        else:
            move64(to, at)
            if size > 64:
                move64(to + 64, at + 64)
        to += size
        poke32(offsets + 4 * i, to - data)
    poke64(column + _DATA_AT, to)
    return ops.DONE


@kernel.inlined
def _others(
    count: Int, row: Int, c: Int, column: Int, before: Int, skip: Int, behind: Int, kinds: Int, context: Int
) -> Int:
    """Convert values of all other types. c: the column's number; kinds: place of the first image's kind."""
    op, end = peek64(column + _OP), peek64(context + _LIMIT)
    for i in range(count):
        at = peek64(before + 8 * i) + skip
        if behind != 0 and peek64(behind + 8 * i) == at:
            leave_zero(row + i, column)
            if op == ops.JSON:
                forget_document(column, context)
        elif op >= ops.BITS:
            code = sized(at, end, row + i, c, np.int64(0), np.int64(peek8(kinds + i) == _AFTER), column, context)
            if code < 0:
                return -code
        elif op >= ops.DATE:
            stamp = temporal(op, at, peek64(column + _A))
            if stamp == INVALID:
                return ops.INVALID_DATE
            poke64(peek64(column + _VALUES) + 8 * (row + i), stamp)
        elif fixed(op, at, row + i, column) != ops.DONE:
            return ops.CORRUPT
    return ops.DONE


@kernel.inlined
def decode_columns(count: Int, columns: Int, layout: Int, head: Int, context: Int) -> Int:
    """Convert all columns of the images that `placing.place_images` has placed.

    Returns DONE, or a code; then nothing may be kept. The caller removes what was written and has the rows decoded one
    by one, which shows what is wrong and where.
    """
    image, row = peek64(context + _IMAGE), peek64(peek64(context + _STATE) + _DONE_ROWS)
    places, stride, where = peek64(image + _PLACES), peek64(image + _STRIDE), peek64(image + _WHERE)
    kinds = peek64(head + _KINDS) + row
    for c in range(columns):
        column = layout + c * _SIZE
        before = places + stride * peek64(where + _STEP)
        behind = before + stride if peek64(where + _OWN) else np.int64(0)
        skip, op = peek64(where + _SKIP), peek64(column + _OP)
        nullable = peek64(where + _NULLABLE) != 0
        where += _WHERE_SIZE
        nulls = np.int64(0)
        if nullable and _clear_nulls(count, row, column, before, skip, behind) > 0:
            nulls = behind
        if op == ops.BYTES and peek64(column + _B) == 0:
            code = _texts(count, row, column, before, skip, behind)
        elif op == ops.INT32:
            code = _bytes4(count, row, column, before, skip, nulls)
        elif op == ops.INT64:
            code = _bytes8(count, row, column, before, skip, nulls)
        elif op == ops.INT8:
            code = _bytes1(count, row, column, before, skip, nulls)
        elif op == ops.DECIMAL64:
            code = _decimals(count, row, column, before, skip, nulls)
        elif op == ops.DATETIME2:
            code = _datetimes(count, row, column, before, skip, nulls)
        elif op == ops.TIMESTAMP2:
            code = _timestamps(count, row, column, before, skip, nulls)
        elif op == ops.DATE:
            code = _dates(count, row, column, before, skip, nulls)
        else:
            code = _others(count, row, c, column, before, skip, nulls, kinds, context)
        if code != ops.DONE:
            return code
    return ops.DONE
