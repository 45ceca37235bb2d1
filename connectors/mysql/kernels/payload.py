"""Kernels that plan and index the expansion of compressed events.

Formats: TRANSACTION_PAYLOAD in `libs/mysql/binlog/event/codecs/binary.cpp` (type, length, value fields as packed
integers, then the payload); MariaDB's compressed events in `sql/log_event.cc` (`binlog_buf_compress`: a byte 0x80 |
algorithm << 4 | size of the length, the uncompressed length big-endian, a zlib stream).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from connectors.mysql import events
from connectors.mysql.kernels import framing, kernel
from connectors.mysql.kernels.bits import number, u16, u32
from connectors.mysql.kernels.query_kind import query_kind
from connectors.shared.kernels.kernel_types import Bytes, Int, Ints

HEAD, FROM, TO, PLAIN, METHOD = 0, 1, 2, 3, 4
"""Columns of a plan.

They are the bytes copied unchanged (header and post-header), start and end of the compressed bytes in the buffer, their
uncompressed size, and the method.
"""
PLAN_WIDTH: Final = 5

COPY, ZSTD, STORED, ZLIB = 0, 1, 2, 3
"""Methods: an event that is not compressed; a payload of zstd frames; an uncompressed payload; MariaDB's zlib."""

_HEADER: Final = events.HEADER_SIZE
_PAYLOAD_TYPE: Final = events.TRANSACTION_PAYLOAD
_FIRST_COMPRESSED: Final = events.MARIADB_QUERY_COMPRESSED
_LAST_COMPRESSED: Final = events.MARIADB_DELETE_ROWS_COMPRESSED_V2
_FIRST_V2: Final = events.MARIADB_WRITE_ROWS_COMPRESSED_V2
_QUERY_HEAD: Final = events.HEADER_SIZE + events.QUERY_POST_HEADER


@kernel.entry
def plan_expansion(data: Bytes, start: Ints, end: Ints, kind: Bytes, plan: Ints) -> Int:
    """Fill `plan` (int64[n, PLAN_WIDTH]) for a buffer's events. Returns -1, or the index of a corrupt event."""
    for index in range(len(start)):
        row = plan[index]
        code = kind[index]
        row[HEAD], row[FROM], row[TO], row[PLAIN], row[METHOD] = end[index] - start[index], 0, 0, 0, COPY
        if code == _PAYLOAD_TYPE:
            if not _plan_payload(data, start[index] + _HEADER, end[index], row):
                return index
        elif _FIRST_COMPRESSED <= code <= _LAST_COMPRESSED:
            head = _compressed_head(data, start[index], end[index], code)
            if head < 0 or not _plan_compressed(data, head, end[index], row):
                return index
            row[HEAD] = head - start[index]
    return -1


