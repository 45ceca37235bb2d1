"""The replication stream of a live server, as verified receive buffers.

A reader holds one connection. `read` never blocks longer than requested, and returned data is never overwritten: every
buffer owns its memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pymysql

from cdc.errors import PositionLost, SourceUnavailable
from connectors.mysql.kernels import framing
from connectors.mysql.log import dump_command
from connectors.mysql.log.indexer import Indexer
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.log.receiver import SMALL_BYTES, Receiver
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import LOST_LOG_HINT, as_source_error
from connectors.mysql.server.positions import LogPosition
from connectors.mysql.server.server_check import registers
from connectors.mysql.server.server_info import is_mariadb, version_number, where_of

_FRAMING_SHARE: Final = 16
"""Maximum expected share of packet headers in a range of the log: one byte in this many."""
_HEAD: Final = 1024
"""The format description and the start of encryption are within this many bytes of a file's beginning."""
_MISSED_HEARTBEATS: Final = 4
"""Number of missed heartbeats after which the connection counts as dead."""
_LEAST_SILENCE_S: Final = 10.0
_WITHOUT_POSITIONS: Final = (11, 4, 0)
"""First MariaDB version in which events inside a transaction have no position."""


class EndOfLog(Exception):
    """The server has sent its whole log; only with `until_end`. Not an error: it ends the caller's loop."""


