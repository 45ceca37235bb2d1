"""Decodes one value of a row image, of any type, into its column's buffers.

Every read is checked against the event's end, every write against its buffer's. All arguments are addresses and
numbers; for records see `ops`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.decimal import TEXT_ROOM, decimal64, decimal128, decimal_text
from connectors.mysql.kernels.json import json_text
from connectors.mysql.kernels.nulls import set_null
from connectors.mysql.kernels.ops import COLUMN, CONTEXT, FAULT, SLOW, STATE, offset
from connectors.mysql.kernels.temporal import (
    date3,
    datetime2,
    datetime_old,
    time2,
    time_old,
    timestamp2,
    timestamp_old,
)
from connectors.mysql.kernels.values import write_label, write_set, write_uuid
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import (
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
    same_bytes,
    view,
)

_OP, _NEED, _VALUES = offset(COLUMN, "op"), offset(COLUMN, "need"), offset(COLUMN, "values")
_A, _B, _C, _D = offset(COLUMN, "a"), offset(COLUMN, "b"), offset(COLUMN, "c"), offset(COLUMN, "d")
_DATA, _DATA_AT, _DATA_END = offset(COLUMN, "data"), offset(COLUMN, "data_at"), offset(COLUMN, "data_end")
_SOURCE, _STRICT = offset(CONTEXT, "source"), offset(CONTEXT, "strict")
_LABELS, _TEXT, _DOCUMENTS = offset(CONTEXT, "labels"), offset(CONTEXT, "text"), offset(CONTEXT, "documents")
_JSON_STACK, _PENDING, _SLOW_LIST = offset(CONTEXT, "json_stack"), offset(CONTEXT, "pending"), offset(CONTEXT, "slow")
_STATE, _FAULT = offset(CONTEXT, "state"), offset(CONTEXT, "fault")
_STATE_SLOW, _FAULT_VALUE = offset(STATE, "slow"), offset(FAULT, "value")
_SLOW_ENTRY = SLOW.itemsize
_JSON_FULL = -1


@kernel.entry
def temporal(op: Int, at: Int, fraction: Int) -> Int:
    """Decode a date or time: days for DATE, otherwise microseconds, or INVALID."""
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


@kernel.entry
def invalid(op: Int, at: Int, row: Int, c: Int, column: Int, context: Int) -> Int:
    """Make an invalid date NULL, or a fault. Returns a code."""
    if op == ops.TIME2 or op == ops.TIME_OLD:
        return ops.CORRUPT
    if peek64(context + _STRICT):
        poke64(peek64(context + _FAULT) + _FAULT_VALUE, at - peek64(context + _SOURCE))
        return ops.INVALID_DATE
    set_null(row, column)
    pending = peek64(context + _PENDING)
    count = peek64(pending) + 1
    poke64(pending, count)
    poke64(pending + 8 * count, c)
    return ops.DONE


@kernel
def _defer(at: Int, end: Int, row: Int, c: Int, document: Int, context: Int) -> Int:
    """Add a list of changes to the slow list. document: address of the before image's (start, end)."""
    state = peek64(context + _STATE)
    source = peek64(context + _SOURCE)
    entry = peek64(state + _STATE_SLOW)
    if entry >= ops.SLOW_CAPACITY:
        return ops.FULL
    item = peek64(context + _SLOW_LIST) + entry * _SLOW_ENTRY
    poke64(item, row)
    poke64(item + 8, c)
    poke64(item + 16, at - source)
    poke64(item + 24, end - source)
    poke64(item + 32, peek64(document) - source)
    poke64(item + 40, peek64(document + 8) - source)
    poke64(state + _STATE_SLOW, entry + 1)
    return ops.DONE


@kernel
def _repeated(at: Int, end: Int, row: Int, column: Int, document: Int) -> bool:
    """Copy the text of the row before when an update left the document unchanged. Returns whether it did."""
    before = peek64(document)
    if before == 0 or peek64(document + 8) - before != end - at or not same_bytes(before, at, end - at):
        return False
    values = peek64(column + _VALUES)
    start = peek32(values + 4 * row - 4)
    size = peek32(values + 4 * row) - start
    to = peek64(column + _DATA_AT)
    if size == 0 or size > peek64(column + _DATA_END) - to:
        return False
    move(to, peek64(column + _DATA) + start, size)
    poke64(column + _DATA_AT, to + size)
    return True


@kernel
def _json(at: Int, end: Int, row: Int, c: Int, changes: Int, again: Int, column: Int, context: Int) -> Int:
    """Decode a JSON value; a list of changes is left to Python."""
    document = peek64(context + _DOCUMENTS) + 16 * peek64(column + _B)
    if changes:
        if peek64(document) == 0:
            return ops.CORRUPT_JSON
        return _defer(at, end, row, c, document, context)
    if again and _repeated(at, end, row, column, document):
        return ops.DONE
    poke64(document, at)
    poke64(document + 8, end)
    room = peek64(column + _DATA_AT)
    text, stack = view(room, peek64(column + _DATA_END) - room), peek64(context + _JSON_STACK)
    written = json_text(view(at, end - at), np.int64(0), end - at, text, np.int64(0), stack)
    if written >= 0:
        poke64(column + _DATA_AT, room + written)
        return ops.DONE
    return ops.FULL if written == _JSON_FULL else ops.CORRUPT_JSON