@kernel
def _packed(data: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Read a length-encoded integer of the client protocol: (value, next offset); (0, -1) when it does not fit."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(data[at])
    if first < 251:
        return first, np.int64(at + 1)
    size = 2 if first == 252 else 3 if first == 253 else 8
    if first in (251, 255) or at + 1 + size > end:
        return np.int64(0), np.int64(-1)
    return number(data, at + 1, size), np.int64(at + 1 + size)


@kernel
def _plan_payload(data: Bytes, at: Int, end: Int, row: Ints) -> bool:
    size, method, plain = np.int64(-1), np.int64(-1), np.int64(-1)
    while True:
        field, at = _packed(data, at, end)
        if at < 0:
            return False
        if field == 0:
            break
        length, at = _packed(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return False
        value, after = _packed(data, at, at + length)
        if 1 <= field <= 3 and after != at + length:
            return False
        if field == 1:
            size = value
        elif field == 2:
            method = value
        elif field == 3:
            plain = value
        at += length
    if method == 255 and plain < 0:
        plain = size
    if size < 0 or size != end - at or plain < 0 or method not in (0, 255):
        return False
    row[HEAD], row[FROM], row[TO], row[PLAIN] = 0, at, end, plain
    row[METHOD] = ZSTD if method == 0 else STORED
    return True


@kernel
def _compressed_head(data: Bytes, start: Int, end: Int, code: Int) -> Int:
    """Return where the compressed part of a MariaDB event begins; -1 when the event is corrupt."""
    if code == _FIRST_COMPRESSED:
        if end - start < _QUERY_HEAD:
            return -1
        return start + _QUERY_HEAD + u16(data, start + _QUERY_HEAD - 2) + np.int64(data[start + _HEADER + 8]) + 1
    at = start + _HEADER + 8
    if code >= _FIRST_V2:
        if end - at < 2 or u16(data, at) < 2:
            return -1
        at += u16(data, at)
    columns, at = _packed(data, at, end)
    if at < 0 or columns < 0 or columns > 1 << 16:
        return -1
    bitmaps = 2 if code in (events.MARIADB_UPDATE_ROWS_COMPRESSED_V1, events.MARIADB_UPDATE_ROWS_COMPRESSED_V2) else 1
    return at + bitmaps * ((columns + 7) // 8)


@kernel
def _plan_compressed(data: Bytes, at: Int, end: Int, row: Ints) -> bool:
    if at >= end:
        return False
    first = np.int64(data[at])
    size = first & 7
    if first & 0xF0 != 0x80 or not 1 <= size <= 4 or at + 1 + size > end:
        return False
    plain = np.int64(0)
    for index in range(size):
        plain = plain << 8 | np.int64(data[at + 1 + index])
    row[FROM], row[TO], row[PLAIN], row[METHOD] = at + 1 + size, end, plain, ZLIB
    return True


@kernel.entry
def count_events(out: Bytes, plan: Ints, offset: Ints) -> Int:
    """Return the number of events that `assemble` will write, or -1 - index of an event whose expansion is corrupt."""
    total = np.int64(0)
    for index in range(len(plan)):
        if plan[index, METHOD] == COPY or plan[index, METHOD] == ZLIB:
            total += 1
            continue
        at, end = offset[index], offset[index] + plan[index, PLAIN]
        while at < end:
            size = u32(out, at + 9) if end - at >= _HEADER else np.int64(0)
            if size < _HEADER or size > end - at:
                return -1 - index
            total += 1
            at += size
    return total


@kernel.entry
def assemble(
    data: Bytes, start: Ints, end: Ints, kind: Bytes, end_position: Ints, commit_ms: Ints, kinds: Bytes,
    plan: Ints, offset: Ints, out: Bytes,
    to_start: Ints, to_end: Ints, to_kind: Bytes, to_position: Ints, to_commit: Ints, to_kinds: Bytes,
) -> Int:  # fmt: skip
    """Copy uncompressed events next to the decompressed parts that are in `out` already, and index all of them.

    Returns the number of events, or -1 - index of an event whose expansion is corrupt.
    """
    state = np.zeros(framing.STATE_SIZE, np.int64)
    count = 0
    for index in range(len(plan)):
        at, method = offset[index], plan[index, METHOD]
        if method in (ZSTD, STORED):
            last = at + plan[index, PLAIN]
            state[framing.AT], state[framing.POSITION], state[framing.COMMIT_MS] = (
                at,
                end_position[index],
                commit_ms[index],
            )
            found, stopped = framing.index_events(
                out, last, framing.PAYLOAD, 0, state, to_start[count:], to_end[count:], to_kind[count:],
                to_position[count:], to_commit[count:], to_kinds[count:], len(to_start) - count,
            )  # fmt: skip
            if state[framing.AT] != last or state[framing.EXPAND] != 0 or stopped not in (framing.MORE, framing.FULL):
                return -1 - index
            count += found
            continue
        size = plan[index, HEAD]
        for byte in range(size):
            out[at + byte] = data[start[index] + byte]
        to_start[count], to_end[count], to_kind[count] = at, at + size + plan[index, PLAIN], kind[index]
        to_position[count], to_commit[count], to_kinds[count] = end_position[index], commit_ms[index], kinds[index]
        if method == ZLIB:
            to_kind[count] = _plain_type(kind[index])
            _rewrite_header(out, at, to_kind[count], size + plan[index, PLAIN])
            if to_kind[count] == events.QUERY:
                found = query_kind(out, at, to_end[count])
                if found < 0:
                    return -1 - index
                to_kinds[count] = found
        count += 1
    return count


@kernel
def _plain_type(code: Int) -> Int:
    if code == _FIRST_COMPRESSED:
        return events.QUERY
    if code < _FIRST_V2:
        return code - events.MARIADB_WRITE_ROWS_COMPRESSED_V1 + events.WRITE_ROWS_V1
    return code - _FIRST_V2 + events.WRITE_ROWS_V2


@kernel
def _rewrite_header(out: Bytes, at: Int, code: Int, size: Int) -> None:
    out[at + 4] = code
    for byte in range(4):
        out[at + 9 + byte] = size >> (8 * byte) & 0xFF
