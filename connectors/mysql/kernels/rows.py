"""The row kernel: ROWS events of one table to column buffers, no Python per row or event.

Rows event (MySQL `libs/mysql/binlog/event/rows_event.h`): table id (6), flags (2), since version 2 the length of extra
data (2, counted in) and that data, number of columns, bitmap of columns present, for updates a second bitmap, then row
images to the end. The after image of a PARTIAL_UPDATE_ROWS event starts with its value options and, if they say so, one
bit per JSON column: that value is a list of changes to the before image's document.

All arguments are addresses and numbers; records: see `ops`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from connectors.mysql.kernels import ops
from connectors.mysql.kernels.image import decode_image
from connectors.mysql.kernels.kernel_types import Int
from connectors.mysql.kernels.memory import peek8, peek16, peek32, peek64, poke8, poke32, poke64, prefetch
from connectors.mysql.kernels.ops import COLUMN, CONTEXT, FAULT, HEAD, STATE, offset

_HEADER = 19
_AHEAD = 4
"""Events whose first bytes are asked for in advance."""
_UPDATE, _DELETE = 1, 3
_SIZE = COLUMN.itemsize
_KINDS, _SEQUENCES = offset(HEAD, "kinds"), offset(HEAD, "sequences")
_ROWS, _TIMES = offset(HEAD, "rows"), offset(HEAD, "times")
_EVENT, _AT, _DONE_ROWS = offset(STATE, "event"), offset(STATE, "at"), offset(STATE, "rows")
_SEQUENCE, _NEXT_ROW = offset(STATE, "sequence"), offset(STATE, "next_row")
_NULLS_KNOWN, _SLOW = offset(STATE, "nulls_known"), offset(STATE, "slow")
_FAULT_EVENT, _FAULT_COLUMN = offset(FAULT, "event"), offset(FAULT, "column")
_INVALID, _VALUES, _WIDTH = offset(COLUMN, "invalid"), offset(COLUMN, "values"), offset(COLUMN, "width")
_DATA, _DATA_AT = offset(COLUMN, "data"), offset(COLUMN, "data_at")
_SOURCE, _LIMIT, _JSON_COLUMNS = offset(CONTEXT, "source"), offset(CONTEXT, "limit"), offset(CONTEXT, "json_columns")
_PENDING, _STATE, _FAULT = offset(CONTEXT, "pending"), offset(CONTEXT, "state"), offset(CONTEXT, "fault")


@njit(cache=True, nogil=True)
def _packed(at: Int, end: Int) -> Int:
    """Length-encoded integer below 65536, or -1; a row event's column count and value options are never longer."""
    if at >= end:
        return -1
    first = peek8(at)
    if first < 251:
        return first
    if first == 252 and end - at >= 3:
        return peek16(at + 1)
    return -1


@njit(cache=True, nogil=True)
def _all_present(at: Int, columns: Int) -> bool:
    """True when the first `columns` bits of a bitmap are set."""
    for i in range(columns >> 3):
        if peek8(at + i) != 0xFF:
            return False
    full = (1 << (columns & 7)) - 1
    return bool(full == 0 or peek8(at + (columns >> 3)) & full == full)


@njit(cache=True, nogil=True)
def _first_image(at: Int, end: Int, kind: Int, version2: Int, columns: Int) -> Int:
    """Read the rest of a rows event's head. Returns the address of the first row image, or minus the return code."""
    if version2:
        if end - at < 2:
            return -ops.CORRUPT
        at += max(2, peek16(at))
    count = _packed(at, end)
    if count < 0:
        return -ops.CORRUPT
    at += 1 if count < 251 else 3
    if count != columns:
        return -ops.WRONG_COLUMNS
    size = (columns + 7) >> 3
    for _ in range(2 if kind == _UPDATE else 1):
        if end - at < size:
            return -ops.CORRUPT
        if not _all_present(at, columns):
            return -ops.PARTIAL_IMAGE
        at += size
    return at


@njit(cache=True, nogil=True)
def _undo(first_row: Int, slow_before: Int, columns: Int, layout: Int, state: Int) -> None:
    """Take back a row that did not fit: text written for it, and entries of the slow list. NULL counts are lost."""
    for c in range(columns):
        column = layout + c * _SIZE
        width = peek64(column + _WIDTH)
        if width < 0:
            used = peek32(peek64(column + _VALUES) + 4 * first_row)
            poke64(column + _DATA_AT, peek64(column + _DATA) + (used * 4 if width == ops.FLOATS_OUT else used))
    poke64(state + _SLOW, slow_before)
    poke64(state + _NULLS_KNOWN, 0)


@njit(cache=True, nogil=True)
def _changes_end(at: Int, end: Int, json_columns: Int) -> Int:
    """Address behind the value options and change bits of a PARTIAL_UPDATE_ROWS after image, 0 when corrupt."""
    options = _packed(at, end)
    if options < 0 or options > 1:
        return 0
    size = 1 + (options * (json_columns + 7) >> 3)
    return at + size if end - at >= size else 0


