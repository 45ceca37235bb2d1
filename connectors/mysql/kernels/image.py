"""Decodes one row image, value by value, for everything that `columns` leaves.

An image in the log is the NULL bitmap of its columns, then the values without gaps (MySQL `sql/rpl_record.cc`,
pack_row). Every read is checked against the event's end, every write against its buffer's. All arguments are addresses
and numbers; for records see `ops`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.nulls import set_null
from connectors.mysql.kernels.one_value import fixed, forget_document, invalid, sized, temporal
from connectors.mysql.kernels.ops import COLUMN, CONTEXT, FAULT, offset
from connectors.mysql.kernels.temporal import INVALID
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek64, poke32, poke64

_SIZE = COLUMN.itemsize
_OP, _NEED, _VALUES = offset(COLUMN, "op"), offset(COLUMN, "need"), offset(COLUMN, "values")
_A, _B = offset(COLUMN, "a"), offset(COLUMN, "b")
_FAULT, _FAULT_COLUMN = offset(CONTEXT, "fault"), offset(FAULT, "column")


@kernel
def _change_bit(partial: Int, column: Int) -> Int:
    """Return 1 when the after image's JSON value is a list of changes. partial: see `decode_image`."""
    if partial == 0:
        return np.int64(0)
    ordinal = peek64(column + _B)
    return peek8(partial + (ordinal >> 3)) >> (ordinal & 7) & 1


@kernel
def _date(op: Int, pos: Int, row: Int, c: Int, column: Int, context: Int) -> Int:
    """Decode a date or time. Returns a code."""
    stamp = temporal(op, pos, peek64(column + _A))
    if stamp == INVALID:
        return invalid(op, pos, row, c, column, context)
    if op == ops.DATE:
        poke32(peek64(column + _VALUES) + 4 * row, stamp)
    else:
        poke64(peek64(column + _VALUES) + 8 * row, stamp)
    return ops.DONE


@kernel
def decode_image(
    pos: Int, end: Int, row: Int, partial: Int, again: Int, columns: Int, layout: Int, context: Int
) -> Int:
    """Decode the row image at addresses pos..end into row `row`.

    Returns the address after it, or minus the return code. partial: address of the bits that mark JSON values as lists
    of changes, or 0. again: 1 for the after image of an update, whose before image is the row before. layout: COLUMN
    records.
    """
    nulls = pos
    pos += (columns + 7) >> 3
    if pos > end:
        return -ops.CORRUPT
    for c in range(columns):
        column = layout + c * _SIZE
        op = peek64(column + _OP)
        need = peek64(column + _NEED)
        if peek8(nulls + (c >> 3)) >> (c & 7) & 1:
            set_null(row, column)
            if op == ops.JSON:
                forget_document(column, context)
            continue
        if end - pos < need:
            code = ops.CORRUPT
        elif op >= ops.BITS:
            changes = _change_bit(partial, column) if op == ops.JSON else np.int64(0)
            behind = sized(pos, end, row, c, changes, again, column, context)
            code = -behind if behind < 0 else ops.DONE
            pos = behind
        else:
            code = _date(op, pos, row, c, column, context) if op >= ops.DATE else fixed(op, pos, row, column)
            pos += need
        if code != ops.DONE:
            poke64(peek64(context + _FAULT) + _FAULT_COLUMN, c)
            return -code
    return pos
