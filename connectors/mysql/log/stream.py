"""The replication stream of a live server, as verified chunks.

A reader holds one connection. `read` never blocks longer than asked, and what it returns is never overwritten: every
chunk owns its buffer.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final

import pymysql

from cdc.errors import PositionLost, SourceUnavailable
from connectors.mysql.kernels import framing
from connectors.mysql.log import dump_command
from connectors.mysql.log.buffers import carry, take
from connectors.mysql.log.chunk import EventChunk
from connectors.mysql.log.indexer import Indexer
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import as_source_error
from connectors.mysql.server.server_info import where_of

_COPY_BYTES: Final = 64 << 10
"""Up to this much is copied out of the receive buffer, so that a few small events do not hold 8 MB."""
_LINGER_S: Final = 0.002
_LONGEST_LINGER_S: Final = 0.05
"""While much data flows, wait this long for more of it, and in total no longer than that, to make chunks bigger."""
_LOW_WATER_BYTES: Final = 1 << 20
"""While lingering, wake up for no less (socket(7), SO_RCVLOWAT)."""
_MISSED_HEARTBEATS: Final = 4
"""So many heartbeats may be missing before the connection counts as dead."""
_LEAST_SILENCE_S: Final = 10.0


class EndOfLog(Exception):
    """The server has sent everything its log holds; only with `until_end`. Not an error: the caller ends its loop."""


class BinlogStream:
    """Reads a server's binary log from a position or after a GTID set. Runs in the stream reader and on executors.

    Args:
        connection: authenticated and idle; it belongs to the stream from here on, which closes it.
        server_id: an id that no other replica or reader of that server uses at the same time.
        file, position: start here; without a file and GTID set, at the server's oldest log file.
        gtid_set: start behind these transactions instead (MySQL: needs gtid_mode ON; the empty text is the whole log).
        until_end: raise EndOfLog at the end of the log instead of waiting for more.
        heartbeat_s: seconds of silence after which the server is to send a heartbeat.

    Attributes:
        last_seen: `time.monotonic()` when the server last sent anything, heartbeats included.

    Raises (here and in `read`):
        PositionLost: the log does not hold the position any more.
        CorruptLog, UnsupportedChange: as `log_file.read_chunks`.
        SourceUnavailable: the connection was cut, or silent for longer than the heartbeats allow.
        SourceError: whatever else the server says.
    """

    def __init__(
        self,
        connection: MySqlConnection,
        *,
        server_id: int,
        file: str = "",
        position: int = 4,
        gtid_set: str | None = None,
        until_end: bool = False,
        heartbeat_s: float = dump_command.HEARTBEAT_S,
    ) -> None:
        self._patience_s = max(_MISSED_HEARTBEATS * heartbeat_s, _LEAST_SILENCE_S)
        self._connection, self._until_end = connection, until_end
        self._where = where_of(connection)
        driver: Any = connection  # PyMySQL has no public name for its socket
        mariadb = "mariadb" in str(driver.get_server_info()).lower()
        dump_command.prepare_session(connection, mariadb=mariadb, gtid_set=gtid_set, heartbeat_s=heartbeat_s)
        dump_command.register(connection, server_id)
        self._start_file, self._skip_to = file, 0
        if gtid_set is not None and not mariadb:
            command = dump_command.by_gtid(gtid_set, server_id, until_end=until_end)
        else:
            if position > dump_command.LARGEST_POSITION:
                self._skip_to, position = position, 4
            command = dump_command.by_position(file, position, server_id, until_end=until_end)
        dump_command.start_dump(connection, *command)
        self._socket = driver._sock
        self._socket.settimeout(0)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._indexer = Indexer(framing.STREAM, file, position)
        self._buffer, self._filled = take(), 0
        self._ready: Iterator[EventChunk] = iter(())
        self._silent_s, self._broken = 0.0, ""
        self.last_seen = time.monotonic()

    @property
    def file(self) -> str:
        """The file that the server is reading for us; empty before its first packet came."""
        return self._indexer.file

    @property
    def position(self) -> int:
        """Position in `file` up to which everything was read, or passed over by the server on our behalf."""
        return self._indexer.position

    @property
    def version(self) -> str:
        """Version text of the server that wrote `file`; empty before its format description came."""
        return self._indexer.format.version if self._indexer.format else ""

    def read(self, timeout_s: float) -> EventChunk | None:
        """The next whole events that have arrived, in log order; None when none came within `timeout_s` seconds.

        Raises EndOfLog with `until_end`, otherwise as the class says. After an error the stream is of no more use.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            for chunk in self._ready:
                wanted = self._wanted(chunk)
                if len(wanted):
                    return wanted
            if self._fill():
                self._ready = self._index()
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._wait(left)

    def close(self) -> None:
        """Close the connection. The server notices at once, or at its next heartbeat."""
        if self._connection.open:
            self._connection.close()
        self._ready = iter(())  # the generator refers to this stream, and both to the buffer

    def _wanted(self, chunk: EventChunk) -> EventChunk:
        """Without the events before a start position that COM_BINLOG_DUMP cannot name."""
        if not self._skip_to:
            return chunk
        if chunk.file != self._start_file:
            raise self._beyond_the_file()
        wanted = chunk.after(self._skip_to)
        if len(wanted):
            self._skip_to = 0
        return wanted

    def _beyond_the_file(self) -> PositionLost:
        return PositionLost(
            f"the file ends before position {self._skip_to}",
            where=f"{self._where} at {self._start_file}",
            hint="start the pipeline anew with an empty state directory",
        )

    def _index(self) -> Iterator[EventChunk]:
        """The whole events of the receive buffer; afterwards the rest is at the start of the buffer again."""
        buffer, filled = self._buffer, self._filled
        if filled <= _COPY_BYTES:
            yield from self._indexer.chunks(buffer[:filled].copy(), filled)
            at = self._indexer.at
            if at:
                buffer[: filled - at] = buffer[at:filled].copy()
        else:
            yield from self._indexer.chunks(buffer, filled)
            at = self._indexer.at
            if at or filled == len(buffer):
                self._buffer = carry(buffer, at, filled)
        self._filled = filled - at
        if self._indexer.stopped == framing.NOT_AN_EVENT:
            self._no_event()

    def _no_event(self) -> None:
        """The rest of the buffer begins with a packet that is no event: the end, or an error. Returns if incomplete."""
        size = int.from_bytes(self._buffer[:3].tobytes(), "little")
        if self._filled < 4 + size:
            return
        payload = self._buffer[4 : 4 + size].tobytes()
        if payload[:1] == b"\xff":
            try:
                pymysql.err.raise_mysql_exception(payload)
            except pymysql.err.MySQLError as error:
                raise as_source_error(error, self._where) from error
        if payload[:1] == b"\xfe" and size < 9 and self._until_end:
            if self._skip_to > self._indexer.position:
                raise self._beyond_the_file()
            raise EndOfLog
        raise SourceUnavailable(
            "the server ended the replication stream", where=f"{self._where} at {self._indexer.where}"
        )

    def _fill(self) -> int:
        """Receive what is there without waiting, up to a full buffer; the number of bytes.

        A broken connection is an error only once everything that came before was handed on.
        """
        if self._broken:
            raise self._lost(self._broken)
        before = self._filled
        self._receive()
        if self._filled - before >= _COPY_BYTES:
            self._linger()
        got = self._filled - before
        if got:
            self._silent_s, self.last_seen = 0.0, time.monotonic()
        elif self._broken:
            raise self._lost(self._broken)
        return got

    def _linger(self) -> None:
        """Much has come: wait for more, woken up once for many packets instead of for each."""
        started = time.monotonic()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _LOW_WATER_BYTES)
        while self._filled < len(self._buffer) and not self._broken and time.monotonic() - started < _LONGEST_LINGER_S:
            before = self._filled
            self._poll.poll(_LINGER_S * 1000)
            self._receive()
            if self._filled == before:
                break
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def _receive(self) -> None:
        view = memoryview(self._buffer.data)
        while self._filled < len(view):
            try:
                got = self._socket.recv_into(view[self._filled :])
            except (BlockingIOError, ssl.SSLWantReadError):
                return
            except OSError as error:
                self._broken = f"the connection broke: {error.strerror or error}"
                return
            if got == 0:
                self._broken = "the server closed the connection"
                return
            self._filled += got

    def _wait(self, timeout_s: float) -> None:
        started = time.monotonic()
        if not self._poll.poll(timeout_s * 1000):
            self._silent_s += time.monotonic() - started
            if self._silent_s > self._patience_s:
                raise self._lost(f"the server sent nothing for {self._patience_s:.0f} seconds, not even a heartbeat")

    def _lost(self, reason: str) -> SourceUnavailable:
        inside = " inside an event" if self._filled else ""
        return SourceUnavailable(f"{reason}{inside}", where=f"{self._where} at {self._indexer.where}")
