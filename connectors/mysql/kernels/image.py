"""One row image: NULL bitmap and values to column buffers.

An image lies in the log as the NULL bitmap of its columns, then the values without gaps (MySQL `sql/rpl_record.cc`,
pack_row). Every read is checked against the event's end, every write against its buffer's. All arguments are addresses
and numbers; records: see `ops`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from connectors.mysql.kernels import ops
from connectors.mysql.kernels.decimal import TEXT_ROOM, decimal64, decimal128, decimal_text
from connectors.mysql.kernels.json import json_text
from connectors.mysql.kernels.kernel_types import Int
from connectors.mysql.kernels.memory import (
    fill,
    move,
    peek,
    peek8,
    peek16,
    peek24,
    peek32,
    peek64,
    poke8,
    poke16,
    poke32,
    poke64,
    view,
)
from connectors.mysql.kernels.ops import FAULT, LAYOUT, PLAN, SLOW, STATE, offset
from connectors.mysql.kernels.temporal import (
    INVALID,
    date3,
    datetime2,
    datetime_old,
    time2,
    time_old,
    timestamp2,
    timestamp_old,
)
from connectors.mysql.kernels.values import write_label, write_set, write_uuid

_OP, _NEED, _WIDTH, _PLAN = offset(PLAN, "op"), offset(PLAN, "need"), offset(PLAN, "width"), PLAN.itemsize
_A, _B, _C, _D = offset(PLAN, "a"), offset(PLAN, "b"), offset(PLAN, "c"), offset(PLAN, "d")
_VALUES, _VALID, _NULLS, _LAYOUT = (
    offset(LAYOUT, "values"),
    offset(LAYOUT, "valid"),
    offset(LAYOUT, "nulls"),
    LAYOUT.itemsize,
)
_DATA, _DATA_AT, _DATA_END = offset(LAYOUT, "data"), offset(LAYOUT, "data_at"), offset(LAYOUT, "data_end")
_STATE_SLOW, _FAULT_COLUMN, _FAULT_VALUE = offset(STATE, "slow"), offset(FAULT, "column"), offset(FAULT, "value")
_SLOW_ENTRY = SLOW.itemsize
_JSON_FULL, _JSON_CORRUPT = -1, -2


@njit(cache=True, nogil=True)
def _set_null(width: Int, row: Int, place: Int) -> None:
    """Clear the validity bit, leave a zero behind it, count it."""
    valid = peek64(place + _VALID) + (row >> 3)
    poke8(valid, peek8(valid) & ~(1 << (row & 7)))
    poke64(place + _NULLS, peek64(place + _NULLS) + 1)
    values = peek64(place + _VALUES)
    if width == ops.BYTES_OUT or width == ops.FLOATS_OUT:
        poke32(values + 4 * row + 4, peek32(values + 4 * row))
    elif width == 8:
        poke64(values + 8 * row, 0)
    elif width == 4:
        poke32(values + 4 * row, 0)
    elif width > 0:
        fill(values + width * row, width, 0)


@njit(cache=True, nogil=True)
def _temporal(op: Int, at: Int, fraction: Int) -> Int:
    """Days for DATE, else microseconds, or INVALID."""
    if op == ops.DATETIME2:
        return datetime2(at, fraction)
    if op == ops.TIMESTAMP2:
        return timestamp2(at, fraction)
    if op == ops.DATE:
        return date3(at)
    if op == ops.TIME2:
        return time2(at, fraction)
    if op == ops.DATETIME_OLD:
        return datetime_old(at)
    if op == ops.TIMESTAMP_OLD:
        return timestamp_old(at)
    return time_old(at)


@njit(cache=True, nogil=True)
def _put_off(row: Int, c: Int, src: Int, at: Int, end: Int, document: Int, slow: Int, state: Int) -> Int:
    """Enter a JSON value into the slow list. document: address of the before image's (start, end), or 0."""
    entry = peek64(state + _STATE_SLOW)
    if entry >= ops.SLOW_CAPACITY:
        return ops.FULL
    item = slow + entry * _SLOW_ENTRY
    poke64(item, row)
    poke64(item + 8, c)
    poke64(item + 16, at - src)
    poke64(item + 24, end - src)
    poke64(item + 32, -1)
    if document != 0:
        poke64(item + 32, peek64(document) - src)
        poke64(item + 40, peek64(document + 8) - src)
    poke64(state + _STATE_SLOW, entry + 1)
    return ops.DONE


