"""Reads the head of a ROWS event, up to its first row image.

Rows event (MySQL `libs/mysql/binlog/event/rows_event.h`): table id (6), flags (2), since version 2 the length of extra
data (2, included) and that data, number of columns, bitmap of columns present, for updates a second bitmap, then row
images to the end. The after image of a PARTIAL_UPDATE_ROWS event starts with its value options and, if they say so, one
bit per JSON column: its value is then a list of changes to the before image's document.

All arguments are addresses and numbers; for records see `ops`.
"""

from __future__ import annotations

import numpy as np

from connectors.mysql.kernels import kernel, ops
from connectors.mysql.kernels.ops import HEAD, offset
from connectors.shared.kernels.kernel_types import Int
from connectors.shared.kernels.memory import peek8, peek16, peek64, poke8, poke32, poke64

HEADER = 19
UPDATE, DELETE = 1, 3
PARTIAL_UPDATE = 39
"""Type of the event whose after images may have changes to JSON documents."""
_KINDS, _SEQUENCES = offset(HEAD, "kinds"), offset(HEAD, "sequences")
_ROWS, _TIMES = offset(HEAD, "rows"), offset(HEAD, "times")


@kernel
def _packed(at: Int, end: Int) -> Int:
    """Read a length-encoded integer below 65536, or -1.

    A rows event's column count and value options are never larger.
    """
    if at >= end:
        return -1
    first = peek8(at)
    if first < 251:
        return first
    if first == 252 and end - at >= 3:
        return peek16(at + 1)
    return -1


@kernel
def _all_present(at: Int, columns: Int) -> bool:
    """Return whether the first `columns` bits of a bitmap are set."""
    for i in range(columns >> 3):
        if peek8(at + i) != 0xFF:
            return False
    full = (1 << (columns & 7)) - 1
    return bool(full == 0 or peek8(at + (columns >> 3)) & full == full)


@kernel
def first_image(at: Int, end: Int, kind: Int, version2: Int, columns: Int) -> Int:
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
    for _ in range(2 if kind == UPDATE else 1):
        if end - at < size:
            return -ops.CORRUPT
        if not _all_present(at, columns):
            return -ops.PARTIAL_IMAGE
        at += size
    return at


@kernel.entry
def changes_end(at: Int, end: Int, json_columns: Int) -> Int:
    """Return the address after the value options and change bits of a PARTIAL_UPDATE_ROWS image, 0 when corrupt."""
    options = _packed(at, end)
    if options < 0 or options > 1:
        return 0
    size = 1 + (options * (json_columns + 7) >> 3)
    return at + size if end - at >= size else 0


@kernel.inlined
def row_kind(code: Int) -> Int:
    """Return the row kind of the first image in events of this type."""
    if code == 31 or code == 24 or code == PARTIAL_UPDATE:
        return np.int64(UPDATE)
    return np.int64(DELETE if code == 32 or code == 25 else 0)


@kernel.inlined
def note_image(head: Int, row: Int, kind: Int, sequence: Int, number: Int, time: Int) -> None:
    """Enter an image's kind, sequence, number and time into the block's head, a HEAD record."""
    poke8(peek64(head + _KINDS) + row, kind)
    poke64(peek64(head + _SEQUENCES) + 8 * row, sequence)
    poke32(peek64(head + _ROWS) + 4 * row, number)
    poke64(peek64(head + _TIMES) + 8 * row, time)
