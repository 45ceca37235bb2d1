"""Finds where the values of many row images are: the first half of decoding rows column by column.

An image is read in steps, from one value of variable length, or that may be NULL, to the next. The bytes between two
such values have the same size in every image. The places after all steps are noted as `places[step, image]`. Every
value of a column can be computed from one of these, and `columns` needs no bounds checks: they were all made here.

Images: see `image`. All arguments are addresses and numbers; for records see `ops`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.ops import BUFFER, CONTEXT, IMAGE, STATE, STEP, offset
from connectors.mysql.kernels.rows_event import HEADER, PARTIAL_UPDATE, UPDATE, first_image, note_image, row_kind
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek16, peek24, peek32, peek64, poke64, prefetch

_AHEAD = 8
"""How many events ahead the first bytes are prefetched."""
_BYTES, _STARTS, _ENDS, _TYPES = (offset(BUFFER, field) for field in ("size", "starts", "ends", "types"))
_POSITIONS, _TIMES, _BASE = offset(BUFFER, "positions"), offset(BUFFER, "times"), offset(BUFFER, "base")
_ORDER, _LAST = offset(BUFFER, "order"), offset(BUFFER, "last")
_STEPS, _STEP_COUNT, _REST, _REQUIRED = (offset(IMAGE, field) for field in ("steps", "step_count", "rest", "required"))
_PLACES, _STRIDE, _MOST, _ENOUGH = (offset(IMAGE, field) for field in ("places", "stride", "most", "enough_bytes"))
_BEFORE, _WIDTH, _PREFIX = offset(STEP, "before"), offset(STEP, "width"), offset(STEP, "prefix")
_NULLABLE, _COLUMN = offset(STEP, "nullable"), offset(STEP, "column")
_STEP_SIZE = STEP.itemsize
_EVENT, _AT, _DONE_ROWS = offset(STATE, "event"), offset(STATE, "at"), offset(STATE, "rows")
_SEQUENCE, _NEXT_ROW = offset(STATE, "sequence"), offset(STATE, "next_row")
_SOURCE, _LIMIT, _STATE, _IMAGE = (offset(CONTEXT, field) for field in ("source", "limit", "state", "image"))


@kernel.inlined
def _size(at: Int, prefix: Int) -> Int:
    """Read a length field of 1 to 4 bytes."""
    if prefix == 1:
        return peek8(at)
    if prefix == 2:
        return peek16(at)
    return peek32(at) if prefix == 4 else peek24(at)


@kernel.inlined
def _nulls(at: Int, columns: Int, required: Int) -> Int:
    """Return 0 when no value is NULL, 1 when some are, -1 when one is in a column that the log calls NOT NULL."""
    found, wrong = np.int64(0), np.int64(0)
    for i in range((columns + 7) >> 3):
        bits = peek8(at + i)
        found |= bits
        wrong |= bits & peek8(required + i)
    if wrong != 0:
        return np.int64(-1)
    return np.int64(1 if found != 0 else 0)


@kernel.inlined
def _walk(pos: Int, end: Int, columns: Int, image: Int, places: Int) -> Int:
    """Note the places of one image. Returns the address after it, or 0 when it does not fit in its event."""
    nulls = pos
    pos += (columns + 7) >> 3
    if pos > end:
        return np.int64(0)
    some = _nulls(nulls, columns, peek64(image + _REQUIRED))
    if some < 0:
        return np.int64(0)
    stride = peek64(image + _STRIDE)
    poke64(places, pos)
    step = peek64(image + _STEPS)
    for _ in range(peek64(image + _STEP_COUNT)):
        places += stride
        pos += peek64(step + _BEFORE)
        c = peek64(step + _COLUMN)
        if some and peek64(step + _NULLABLE) and peek8(nulls + (c >> 3)) >> (c & 7) & 1:
            poke64(places, pos)
            step += _STEP_SIZE
            continue
        prefix = peek64(step + _PREFIX)
        if prefix == 0:
            pos += peek64(step + _WIDTH)
        else:
            if end - pos < prefix:
                return np.int64(0)
            size = _size(pos, prefix)
            pos += prefix
            if size > end - pos:
                return np.int64(0)
            pos += size
        poke64(places, pos)
        step += _STEP_SIZE
    pos += peek64(image + _REST)
    return pos if pos <= end else np.int64(0)


@kernel.entry
def place_images(buffer: Int, columns: Int, head: Int, capacity: Int, context: Int, goal: Int) -> Int:
    """Find the values of the next images of one table and enter the images into the block's head.

    Returns how many, 0 when none can be placed. Arguments as for `rows.decode_rows`. goal: a STATE record; its event,
    at, sequence and next_row receive what will be true once these images are decoded. Only whole rows of valid events
    are placed, and only where 64 bytes after them can be read, too.
    """
    source, limit = peek64(context + _SOURCE), peek64(context + _LIMIT)
    state, image = peek64(context + _STATE), peek64(context + _IMAGE)
    starts, ends, order, last = (
        peek64(buffer + _STARTS), peek64(buffer + _ENDS), peek64(buffer + _ORDER), peek64(buffer + _LAST)
    )  # fmt: skip
    places, enough = peek64(image + _PLACES), peek64(image + _ENOUGH)
    first = peek64(state + _DONE_ROWS)
    most = min(peek64(image + _MOST), capacity - first)
    entry, at = peek64(state + _EVENT), peek64(state + _AT)
    sequence, number = peek64(state + _SEQUENCE), peek64(state + _NEXT_ROW)
    count, used, whole = np.int64(0), np.int64(0), True
    # The head of the previous event: with up to 16 columns (40 for inserts and deletes) it is compared, not read.
    known_code, known_size, known_shift, known = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    while whole and entry < last:
        event = peek64(order + 8 * entry)
        ahead = source + peek64(starts + 8 * peek64(order + 8 * min(entry + _AHEAD, last - 1)))
        prefetch(ahead)
        prefetch(ahead + 64)
        prefetch(ahead + 128)
        prefetch(ahead + 192)
        prefetch(ahead + 256)
        start, end = peek64(starts + 8 * event), peek64(ends + 8 * event)
        code = peek8(peek64(buffer + _TYPES) + event)
        if start < 0 or end > peek64(buffer + _BYTES) or end - start < HEADER + 8 or code == PARTIAL_UPDATE:
            break
        end += source
        if end > limit:
            break
        kind = row_kind(code)
        body = source + start + HEADER + 8
        if code == known_code and end - body >= known_size and peek64(body) << known_shift == known:
            pos = body + known_size
        else:
            pos = first_image(body, end, kind, code >= 30, columns)
            if pos < 0:
                break
            if pos - body <= 8:
                known_code, known_size, known_shift = code, pos - body, 64 - 8 * (pos - body)
                known = peek64(body) << known_shift
        if at > 0:
            pos = source + at
        if sequence != peek64(buffer + _BASE) + peek64(peek64(buffer + _POSITIONS) + 8 * event):
            sequence, number = peek64(buffer + _BASE) + peek64(peek64(buffer + _POSITIONS) + 8 * event), np.int64(0)
        time = peek64(peek64(buffer + _TIMES) + 8 * event)
        images = 2 if kind == UPDATE else 1
        while pos < end:
            behind = pos
            if count + images <= most and used < enough:
                for i in range(images):
                    if behind > 0:
                        behind = _walk(behind, end, columns, image, places + 8 * (count + i))
                        note_image(head, first + count + i, kind + i, sequence, number + i, time)
            if behind <= pos:
                whole = False
                break
            used += behind - pos
            pos = behind
            count += images
            number += images
        at = np.int64(0) if whole else pos - source
        if whole:
            entry += 1
    poke64(goal + _EVENT, entry)
    poke64(goal + _AT, at)
    poke64(goal + _SEQUENCE, sequence)
    poke64(goal + _NEXT_ROW, number)
    return count