class BinlogStream:
    """Reads a server's binary log from a position or after a GTID set. Runs in the stream reader and on executors.

    Args:
        connection: authenticated and idle; owned and closed by the stream from here on.
        server_id: an id that no other replica or reader of that server uses at the same time.
        file, position: start here; without a file and GTID set, at the server's oldest log file.
        gtid_set: start after these transactions instead (MySQL: needs gtid_mode ON; the empty text is the whole log).
        until_end: raise EndOfLog at the end of the log instead of waiting for more.
        heartbeat_s: seconds of silence after which the server should send a heartbeat.

    Attributes:
        last_seen: `time.monotonic()` when the server last sent anything, heartbeats included.

    Raises (here and in `read`):
        PositionLost: the log no longer holds the position.
        CorruptLog, UnsupportedChange: as `log_file.read_buffers`.
        SourceUnavailable: the connection was cut, or silent for longer than the heartbeats allow.
        SourceError: any other error of the server.
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
        self._longest_silence_s = max(_MISSED_HEARTBEATS * heartbeat_s, _LEAST_SILENCE_S)
        self._connection, self._until_end = connection, until_end
        self._where = where_of(connection)
        driver: Any = connection  # PyMySQL has no public name for its socket
        version = str(driver.get_server_info())
        mariadb = is_mariadb(version)
        dump_command.prepare_session(connection, mariadb=mariadb, gtid_set=gtid_set, heartbeat_s=heartbeat_s)
        if registers(version):
            dump_command.register(connection, server_id)
        self._start_file, self._skip_to = file, 0
        if gtid_set is not None and not mariadb:
            command = dump_command.by_gtid(gtid_set, server_id, until_end=until_end)
        else:
            # A dump cannot begin at the encryption event near the head of an encrypted MariaDB file: it sends garbage.
            if position > dump_command.LARGEST_POSITION or (mariadb and 4 < position < _HEAD):
                self._skip_to, position = position, 4
            annotations = mariadb and version_number(version) >= _WITHOUT_POSITIONS
            command = dump_command.by_position(file, position, server_id, until_end=until_end, annotations=annotations)
        dump_command.start_dump(connection, *command)
        self._receiver = Receiver(driver._sock)
        self._indexer = Indexer(framing.STREAM, file, position)
        self._ready: Iterator[ReceiveBuffer] = iter(())
        self._silent_s = 0.0
        self.last_seen = time.monotonic()

    @property
    def file(self) -> str:
        """The file that the server is sending; empty before its first packet."""
        return self._indexer.file

    @property
    def position(self) -> int:
        """Position in `file` up to which everything was read, or skipped by the server for us."""
        return self._indexer.position

    @property
    def version(self) -> str:
        """Version text of the server that wrote `file`; empty before its format description."""
        return self._indexer.format.version if self._indexer.format else ""

    def read(self, timeout_s: float, up_to: LogPosition | None = None) -> ReceiveBuffer | None:
        """Return the next complete events, in log order; None when none arrive within `timeout_s` seconds.

        up_to: the caller wants nothing after this position, so little more is received and not waited for. Events after
        it that arrive anyway are returned.

        Raises EndOfLog with `until_end`, otherwise as the class says. After an error the stream cannot be used any
        more.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            for buffer in self._ready:
                wanted = self._skip_before_start(buffer)
                if len(wanted):
                    return wanted
            if self._fill(up_to):
                self._ready = self._index()
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._wait(left)

    def interrupt(self) -> None:
        """Make a `read` that waits in another thread raise SourceUnavailable; only `close` may follow. Any thread."""
        self._receiver.interrupt()

    def close(self) -> None:
        """Close the connection. The server notices immediately, or at its next heartbeat."""
        if self._connection.open:
            self._connection.close()
        self._ready = iter(())  # the generator refers to this stream, and both to the buffer

    def _skip_before_start(self, buffer: ReceiveBuffer) -> ReceiveBuffer:
        """Return the events after a start position at which no dump can begin."""
        if not self._skip_to:
            return buffer
        if buffer.file != self._start_file:
            raise self._beyond_the_file()
        wanted = buffer.after(self._skip_to)
        if len(buffer) and int(buffer.end_position[-1]) >= self._skip_to:
            self._skip_to = 0
        return wanted

    def _beyond_the_file(self) -> PositionLost:
        return PositionLost(
            f"the file ends before position {self._skip_to}",
            where=f"{self._where} at {self._start_file}",
            hint=LOST_LOG_HINT,
        )

    def _index(self) -> Iterator[ReceiveBuffer]:
        """Yield the complete events received so far."""
        held = self._receiver.contents()
        yield from self._indexer.buffers(held, len(held))
        self._receiver.consume(self._indexer.at)
        if self._indexer.stopped == framing.NOT_AN_EVENT:
            self._no_event()

    def _no_event(self) -> None:
        """Handle a packet that is not an event: the end of the log, or an error. Returns if it is incomplete."""
        size = int.from_bytes(self._receiver.first(3), "little")
        if self._receiver.filled < 4 + size:
            return
        payload = self._receiver.first(4 + size)[4:]
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

    def _fill(self, up_to: LogPosition | None) -> int:
        """Receive available data; returns the number of bytes.

        A broken connection becomes an error only after everything received before was returned.
        """
        if self._receiver.broken:
            raise self._lost(self._receiver.broken)
        got = self._receiver.fill(self._limit(up_to))
        if got:
            self._silent_s, self.last_seen = 0.0, time.monotonic()
        elif self._receiver.broken:
            raise self._lost(self._receiver.broken)
        return got

    def _limit(self, up_to: LogPosition | None) -> int | None:
        """Return how far to fill the buffer so that everything before `up_to` fits; None when unknown."""
        if up_to is None or up_to.file != self.file:
            return None
        left = max(0, up_to.position - self.position)
        return max(left + left // _FRAMING_SHARE, self._receiver.filled) + SMALL_BYTES

    def _wait(self, timeout_s: float) -> None:
        started = time.monotonic()
        if not self._receiver.wait(timeout_s):
            self._silent_s += time.monotonic() - started
            if self._silent_s > self._longest_silence_s:
                raise self._lost(
                    f"the server sent nothing for {self._longest_silence_s:.0f} seconds, not even a heartbeat"
                )

    def _lost(self, reason: str) -> SourceUnavailable:
        inside = " inside an event" if self._receiver.filled else ""
        return SourceUnavailable(f"{reason}{inside}", where=f"{self._where} at {self._indexer.where}")


OpenStream = Callable[[LogPosition, bool], BinlogStream]
"""Opens a stream at a position; the flag requests one that ends at the end of the log."""