@njit(cache=True, nogil=True)
def _json(
    at: Int, end: Int, row: Int, c: Int, document: Int, changes: Int, place: Int, src: Int, slow: Int, state: Int
) -> Int:
    """One JSON value; left to Python when it is a list of changes, or a value the kernel cannot print.

    document: address of two numbers that keep where the before image's document is.
    """
    if changes:
        if peek64(document) == 0:
            return ops.CORRUPT_JSON
        return _put_off(row, c, src, at, end, document, slow, state)
    poke64(document, at)
    poke64(document + 8, end)
    room = peek64(place + _DATA_AT)
    written = json_text(view(at, end - at), 0, end - at, view(room, peek64(place + _DATA_END) - room), 0)
    if written >= 0:
        poke64(place + _DATA_AT, room + written)
        return ops.DONE
    if written == _JSON_FULL:
        return ops.FULL
    if written == _JSON_CORRUPT:
        return ops.CORRUPT_JSON
    return _put_off(row, c, src, at, end, 0, slow, state)


@njit(cache=True, nogil=True)
def _label(op: Int, value: Int, first: Int, count: Int, labels: Int, text: Int, place: Int) -> Int:
    """An ENUM or SET value as text. DONE, FULL or UNKNOWN_LABEL."""
    to = peek64(place + _DATA_AT)
    end = peek64(place + _DATA_END)
    if op == ops.ENUM:
        if value > count:
            return ops.UNKNOWN_LABEL
        if value > 0:
            to = write_label(first + value - 1, labels, text, to, end)
    else:
        if count < 64 and value >> count != 0:
            return ops.UNKNOWN_LABEL
        to = write_set(value, first, count, labels, text, to, end)
    if to == 0:
        return ops.FULL
    poke64(place + _DATA_AT, to)
    return ops.DONE


@njit(cache=True, nogil=True)
def _decimal_text(at: Int, column: Int, place: Int) -> Int:
    """A long decimal as text. DONE, FULL or CORRUPT."""
    to = peek64(place + _DATA_AT)
    if peek64(place + _DATA_END) - to < TEXT_ROOM:
        return ops.FULL
    to = decimal_text(at, peek64(column + _A), peek64(column + _B), peek64(column + _C), peek64(column + _D), to)
    if to == 0:
        return ops.CORRUPT
    poke64(place + _DATA_AT, to)
    return ops.DONE


@njit(cache=True, nogil=True)
def _uuid(at: Int, size: Int, place: Int) -> Int:
    """A UUID as text. DONE, FULL or CORRUPT."""
    to = peek64(place + _DATA_AT)
    if size > 16:
        return ops.CORRUPT
    if peek64(place + _DATA_END) - to < 36:
        return ops.FULL
    write_uuid(at, size, to)
    poke64(place + _DATA_AT, to + 36)
    return ops.DONE


