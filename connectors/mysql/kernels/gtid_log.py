"""Kernels over GTID events: commit times for the index, and runs of transaction numbers without per-event Python.

Layouts: `libs/mysql/binlog/event/control_events.h` (`Gtid_event`; the tagged form through `mysql/serialization`), and
MariaDB `sql/log_event.h` (`Gtid_log_event`).
"""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from connectors.mysql import events
from connectors.mysql.kernels.bits import number, varlen

_BODY: Final = events.HEADER_SIZE
_PLAIN_SIZE: Final = 42
"""flags 1, source id 16, number 8, logical clock type 1, last committed 8, sequence number 8."""
_LOGICAL_CLOCK: Final = 2
_HAS_ORIGINAL: Final = 1 << 55
NO_TIME: Final = -1
BAD: Final = -2

SOURCE, TAG, NUMBER, COMMIT, SERVER = 0, 1, 2, 3, 4


@njit(cache=True, nogil=True)
def plain_commit_us(data: Any, start: int, end: int) -> int:
    """Immediate commit time of a GTID or ANONYMOUS_GTID event, microseconds; NO_TIME before MySQL 8, BAD if too short."""
    body = start + _BODY
    if end - body < 25:
        return BAD
    if end - body < _PLAIN_SIZE + 7 or data[body + 25] != _LOGICAL_CLOCK:
        return NO_TIME
    return number(data, body + _PLAIN_SIZE, 7) & (_HAS_ORIGINAL - 1)


@njit(cache=True, nogil=True)
def tagged_fields(data: Any, start: int, end: int, source: Any, out: Any) -> bool:
    """Read a GTID_TAGGED event. False when it is corrupt.

    Args:
        source: uint8[16], receives the source id.
        out: int64[4]: transaction number, offset of the tag, its length, immediate commit time in microseconds.
    """
    out[0] = out[1] = out[2] = 0
    out[3] = NO_TIME
    at = start + _BODY
    version, at = varlen(data, at, end)
    if at < 0 or version != 0:
        return False
    _, at = varlen(data, at, end)
    if at >= 0:
        _, at = varlen(data, at, end)
    seen = 0
    while 0 <= at < end:
        field, at = varlen(data, at, end)
        if at < 0:
            return False
        if field == 1:
            for index in range(16):
                byte, at = varlen(data, at, end)
                if at < 0 or byte > 255 or byte < 0:
                    return False
                source[index] = byte
        elif field == 3:
            size, at = varlen(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return False
            out[1], out[2] = at, size
            at += size
        else:
            value, at = varlen(data, at, end)
            if field == 2:
                out[0] = value >> 1
            elif field == 6:
                out[3] = value
                return at >= 0 and seen == 7
        if 1 <= field <= 3:
            seen |= 1 << (field - 1)
    return False
