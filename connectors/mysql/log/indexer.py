"""Converts raw log bytes to verified receive buffers; shared by files and the replication stream.

The kernel (`kernels.framing`) handles all frequent events; a few control events per file remain for Python.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql import events
from connectors.mysql.kernels import framing
from connectors.mysql.kernels.gtid_log import NO_TIME
from connectors.mysql.log import format_description
from connectors.mysql.log.event_bodies import heartbeat_position, rotate_target
from connectors.mysql.log.expand import expand
from connectors.mysql.log.receive_buffer import Bytes, ReceiveBuffer
from connectors.mysql.server.positions import file_number

CAPACITY: Final = 1 << 17
"""Maximum events in one buffer."""

_REASONS: Final = {
    framing.BAD_LENGTH: "an event with an impossible length",
    framing.BAD_CHECKSUM: "an event with a wrong checksum",
    framing.BAD_POSITION: "an event whose own position contradicts the place it stands at",
    framing.BAD_SEQUENCE: "a packet out of sequence",
    framing.BAD_GTID: "a GTID event that cannot be read",
    framing.BAD_QUERY: "a QUERY event with inconsistent lengths",
}
_HINTS: Final = {
    framing.BAD_POSITION: "a relay log, or a copy that does not begin at the start of the file, cannot be read",
}


class Indexer:
    """Tracks the current file, position and checksum setting of one log across data chunks.

    Args:
        kind: `framing.FILE` or `framing.STREAM`.
        file: name of the file that the first event belongs to; a stream's first event is a ROTATE that names it.
        position: position of that first event.
    """

    def __init__(self, kind: int, file: str, position: int) -> None:
        self.file = file
        self.format: format_description.FormatDescription | None = None
        self.stopped = framing.MORE
        self._kind = kind
        self._state = np.zeros(framing.STATE_SIZE, np.int64)
        self._state[framing.POSITION] = position
        self._state[framing.COMMIT_MS] = NO_TIME
        self._state[framing.SEQUENCE] = 1
        self._start, self._end, self._position, self._commit = (np.empty(CAPACITY, np.int64) for _ in range(4))
        self._type, self._query = np.empty(CAPACITY, np.uint8), np.empty(CAPACITY, np.uint8)

    @property
    def position(self) -> int:
        """Position in `file` after the last event seen."""
        return int(self._state[framing.POSITION])

    @position.setter
    def position(self, value: int) -> None:
        self._state[framing.POSITION] = value

    @property
    def at(self) -> int:
        """Offset in the last data of the first unconsumed byte."""
        return int(self._state[framing.AT])

    @property
    def sequence(self) -> int:
        """Sequence number that the next packet must have."""
        return int(self._state[framing.SEQUENCE])

    def buffers(self, data: Bytes, limit: int, at: int = 0) -> Iterator[ReceiveBuffer]:
        """Yield buffers of the complete events in `data[at:limit]`. Exhaust it before reading `at` and `stopped`.

        The buffers reference `data`, so pass another array next. Raises CorruptLog and UnsupportedChange with file and
        position.
        """
        self._state[framing.AT] = at
        while True:
            count, stopped = framing.index_events(
                data, limit, self._kind, events.CHECKSUM_SIZE * self._checksum, self._state,
                self._start, self._end, self._type, self._position, self._commit, self._query, CAPACITY,
            )  # fmt: skip
            self.stopped = stopped
            if self.format is None:
                self._check_first(count, stopped)
            file, checksum, kept = self.file, self._checksum, count
            if stopped == framing.CONTROL and not self._control(data, count - 1):
                kept -= 1
            if kept:
                buffer = self._buffer(file, data, kept, checksum or (count == 1 and self._checksum))
                if self._state[framing.EXPAND]:
                    self._state[framing.EXPAND] = 0
                    yield from expand(buffer)
                else:
                    yield buffer
            if stopped in _REASONS:
                raise CorruptLog(_REASONS[stopped], where=self.where, hint=_HINTS.get(stopped, ""))
            if stopped in (framing.MORE, framing.NOT_AN_EVENT):
                return

    def _check_first(self, count: int, stopped: int) -> None:
        """Require a format description first; in a stream, only certain control events may precede it."""
        if count == 0:
            return
        kind = int(self._type[0])
        if stopped == framing.CONTROL and count == 1:
            if kind == events.FORMAT_DESCRIPTION:
                return
            if self._kind == framing.STREAM and kind in (events.ROTATE, events.HEARTBEAT, events.HEARTBEAT_V2):
                return
        raise CorruptLog("the log does not begin with a format description event", where=self.where)

    @property
    def where(self) -> str:
        """`binlog.000002:1234`, the position where the next event begins."""
        return f"{self.file}:{self.position}"

    @property
    def _checksum(self) -> bool:
        return self.format is not None and self.format.checksum

    def _buffer(self, file: str, data: Bytes, count: int, checksum: bool) -> ReceiveBuffer:
        return ReceiveBuffer(
            file,
            file_number(file),
            data,
            self._start[:count].copy(),
            self._end[:count].copy(),
            self._type[:count].copy(),
            self._position[:count].copy(),
            self._commit[:count].copy(),
            self._query[:count].copy(),
            checksum,
        )

    def _control(self, data: Bytes, index: int) -> bool:
        """Handle a control event; returns whether it stays in the buffer. Events made up by the sender do not."""
        event = data[int(self._start[index]) : int(self._end[index])].tobytes()
        kind, flags = event[4], int.from_bytes(event[17:19], "little")
        stated = int.from_bytes(event[13:17], "little")
        made_up = self._kind == framing.STREAM and (stated == 0 or bool(flags & events.FLAG_ARTIFICIAL))
        if kind == events.FORMAT_DESCRIPTION:
            self.format = format_description.parse(event, self.where)
            self._state[framing.COMMIT_MS] = NO_TIME
            body_end = len(event) - events.CHECKSUM_SIZE
        else:
            body_end = self._verify_checksum(event)
        body = event[events.HEADER_SIZE : body_end]
        if kind in (events.HEARTBEAT, events.HEARTBEAT_V2):
            self._heartbeat(kind, stated, body)
            return False
        if kind == events.ROTATE and made_up:
            self.file, self.position = rotate_target(body, self.where)
            self._state[framing.COMMIT_MS] = NO_TIME
            return False
        self._refuse(kind, flags, body)
        if made_up:
            return False
        self._advance(event, stated)
        self._end[index] = int(self._start[index]) + body_end
        self._position[index] = self.position
        self._commit[index] = int.from_bytes(event[:4], "little") * 1000
        return kind in (events.FORMAT_DESCRIPTION, events.ROTATE, events.MARIADB_GTID_LIST)

    def _verify_checksum(self, event: bytes) -> int:
        """Verify the event's checksum; returns the event's length without it.

        The ROTATE that opens a stream precedes the format description: there a matching CRC-32 is assumed to be a
        checksum.
        """
        if len(event) < events.HEADER_SIZE + events.CHECKSUM_SIZE * self._checksum:
            raise CorruptLog(_REASONS[framing.BAD_LENGTH], where=self.where)
        end = len(event) - events.CHECKSUM_SIZE
        matches = end >= events.HEADER_SIZE and zlib.crc32(event[:end]) == int.from_bytes(event[end:], "little")
        if self._checksum and not matches:
            raise CorruptLog(_REASONS[framing.BAD_CHECKSUM], where=self.where)
        return end if self._checksum or (self.format is None and matches) else len(event)

    def _advance(self, event: bytes, stated: int) -> None:
        after = self.position + len(event)
        if self._kind == framing.STREAM:
            after = self.position + ((stated - self.position) & 0xFFFFFFFF)
        elif stated not in (0, after & 0xFFFFFFFF):
            reason = framing.BAD_POSITION
            raise CorruptLog(_REASONS[reason], where=self.where, hint=_HINTS[reason])
        self.position = after

    def _heartbeat(self, kind: int, stated: int, body: bytes) -> None:
        """Advance to the position in a heartbeat, the only sign of events that the server skipped for us."""
        if kind == events.HEARTBEAT_V2:
            name, position = heartbeat_position(body, self.where)
        else:
            name, position = body.decode("utf-8", "replace"), self.position + ((stated - self.position) & 0xFFFFFFFF)
        if name == self.file and self.position < position < self.position + (1 << 31) * (
            1 + (kind != events.HEARTBEAT)
        ):
            self.position = position

    def _refuse(self, kind: int, flags: int, body: bytes) -> None:
        """Raise UnsupportedChange for events that must not be ignored."""
        if kind in (events.FORMAT_DESCRIPTION, events.ROTATE, events.MARIADB_GTID_LIST):
            return
        if kind == events.MARIADB_START_ENCRYPTION and self._kind == framing.STREAM:
            return  # the server decrypts what it sends
        if kind == events.INCIDENT:
            number, text = int.from_bytes(body[:2], "little"), body[3:].decode("utf-8", "replace")
            raise UnsupportedChange(
                f"the server reports an incident: {text or number}",
                where=self.where,
                hint="changes may be missing from the log here; start again from a fresh copy of the tables",
            )
        if kind == events.MARIADB_START_ENCRYPTION:
            raise UnsupportedChange(
                "the log is encrypted from here on",
                where=self.where,
                hint="read it from the server with `type: mysql`, or write it with encrypt_binlog=OFF",
            )
        if kind == events.MARIADB_PARTIAL_ROW_DATA:
            raise UnsupportedChange(
                "rows are logged in parts, as they are larger than binlog_row_event_fragment_threshold",
                where=self.where,
                hint="raise it on the server, and start over with another --state-dir, which copies the tables",
            )
        if not flags & events.FLAG_IGNORABLE and kind != events.IGNORABLE:
            raise UnsupportedChange(
                f"events of {_described(kind)} are not read",
                where=self.where,
                hint="it may change rows, so it is not skipped; please report the server version",
            )


def _described(kind: int) -> str:
    """Format an event type as `type 200`, or `type 6 (LOAD)` for those of old servers."""
    return f"type {kind} ({events.NAMES[kind]})" if kind in events.NAMES else f"type {kind}"