@njit(cache=True, nogil=True)
def decode_image(
    pos: Int,
    end: Int,
    row: Int,
    partial: Int,
    columns: Int,
    plan: Int,
    layout: Int,
    labels: Int,
    text: Int,
    strict: Int,
    src: Int,
    slow: Int,
    documents: Int,
    pending: Int,
    state: Int,
    fault: Int,
) -> Int:
    """One row image at addresses pos..end to row `row`. Returns the address behind it, or minus the return code.

    partial: address of the bits that mark JSON values as lists of changes, or 0. documents: two numbers per JSON
    column. pending: a count, and that many columns whose invalid dates became NULL in this row.
    """
    nulls = pos
    pos += (columns + 7) >> 3
    if pos > end:
        return -ops.CORRUPT
    column = plan - _PLAN
    place = layout - _LAYOUT
    for c in range(columns):
        column += _PLAN
        place += _LAYOUT
        op = peek64(column + _OP)
        if peek8(nulls + (c >> 3)) >> (c & 7) & 1:
            _set_null(peek64(column + _WIDTH), row, place)
            if op == ops.JSON:
                poke64(documents + 16 * peek64(column + _B), 0)
            continue
        need = peek64(column + _NEED)
        if end - pos < need:
            poke64(fault + _FAULT_COLUMN, c)
            return -ops.CORRUPT
        values = peek64(place + _VALUES)
        if op == ops.INT32:
            poke32(values + 4 * row, peek32(pos))
            pos += 4
            continue
        if op == ops.INT64:
            poke64(values + 8 * row, peek64(pos))
            pos += 8
            continue
        if op == ops.INT8:
            poke8(values + row, peek8(pos))
            pos += 1
            continue
        code = ops.DONE
        size = need
        if op >= ops.BYTES:
            at = pos + need
            size = peek(pos, need)
            if op != ops.ENUM and op != ops.SET and size > end - at:
                poke64(fault + _FAULT_COLUMN, c)
                return -ops.CORRUPT
            to = peek64(place + _DATA_AT)
            if op == ops.BYTES:
                pad = max(peek64(column + _B), size)
                if pad > peek64(place + _DATA_END) - to:
                    return -ops.FULL
                move(to, at, size)
                if pad > size:
                    fill(to + size, pad - size, 0)
                to += pad
                poke64(place + _DATA_AT, to)
                poke32(values + 4 * row + 4, to - peek64(place + _DATA))
                pos = at + size
                continue
            if op == ops.VECTOR:
                if size & 3 != 0:
                    code = ops.CORRUPT
                elif size > peek64(place + _DATA_END) - to:
                    code = ops.FULL
                else:
                    move(to, at, size)
                    poke64(place + _DATA_AT, to + size)
                    poke32(values + 4 * row + 4, (to + size - peek64(place + _DATA)) >> 2)
                size += need
            else:
                if op == ops.JSON:
                    ordinal = peek64(column + _B)
                    changes = np.int64(0)
                    if partial != 0:
                        changes = peek8(partial + (ordinal >> 3)) >> (ordinal & 7) & 1
                    code = _json(at, at + size, row, c, documents + 16 * ordinal, changes, place, src, slow, state)
                    size += need
                elif op == ops.UUID:
                    code = _uuid(at, size, place)
                    size += need
                else:
                    code = _label(op, size, peek64(column + _B), peek64(column + _C), labels, text, place)
                    if code == ops.UNKNOWN_LABEL:
                        poke64(fault + _FAULT_VALUE, size)
                    size = need
                poke32(values + 4 * row + 4, peek64(place + _DATA_AT) - peek64(place + _DATA))
        elif op == ops.DECIMAL64:
            sound = decimal64(
                pos,
                peek64(column + _A),
                peek64(column + _B) + peek64(column + _C),
                peek64(column + _D),
                values + 16 * row,
            )
            if not sound:
                code = ops.CORRUPT
        elif op >= ops.DATE and op <= ops.TIMESTAMP_OLD:
            stamp = _temporal(op, pos, peek64(column + _A))
            if stamp == INVALID:
                if op == ops.TIME2 or op == ops.TIME_OLD:
                    code = ops.CORRUPT
                elif strict:
                    code = ops.INVALID_DATE
                    poke64(fault + _FAULT_VALUE, pos - src)
                else:
                    _set_null(peek64(column + _WIDTH), row, place)
                    count = peek64(pending) + 1
                    poke64(pending, count)
                    poke64(pending + 8 * count, c)
            elif op == ops.DATE:
                poke32(values + 4 * row, stamp)
            else:
                poke64(values + 8 * row, stamp)
        elif op == ops.INT16:
            poke16(values + 2 * row, peek16(pos))
        elif op == ops.INT24:
            poke32(values + 4 * row, peek24(pos) ^ -(peek8(pos + 2) >> 7) << 24)
        elif op == ops.UINT24:
            poke32(values + 4 * row, peek24(pos))
        elif op == ops.DECIMAL128:
            sound = decimal128(
                pos,
                peek64(column + _A),
                peek64(column + _B) + peek64(column + _C),
                peek64(column + _D),
                values + 16 * row,
            )
            if not sound:
                code = ops.CORRUPT
        elif op == ops.BOOLEAN:
            if peek8(pos) != 0:
                at = values + (row >> 3)
                poke8(at, peek8(at) | 1 << (row & 7))
        elif op == ops.YEAR:
            year = peek8(pos)
            poke32(values + 4 * row, year + 1900 if year != 0 else year)
        elif op == ops.BITS:
            to = peek64(place + _DATA_AT)
            if need > peek64(place + _DATA_END) - to:
                code = ops.FULL
            else:
                move(to, pos, need)
                poke64(place + _DATA_AT, to + need)
                poke32(values + 4 * row + 4, to + need - peek64(place + _DATA))
        else:
            code = _decimal_text(pos, column, place)
            poke32(values + 4 * row + 4, peek64(place + _DATA_AT) - peek64(place + _DATA))
        if code != ops.DONE:
            poke64(fault + _FAULT_COLUMN, c)
            return -code
        pos += size
    return pos
