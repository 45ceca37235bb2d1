"""Decodes ROWS events into column buffers row by row: what `rows` leaves, and to find out what is wrong.

All arguments are addresses and numbers; for records see `ops`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.image import decode_image
from connectors.mysql.kernels.ops import BUFFER, COLUMN, CONTEXT, FAULT, STATE, offset
from connectors.mysql.kernels.rows_event import (
    HEADER,
    PARTIAL_UPDATE,
    UPDATE,
    changes_end,
    first_image,
    note_image,
    row_kind,
)
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek32, peek64, poke64

_SIZE = COLUMN.itemsize
_BYTES, _STARTS, _ENDS, _TYPES = (offset(BUFFER, field) for field in ("size", "starts", "ends", "types"))
_POSITIONS, _TIMES, _BASE = offset(BUFFER, "positions"), offset(BUFFER, "times"), offset(BUFFER, "base")
_ORDER, _LAST = offset(BUFFER, "order"), offset(BUFFER, "last")
_EVENT, _AT, _DONE_ROWS = offset(STATE, "event"), offset(STATE, "at"), offset(STATE, "rows")
_SEQUENCE, _NEXT_ROW = offset(STATE, "sequence"), offset(STATE, "next_row")
_NULLS_KNOWN, _SLOW = offset(STATE, "nulls_known"), offset(STATE, "slow")
_FAULT_EVENT, _FAULT_COLUMN = offset(FAULT, "event"), offset(FAULT, "column")
_INVALID, _VALUES, _WIDTH = offset(COLUMN, "invalid"), offset(COLUMN, "values"), offset(COLUMN, "width")
_DATA, _DATA_AT = offset(COLUMN, "data"), offset(COLUMN, "data_at")
_SOURCE, _JSON_COLUMNS = offset(CONTEXT, "source"), offset(CONTEXT, "json_columns")
_PENDING, _STATE, _FAULT = offset(CONTEXT, "pending"), offset(CONTEXT, "state"), offset(CONTEXT, "fault")


@kernel.entry
def undo_rows(first_row: Int, slow_before: Int, columns: Int, layout: Int, state: Int) -> None:
    """Remove the rows from `first_row` on: text written for them, and entries of the slow list.

    NULL counts are lost. Bits of values that were NULL or true remain, so the same rows must be decoded again.
    """
    for c in range(columns):
        column = layout + c * _SIZE
        width = peek64(column + _WIDTH)
        if width < 0:
            used = peek32(peek64(column + _VALUES) + 4 * first_row)
            poke64(column + _DATA_AT, peek64(column + _DATA) + (used * 4 if width == ops.FLOATS_OUT else used))
    poke64(state + _SLOW, slow_before)
    poke64(state + _NULLS_KNOWN, 0)


@kernel
def _count_invalid(pending: Int, layout: Int) -> None:
    for i in range(1, peek64(pending) + 1):
        counter = layout + peek64(pending + 8 * i) * _SIZE + _INVALID
        poke64(counter, peek64(counter) + 1)


@kernel.inlined
def _changed_image(pos: Int, end: Int, row: Int, columns: Int, layout: Int, context: Int) -> Int:
    """Decode the after image of a PARTIAL_UPDATE_ROWS event. Returns the same as `decode_image`."""
    behind = changes_end(pos, end, peek64(context + _JSON_COLUMNS))
    if behind == 0:
        return -ops.CORRUPT
    bits = pos + 1 if behind > pos + 1 else np.int64(0)
    return decode_image(behind, end, row, bits, np.int64(1), columns, layout, context)


@kernel.inlined
def _row(pos: Int, end: Int, row: Int, code: Int, images: Int, columns: Int, layout: Int, context: Int) -> Int:
    """Decode one row: an image, or before and after image. Returns the same as `decode_image`."""
    pos = decode_image(pos, end, row, np.int64(0), np.int64(0), columns, layout, context)
    if images == 1 or pos < 0:
        return pos
    if code == PARTIAL_UPDATE:
        return _changed_image(pos, end, row + 1, columns, layout, context)
    return decode_image(pos, end, row + 1, np.int64(0), np.int64(1), columns, layout, context)


@kernel.inlined
def decode_row_by_row(buffer: Int, columns: Int, layout: Int, head: Int, capacity: Int, context: Int) -> Int:
    """Decode row by row. Arguments and return codes as for `rows.decode_rows`."""
    source = peek64(context + _SOURCE)
    pending, state, fault = peek64(context + _PENDING), peek64(context + _STATE), peek64(context + _FAULT)
    row = peek64(state + _DONE_ROWS)
    for entry in range(peek64(state + _EVENT), peek64(buffer + _LAST)):
        event = peek64(peek64(buffer + _ORDER) + 8 * entry)
        poke64(fault + _FAULT_EVENT, event)
        poke64(fault + _FAULT_COLUMN, -1)
        start, end = peek64(peek64(buffer + _STARTS) + 8 * event), peek64(peek64(buffer + _ENDS) + 8 * event)
        if start < 0 or end > peek64(buffer + _BYTES) or end - start < HEADER + 8:
            return ops.CORRUPT
        code = peek8(peek64(buffer + _TYPES) + event)
        kind = row_kind(code)
        end += source
        pos = first_image(source + start + HEADER + 8, end, kind, code >= 30, columns)
        if pos < 0:
            return -pos
        if peek64(state + _AT) > 0:
            pos = source + peek64(state + _AT)
        sequence = peek64(buffer + _BASE) + peek64(peek64(buffer + _POSITIONS) + 8 * event)
        time = peek64(peek64(buffer + _TIMES) + 8 * event)
        number = peek64(state + _NEXT_ROW) if sequence == peek64(state + _SEQUENCE) else np.int64(0)
        poke64(state + _SEQUENCE, sequence)
        images = 2 if kind == UPDATE else 1
        while pos < end:
            begin = pos
            slow_before = peek64(state + _SLOW)
            poke64(pending, 0)
            fits = row + images <= capacity
            pos = _row(pos, end, row, code, images, columns, layout, context) if fits else np.int64(-ops.FULL)
            if pos < 0:
                if pos != -ops.FULL:
                    return -pos
                if fits:
                    undo_rows(row, slow_before, columns, layout, state)
                poke64(state + _EVENT, entry)
                poke64(state + _AT, begin - source)
                poke64(state + _NEXT_ROW, number)
                return ops.FULL
            if peek64(pending) > 0:
                _count_invalid(pending, layout)
            for image in range(images):
                note_image(head, row + image, kind + image, sequence, number + image, time)
            row += images
            number += images
            poke64(state + _DONE_ROWS, row)
        poke64(state + _NEXT_ROW, number)
        poke64(state + _AT, 0)
        poke64(state + _EVENT, entry + 1)
    return ops.DONE
