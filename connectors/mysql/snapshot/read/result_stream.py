"""Streams a statement's rows from the socket, as packets in one large buffer.

Uses the binary protocol (prepared statements): numbers, dates and times come as bytes, so neither side converts them to
text and back, and FLOAT is exact, which the text protocol rounds to six digits. A prepared statement is answered
without a cursor, row by row as the server finds them, so memory does not grow with the result.

Messages: MySQL "COM_STMT_PREPARE", "COM_STMT_EXECUTE", "Binary Protocol Resultset".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pymysql
from pymysql.constants import COMMAND
from pymysql.protocol import FieldDescriptorPacket

from cdc.errors import SourceError, SourceUnavailable
from connectors.mysql.rows.addresses import address
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import as_source_error
from connectors.mysql.server.server_info import where_of
from connectors.mysql.snapshot.read.kernels import packets, protocol

BUFFER_BYTES: Final = 1 << 20
"""Bytes received before rows are returned, unless one row is bigger; small enough to stay in a processor's cache."""
CAPACITY: Final = 1 << 16
"""Maximum rows returned at once."""
_SLACK: Final = 64
"""Bytes after the buffer that kernels may read but never use."""
_DRIVER_BUFFER: Final = 64 << 10
"""More than the driver's own reader holds, less than one of our buffers."""
_UNSIGNED: Final = 32
_NO_CURSOR: Final = 0
_TABLE_GONE: Final = frozenset({1146, 1412})
"""The table does not exist, or was redefined after the transaction's view was opened."""
_TOO_LONG: Final = frozenset({3024, 1969})
"""The statement exceeded its time limit: MySQL's max_execution_time, MariaDB's max_statement_time."""
_NO_STATEMENTS: Final = 1461


class DefinitionChanged(Exception):
    """The statement's table has changed since the transaction's view was opened. The caller starts over."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column as announced by the server: its name, type code (as in `rows.table_map`), sign, and display width."""

    name: str
    type: int
    unsigned: bool
    width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RowPackets:
    """Rows as bytes: row n is `buffer[starts[n]:ends[n]]`. Valid until the next call of `ResultStream.read`.

    Attributes:
        buffer: uint8; readable for 64 bytes after the last row.
        starts, ends: int64; the first `count` entries are valid.
        count: rows.
    """

    buffer: Any
    starts: Any
    ends: Any
    count: int

    @property
    def bytes(self) -> int:
        """Bytes from the start of the first row to the end of the last."""
        return int(self.ends[self.count - 1]) - int(self.starts[0]) if self.count else 0