@kernel
def _label(op: Int, value: Int, column: Int, context: Int) -> Int:
    """Write an ENUM or SET value as text. Returns DONE, FULL or UNKNOWN_LABEL."""
    to = peek64(column + _DATA_AT)
    end = peek64(column + _DATA_END)
    first = peek64(column + _B)
    count = peek64(column + _C)
    labels = peek64(context + _LABELS)
    text = peek64(context + _TEXT)
    unknown = value > count if op == ops.ENUM else count < 64 and value >> count != 0
    if unknown:
        poke64(peek64(context + _FAULT) + _FAULT_VALUE, value)
        return ops.UNKNOWN_LABEL
    if op == ops.SET:
        to = write_set(value, first, count, labels, text, to, end)
    elif value > 0:
        to = write_label(first + value - 1, labels, text, to, end)
    if to == 0:
        return ops.FULL
    poke64(column + _DATA_AT, to)
    return ops.DONE


@kernel
def _decimal_text(at: Int, column: Int) -> Int:
    """Write a long decimal as text. Returns DONE, FULL or CORRUPT."""
    to = peek64(column + _DATA_AT)
    if peek64(column + _DATA_END) - to < TEXT_ROOM:
        return ops.FULL
    to = decimal_text(at, peek64(column + _A), peek64(column + _B), peek64(column + _C), peek64(column + _D), to)
    if to == 0:
        return ops.CORRUPT
    poke64(column + _DATA_AT, to)
    return ops.DONE


@kernel
def _uuid(at: Int, size: Int, column: Int) -> Int:
    """Write a UUID as text. Returns DONE, FULL or CORRUPT."""
    to = peek64(column + _DATA_AT)
    if size > 16:
        return ops.CORRUPT
    if peek64(column + _DATA_END) - to < 36:
        return ops.FULL
    write_uuid(at, size, to)
    poke64(column + _DATA_AT, to + 36)
    return ops.DONE


@kernel
def _bytes(at: Int, size: Int, pad: Int, column: Int) -> Int:
    """Copy bytes; with `pad`, fill up to it with zero bytes. Returns DONE, FULL or CORRUPT."""
    if pad > 0 and size > pad:
        return ops.CORRUPT
    to = peek64(column + _DATA_AT)
    room = max(size, pad)
    if room > peek64(column + _DATA_END) - to:
        return ops.FULL
    move(to, at, size)
    if pad > size:
        fill(to + size, pad - size, 0)
    poke64(column + _DATA_AT, to + room)
    return ops.DONE


@kernel
def sized(pos: Int, end: Int, row: Int, c: Int, changes: Int, again: Int, column: Int, context: Int) -> Int:
    """Decode a value of variable length. Returns the address after it, or minus a code."""
    op = peek64(column + _OP)
    need = peek64(column + _NEED)
    at = pos
    size = need
    if op != ops.BITS and op != ops.DECIMAL_TEXT:
        size = peek(pos, need)
        at = pos + need
    if op == ops.ENUM or op == ops.SET:
        code = _label(op, size, column, context)
        size = np.int64(0)
    elif size < 0 or size > end - at:
        code = ops.CORRUPT
    elif op == ops.BYTES:
        code = _bytes(at, size, peek64(column + _B), column)
    elif op == ops.JSON:
        code = _json(at, at + size, row, c, changes, again, column, context)
    elif op == ops.DECIMAL_TEXT:
        code = _decimal_text(at, column)
    elif op == ops.UUID:
        code = _uuid(at, size, column)
    elif op == ops.VECTOR and size & 3 != 0:
        code = ops.ODD_VECTOR
    else:
        code = _bytes(at, size, np.int64(0), column)
    if code != ops.DONE:
        return -code
    used = peek64(column + _DATA_AT) - peek64(column + _DATA)
    poke32(peek64(column + _VALUES) + 4 * row + 4, used >> 2 if op == ops.VECTOR else used)
    return at + size


@kernel.entry
def fixed(op: Int, pos: Int, row: Int, column: Int) -> Int:
    """Decode a value of fixed size that is not a date. Returns DONE or CORRUPT."""
    values = peek64(column + _VALUES)
    if op == ops.INT32:
        poke32(values + 4 * row, peek32(pos))
    elif op == ops.INT64:
        poke64(values + 8 * row, peek64(pos))
    elif op == ops.INT8:
        poke8(values + row, peek8(pos))
    elif op == ops.INT16:
        poke16(values + 2 * row, peek16(pos))
    elif op == ops.INT24:
        poke32(values + 4 * row, peek24(pos) ^ -(peek8(pos + 2) >> 7) << 24)
    elif op == ops.UINT24:
        poke32(values + 4 * row, peek24(pos))
    elif op == ops.BOOLEAN:
        if peek8(pos) != 0:
            at = values + (row >> 3)
            poke8(at, peek8(at) | 1 << (row & 7))
    elif op == ops.YEAR:
        year = peek8(pos)
        poke32(values + 4 * row, year + 1900 if year != 0 else year)
    else:
        full = peek64(column + _B) + peek64(column + _C)
        lead, tail, to = peek64(column + _A), peek64(column + _D), values + 16 * row
        if op == ops.DECIMAL64:
            sound = decimal64(pos, lead, full, tail, to)
        else:
            sound = decimal128(pos, lead, full, tail, to)
        if not sound:
            return ops.CORRUPT
    return ops.DONE


@kernel
def forget_document(column: Int, context: Int) -> None:
    """Note that the before image's JSON value is NULL."""
    poke64(peek64(context + _DOCUMENTS) + 16 * peek64(column + _B), 0)
