"""One pass over raw log bytes: finds whole events, verifies checksums and lengths, and fills a buffer's index.

The same pass reads three framings: a binary log file (events without gaps), the replication stream (client packets:
3-byte length, sequence number, a zero byte, the event; events of 16 MB and more continue in further packets), and the
inside of a TRANSACTION_PAYLOAD (events without gaps, no checksum, no positions of their own).

It stops where Python has to decide: at control events, at an end-of-file or error packet, at corrupt bytes. It never
reads or writes outside `buffer[0:limit]`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from connectors.mysql import events
from connectors.mysql.kernels import kernel
from connectors.mysql.kernels.crc import crc32
from connectors.mysql.kernels.gtid_log import BAD, NO_TIME, tagged_fields, untagged_commit_us
from connectors.mysql.kernels.query_kind import query_kind
from connectors.shared.kernels.kernel_types import Bytes, Int, Ints
from connectors.shared.kernels.memory import address, peek8, peek24, peek32, poke8

FILE, STREAM, PAYLOAD = 0, 1, 2
"""Framings."""

AT, POSITION, COMMIT_MS, SEQUENCE, EXPAND, ERROR_AT = 0, 1, 2, 3, 4, 5
STATE_SIZE: Final = 6
"""Slots of the int64 state that is kept between calls.

They are the next offset, its position in the file, commit time of the open transaction (NO_TIME when unknown), next
packet sequence number, whether an event needs expansion, and the offset of an error.
"""

MORE, FULL, CONTROL, NOT_AN_EVENT = 0, 1, 2, 3
"""Why the pass stopped.

More bytes are needed; the index is full; the last entry is a control event; a packet has no event.
"""
BAD_LENGTH, BAD_CHECKSUM, BAD_POSITION, BAD_SEQUENCE, BAD_GTID, BAD_QUERY = 10, 11, 12, 13, 14, 15
_FOUND: Final = -1

_DATA, _CONTROL, _EXPAND, _QUERY, _GTID, _TAGGED, _MARIADB_GTID, _OWN_TIME = 1, 0, 2, 3, 4, 5, 6, 7


def _roles() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the role of each event type.

    Types not named here are control events, so Python refuses or processes them.
    """
    roles = np.full(256, _CONTROL, np.uint8)
    roles[
        [
            events.INTVAR, events.RAND, events.USER_VAR, events.XID, events.BEGIN_LOAD_QUERY, events.APPEND_BLOCK,
            events.DELETE_FILE, events.EXECUTE_LOAD_QUERY, events.TABLE_MAP, events.WRITE_ROWS_V1,
            events.UPDATE_ROWS_V1, events.DELETE_ROWS_V1, events.ROWS_QUERY, events.WRITE_ROWS_V2,
            events.UPDATE_ROWS_V2, events.DELETE_ROWS_V2, events.TRANSACTION_CONTEXT, events.VIEW_CHANGE,
            events.XA_PREPARE, events.PARTIAL_UPDATE_ROWS, events.MARIADB_ANNOTATE_ROWS,
        ]
    ] = _DATA  # fmt: skip
    roles[[events.STOP, events.PREVIOUS_GTIDS, events.MARIADB_BINLOG_CHECKPOINT]] = _OWN_TIME
    roles[events.TRANSACTION_PAYLOAD] = _EXPAND
    roles[events.MARIADB_QUERY_COMPRESSED : events.MARIADB_DELETE_ROWS_COMPRESSED_V2 + 1] = _EXPAND
    roles[events.QUERY] = _QUERY
    roles[[events.GTID, events.ANONYMOUS_GTID]] = _GTID
    roles[events.GTID_TAGGED] = _TAGGED
    roles[events.MARIADB_GTID] = _MARIADB_GTID
    return roles


_ROLES: Final = _roles()