class ResultStream:
    """One statement on an open connection, answered row by row. Executor; used once.

    The connection is busy until `read` has returned None; if stopped earlier, it must be closed.

    Args:
        connection: authenticated and idle; TLS or not. Its read timeout bounds every wait for bytes.
        sql: the statement, without parameters.
        where: what it reads, for errors, such as a table's name.

    Attributes:
        columns: the columns of the rows.

    Raises (here and in `read`):
        DefinitionChanged: see there.
        SourceUnavailable: the connection broke, or the statement was killed or exceeded its time limit; retryable.
        SourceError: the server refuses the statement.
    """

    def __init__(self, connection: MySqlConnection, sql: str, where: str) -> None:
        self._driver: Any = connection  # PyMySQL has no public names for prepared statements
        self._where = f"{where} on {where_of(connection)}"
        try:
            self._statement = self._prepare(sql)
            self.columns, sequence = self._execute()
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._error(error) from error
        self._buffer = np.empty(BUFFER_BYTES + _SLACK, np.uint8)
        self._filled, self._drained = 0, False
        self._starts, self._ends = np.empty(CAPACITY, np.int64), np.empty(CAPACITY, np.int64)
        self._state = np.zeros(protocol.SPLIT_STATE, np.int64)
        self._state[protocol.SEQUENCE] = sequence

    def __iter__(self) -> Iterator[RowPackets]:
        """Iterate over the remaining packets. Raises as `read`."""
        return iter(self.read, None)

    def read(self) -> RowPackets | None:
        """Return the next rows, a full buffer if there are as many; None when the result is complete.

        Blocks while the server sends nothing, at most for the connection's read timeout.
        """
        self._keep_rest()
        count = self._split_packets(0)
        while count < CAPACITY and self._state[protocol.ENDED] == protocol.GOING:
            if self._filled == len(self._buffer) - _SLACK:
                if count:
                    break
                self._grow()
            self._receive()
            count = self._split_packets(count)
        if count:
            return RowPackets(self._buffer, self._starts, self._ends, count)
        if self._state[protocol.ENDED] != protocol.END:
            raise self._refusal()
        self._close_statement()
        return None

    def _prepare(self, sql: str) -> int:
        self._driver._execute_command(COMMAND.COM_STMT_PREPARE, sql.encode())
        head = self._driver._read_packet().get_all_data()
        statement, columns, parameters = struct.unpack_from("<IHH", head, 1)
        if parameters:
            raise SourceError(f"the statement has {parameters} parameters without a value", where=self._where)
        for _ in range(columns + bool(columns)):
            self._driver._read_packet()
        return int(statement)

    def _execute(self) -> tuple[tuple[ResultColumn, ...], int]:
        """Execute the statement; returns the columns and the sequence number of the first row's packet."""
        body = struct.pack("<IBI", self._statement, _NO_CURSOR, 1)
        self._driver._execute_command(COMMAND.COM_STMT_EXECUTE, body)
        count = self._driver._read_packet().read_length_encoded_integer()
        found = [self._driver._read_packet(FieldDescriptorPacket) for _ in range(count or 0)]
        self._driver._read_packet()
        columns = tuple(
            ResultColumn(part.name, part.type_code, bool(part.flags & _UNSIGNED), part.length) for part in found
        )
        return columns, self._driver._next_seq_id

    def _split_packets(self, count: int) -> int:
        found = packets.split_packets(
            address(self._buffer), self._filled, address(self._state), address(self._starts), address(self._ends),
            count, CAPACITY,
        )  # fmt: skip
        return int(found)

    def _receive(self) -> None:
        """Receive at least one byte; first those that the driver has already received."""
        room = memoryview(self._buffer.data)[self._filled : len(self._buffer) - _SLACK]
        try:
            if self._drained:
                got = self._driver._sock.recv_into(room)
            else:
                early = self._driver._rfile.read1(_DRIVER_BUFFER)
                got, self._drained = len(early), True
                room[:got] = early
        except OSError as error:
            raise self._error(error) from error
        if not got:
            raise SourceUnavailable("the server closed the connection inside a result", where=self._where)
        self._filled += got

    def _keep_rest(self) -> None:
        """Move the rest that was not returned yet to the start of the buffer."""
        at = int(self._state[protocol.AT])
        if at:
            rest = self._filled - at
            self._buffer[:rest] = self._buffer[at : self._filled].copy()
            self._filled, self._state[protocol.AT] = rest, 0

    def _grow(self) -> None:
        """Double the buffer, for a row that does not fit."""
        longer = np.empty(2 * (len(self._buffer) - _SLACK) + _SLACK, np.uint8)
        longer[: self._filled] = self._buffer[: self._filled]
        self._buffer = longer

    def _close_statement(self) -> None:
        try:
            self._driver._execute_command(COMMAND.COM_STMT_CLOSE, struct.pack("<I", self._statement))
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._error(error) from error

    def _refusal(self) -> Exception:
        """Return the error at the head of the buffer."""
        if self._state[protocol.ENDED] == protocol.REFUSED:
            size = int.from_bytes(self._buffer[:3].tobytes(), "little")
            try:
                pymysql.err.raise_mysql_exception(self._buffer[4 : 4 + size].tobytes())
            except pymysql.err.MySQLError as error:
                return self._error(error)
        return SourceError("the server's answer is not the result of a statement", where=self._where)

    def _error(self, error: Exception) -> Exception:
        """Convert an error of the driver to one of ours."""
        if isinstance(error, TimeoutError):
            return SourceUnavailable("the server sent no row in time", where=self._where)
        code = error.args[0] if isinstance(error, pymysql.err.MySQLError) and error.args else 0
        if code in _TABLE_GONE:
            return DefinitionChanged(str(error))
        if code in _TOO_LONG:
            return SourceUnavailable(f"the statement was ended: {error.args[1]}", where=self._where)
        if code == _NO_STATEMENTS:
            hint = "raise max_prepared_stmt_count on the server; one statement per chunk being read is needed"
            return SourceError(f"no prepared statement is left: {error.args[1]}", where=self._where, hint=hint)
        return as_source_error(error, self._where, logged_in=True)
