"""Kernels over GTID events: commit times for the index, and runs of transaction numbers without Python per event.

Layouts: `libs/mysql/binlog/event/control_events.h` (`Gtid_event`; the tagged form with `mysql/serialization`), and
MariaDB `sql/log_event.h` (`Gtid_log_event`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from connectors.mysql import events
from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.bits import number, varlen
from connectors.shared.kernels.kernel_types import Bytes, Int, Ints

_BODY: Final = events.HEADER_SIZE
_PLAIN_SIZE: Final = 42
"""flags 1, source id 16, number 8, logical clock type 1, last committed 8, sequence number 8."""
_LOGICAL_CLOCK: Final = 2
_HAS_ORIGINAL: Final = 1 << 55
_SERIALIZATION: Final = 1
NO_TIME: Final = -1
BAD: Final = -2


@kernel.entry
def untagged_commit_us(data: Bytes, start: Int, end: Int) -> Int:
    """Return the immediate commit time of a GTID or ANONYMOUS_GTID event in microseconds.

    NO_TIME before MySQL 8, BAD for a corrupt event.
    """
    body = start + _BODY
    if end - body < 25:
        return BAD
    if end - body < _PLAIN_SIZE + 7 or data[body + 25] != _LOGICAL_CLOCK:
        return NO_TIME
    return number(data, body + _PLAIN_SIZE, 7) & (_HAS_ORIGINAL - 1)


@kernel.entry
def tagged_fields(data: Bytes, start: Int, end: Int, source: Bytes, out: Ints) -> Int:
    """Read a GTID_TAGGED event. Returns false when it is corrupt.

    Args:
        source: uint8[16], receives the source id.
        out: int64[4], receives the transaction number, offset of the tag, its length, and immediate commit time in
            microseconds.
    """
    out[0] = out[1] = out[2] = 0
    out[3] = NO_TIME
    at = start + _BODY
    version, at = varlen(data, at, end)
    if at < 0 or version != _SERIALIZATION:
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


@kernel.entry
def find_runs(
    data: Bytes, start: Ints, end: Ints, kind: Bytes, first: Int, last: Int, runs: Ints
) -> Int:  # fmt: skip
    """Find runs of consecutive transactions of one source in the events from `first` up to `last`.

    Writes (event, first number, last number) rows to `runs`. For MariaDB, a run is of one domain and server and may
    have gaps. Returns the number of runs, or -1 - index of a corrupt event.
    """
    source, previous = np.zeros(16, np.uint8), np.zeros(16, np.uint8)
    fields = np.zeros(4, np.int64)
    count, tag_at, tag_size, last_kind = 0, np.int64(0), np.int64(0), 0
    for index in range(first, last):
        code = kind[index]
        if code != events.GTID and code != events.GTID_TAGGED and code != events.MARIADB_GTID:
            continue
        if not _identity(data, start[index], end[index], code, source, fields):
            return -1 - index
        same = count > 0 and code == last_kind and fields[2] == tag_size
        for byte in range(16):
            same = same and source[byte] == previous[byte]
        for byte in range(fields[2] if same else 0):
            same = same and data[fields[1] + byte] == data[tag_at + byte]
        if same and (code == events.MARIADB_GTID or fields[0] == runs[count - 1, 2] + 1):
            runs[count - 1, 2] = fields[0]
            continue
        runs[count, 0], runs[count, 1], runs[count, 2] = index, fields[0], fields[0]
        for byte in range(16):
            previous[byte] = source[byte]
        tag_at, tag_size, last_kind = fields[1], fields[2], code
        count += 1
    return count


@kernel
def _identity(data: Bytes, start: Int, end: Int, code: Int, source: Bytes, fields: Ints) -> Int:
    """Read the source id and number of any GTID event, into the same places as `tagged_fields`."""
    if code == events.GTID_TAGGED:
        return tagged_fields(data, start, end, source, fields)
    fields.fill(0)
    body = start + _BODY
    if code == events.MARIADB_GTID:
        if end - body < 13:
            return False
        fields[0] = number(data, body, 8)
        source.fill(0)
        for i in range(4):
            source[i], source[4 + i] = data[body + 8 + i], data[start + 5 + i]
        return True
    if end - body < 25:
        return False
    for i in range(16):
        source[i] = data[body + 1 + i]
    fields[0] = number(data, body + 17, 8)
    return True