@kernel.entry
def index_events(
    buffer: Bytes, limit: Int, framing: Int, cut: Int, state: Ints, start: Ints, end: Ints, kind: Bytes,
    end_position: Ints, commit_ms: Ints, kinds: Bytes, capacity: Int,
) -> tuple[Int, Int]:  # fmt: skip
    """Index whole events from `state[AT]` on. Returns (entries written, why it stopped).

    Args:
        buffer: uint8; written only to join an event that came in several packets.
        limit: bytes of `buffer` that are filled.
        framing: FILE, STREAM or PAYLOAD.
        cut: 4 where events end with a CRC-32, which is verified and cut off, except for control events, where Python
            does so; 0 for events without.
        state: int64[STATE_SIZE], read and updated; AT is left after the last entry, or at what could not be read.
        start, end, kind, end_position, commit_ms, kinds: arrays of `capacity` entries to fill; see `ReceiveBuffer`.
    """
    data = address(buffer)
    source, fields = np.empty(16, np.uint8), np.empty(4, np.int64)
    count = 0
    while True:
        at = state[AT]
        if count >= capacity:
            return count, FULL
        first, last, after, packets, code = _bounds(data, at, limit, framing, state[SEQUENCE])
        if code == MORE:
            return count, MORE
        if code != _FOUND:
            state[ERROR_AT] = at
            return count, code
        state[SEQUENCE] = (state[SEQUENCE] + packets) & 0xFF
        size = last - first
        role = _ROLES[peek8(data + first + 4)]
        body_end = last - cut
        if role != _CONTROL:
            if size < events.HEADER_SIZE + cut:
                state[ERROR_AT] = first
                return count, BAD_LENGTH
            if cut and crc32(data + first, size - cut, data) != peek32(data + body_end):
                state[ERROR_AT] = first
                return count, BAD_CHECKSUM
            if framing != PAYLOAD:
                position = _position(peek32(data + first + 13), state[POSITION], size, framing)
                if position < 0:
                    state[ERROR_AT] = first
                    return count, BAD_POSITION
                state[POSITION] = position
        start[count], end[count], kind[count] = first, body_end, peek8(data + first + 4)
        end_position[count] = state[POSITION]
        kinds[count] = 0
        if role == _CONTROL:
            end[count] = last
            state[AT] = after
            return count + 1, CONTROL
        if role == _QUERY:
            found = query_kind(buffer, first, body_end)
            if found < 0:
                state[ERROR_AT] = first
                return count, BAD_QUERY
            kinds[count] = found
        elif role == _EXPAND:
            state[EXPAND] = 1
        elif role == _GTID:
            time = untagged_commit_us(buffer, first, body_end)
            if time == BAD:
                state[ERROR_AT] = first
                return count, BAD_GTID
            state[COMMIT_MS] = NO_TIME if time <= 0 else time // 1000
        elif role == _TAGGED:
            if not tagged_fields(buffer, first, body_end, source, fields):
                state[ERROR_AT] = first
                return count, BAD_GTID
            state[COMMIT_MS] = NO_TIME if fields[3] <= 0 else fields[3] // 1000
        elif role == _MARIADB_GTID:
            if body_end - first < events.HEADER_SIZE + 13:
                state[ERROR_AT] = first
                return count, BAD_GTID
            state[COMMIT_MS] = NO_TIME
        if role == _OWN_TIME or state[COMMIT_MS] == NO_TIME:
            commit_ms[count] = peek32(data + first) * 1000
        else:
            commit_ms[count] = state[COMMIT_MS]
        count += 1
        state[AT] = after


@kernel.inlined
def _position(stated: Int, before: Int, size: Int, framing: Int) -> Int:
    """Return the true position after the event; -1 when the event's own position contradicts it.

    The header holds the position modulo 2**32. In a file it must be the offset; a stream may skip events of the file.
    """
    expected = before + size
    if stated == expected & 0xFFFFFFFF or stated == 0:
        return expected
    step = (stated - before) & 0xFFFFFFFF
    return before + step if framing != FILE and step >= size else np.int64(-1)


@kernel.inlined
def _bounds(data: Int, at: Int, limit: Int, framing: Int, sequence: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Find the next event.

    Returns (first byte, byte after it, offset after its framing, packets, _FOUND or the reason to stop). data: address
    of the buffer. sequence: number that the next packet must have.
    """
    first, last, after, packets, code = at, at, at, np.int64(0), np.int64(_FOUND)
    if framing == STREAM:
        after, packets, code = _packets(data, at, limit, sequence)
        first, last = at + 5, after
        if code == _FOUND:
            if packets > 1:
                last = _join(data, at, packets)
            if last - first < events.HEADER_SIZE or peek32(data + first + 9) != last - first:
                code = np.int64(BAD_LENGTH)
    elif limit - at < events.HEADER_SIZE:
        code = np.int64(MORE)
    else:
        size = peek32(data + at + 9)
        if size < events.HEADER_SIZE:
            code = np.int64(BAD_LENGTH)
        elif size > limit - at:
            code = np.int64(MORE)
        else:
            last, after = at + size, at + size
    return first, last, after, packets, code


@kernel.inlined
def _packets(data: Int, at: Int, limit: Int, sequence: Int) -> tuple[Int, Int, Int]:
    """Find one event in one or more packets: (offset after the last one, packets, _FOUND or the reason to stop)."""
    after, packets = at, np.int64(0)
    while True:
        if limit - after < 4:
            return after, packets, np.int64(MORE)
        size = peek24(data + after)
        if peek8(data + after + 3) != (sequence + packets) & 0xFF:
            return after, packets, np.int64(BAD_SEQUENCE)
        if packets == 0 and (size == 0 or (limit - after > 4 and peek8(data + after + 4) != 0)):
            return after, packets, np.int64(NOT_AN_EVENT)
        if limit - after - 4 < size:
            return after, packets, np.int64(MORE)
        after += 4 + size
        packets += 1
        if size < events.MAX_PACKET:
            return after, packets, np.int64(_FOUND)


@kernel
def _join(data: Int, at: Int, packets: Int) -> Int:
    """Join an event of several packets: move the payloads of all others to the end of the first.

    Returns the event's end.
    """
    last = at + 4 + events.MAX_PACKET
    source = last
    for _ in range(packets - 1):
        size = peek24(data + source)
        source += 4
        for index in range(size):
            poke8(data + last + index, peek8(data + source + index))
        last += size
        source += size
    return last