@njit(cache=True, nogil=True)
def _count_invalid(pending: Int, layout: Int) -> None:
    for i in range(1, peek64(pending) + 1):
        place = layout + peek64(pending + 8 * i) * _SIZE + _INVALID
        poke64(place, peek64(place) + 1)


@njit(cache=True, nogil=True)
def _kind(code: Int) -> Int:
    """Row kind of an event type's first image."""
    if code == 31 or code == 24 or code == 39:
        return np.int64(_UPDATE)
    return np.int64(_DELETE if code == 32 or code == 25 else 0)


@njit(cache=True, nogil=True)
def _changed_image(pos: Int, end: Int, row: Int, columns: Int, layout: Int, context: Int, limit: Int) -> Int:
    """The after image of a PARTIAL_UPDATE_ROWS event; answers as `decode_image`."""
    behind = _changes_end(pos, end, peek64(context + _JSON_COLUMNS))
    if behind == 0:
        return -ops.CORRUPT
    return decode_image(behind, end, row, pos + 1 if behind > pos + 1 else 0, 1, columns, layout, context, limit)


@njit(cache=True, nogil=True)
def decode_rows(
    size: Int,
    starts: Int,
    ends: Int,
    types: Int,
    positions: Int,
    times: Int,
    base: Int,
    order: Int,
    last: Int,
    columns: Int,
    layout: Int,
    head: Int,
    capacity: Int,
    context: Int,
) -> Int:
    """Decode the rows events order[state.event:last] of one table into an open arena.

    size, starts, ends, types, positions, times: the chunk. base: sequence of position 0 of its file. order: event
    numbers. layout: COLUMN records; head: a HEAD record; capacity: rows that fit. context: a CONTEXT record.

    Returns DONE; FULL when the block is full (call again with a new arena: state says where to go on); else a code
    whose details are in `fault`.
    """
    source = peek64(context + _SOURCE)
    limit = peek64(context + _LIMIT)
    pending = peek64(context + _PENDING)
    state = peek64(context + _STATE)
    fault = peek64(context + _FAULT)
    kinds, sequences = peek64(head + _KINDS), peek64(head + _SEQUENCES)
    rows, stamps = peek64(head + _ROWS), peek64(head + _TIMES)
    row = peek64(state + _DONE_ROWS)
    for entry in range(peek64(state + _EVENT), last):
        event = peek64(order + 8 * entry)
        ahead = source + peek64(starts + 8 * peek64(order + 8 * min(entry + _AHEAD, last - 1)))
        prefetch(ahead)
        prefetch(ahead + 64)
        prefetch(ahead + 128)
        poke64(fault + _FAULT_EVENT, event)
        poke64(fault + _FAULT_COLUMN, -1)
        start = peek64(starts + 8 * event)
        end = peek64(ends + 8 * event)
        if start < 0 or end > size or end - start < _HEADER + 8:
            return ops.CORRUPT
        code = peek8(types + event)
        kind = _kind(code)
        end += source
        pos = _first_image(source + start + _HEADER + 8, end, kind, code >= 30, columns)
        if pos < 0:
            return -pos
        if peek64(state + _AT) > 0:
            pos = source + peek64(state + _AT)
        sequence, time = base + peek64(positions + 8 * event), peek64(times + 8 * event)
        number = np.int64(0)
        if sequence == peek64(state + _SEQUENCE):
            number = peek64(state + _NEXT_ROW)
        poke64(state + _SEQUENCE, sequence)
        images = 2 if kind == _UPDATE else 1
        while pos < end:
            begin = pos
            slow_before = peek64(state + _SLOW)
            poke64(pending, 0)
            if row + images > capacity:
                pos = np.int64(-ops.FULL)
            else:
                pos = decode_image(pos, end, row, 0, 0, columns, layout, context, limit)
                if images == 2 and pos > 0:
                    if code == 39:
                        pos = _changed_image(pos, end, row + 1, columns, layout, context, limit)
                    else:
                        pos = decode_image(pos, end, row + 1, 0, 1, columns, layout, context, limit)
            if pos < 0:
                if pos != -ops.FULL:
                    return -pos
                if row + images <= capacity:
                    _undo(row, slow_before, columns, layout, state)
                poke64(state + _EVENT, entry)
                poke64(state + _AT, begin - source)
                poke64(state + _NEXT_ROW, number)
                return ops.FULL
            if peek64(pending) > 0:
                _count_invalid(pending, layout)
            for image in range(images):
                at = row + image
                poke8(kinds + at, kind + image)
                poke64(sequences + 8 * at, sequence)
                poke32(rows + 4 * at, number + image)
                poke64(stamps + 8 * at, time)
            row += images
            number += images
            poke64(state + _DONE_ROWS, row)
        poke64(state + _NEXT_ROW, number)
        poke64(state + _AT, 0)
        poke64(state + _EVENT, entry + 1)
    return ops.DONE
