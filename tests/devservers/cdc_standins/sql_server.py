"""The MySQL protocol, server side, as far as DDL and queries need it: real password check, text results.

Handshake v10 with mysql_native_password; COM_QUERY, COM_PING, COM_INIT_DB, COM_QUIT, COM_RESET_CONNECTION. Written from
the protocol's public description (MySQL Internals: client/server protocol); no prepared statements, no TLS.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cdc_standins.listener import Listener

# Column types on the wire, and the flags and character sets that clients look at.
TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG = 1, 2, 3, 4, 5, 8
DATE, DATETIME, NEWDECIMAL, BLOB, VAR_STRING = 10, 12, 246, 252, 253
_UTF8MB4, _BINARY = 45, 63
_NUMBERS = (TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, NEWDECIMAL, DATE, DATETIME)

_CONNECT_WITH_DB, _PLUGIN_AUTH, _LENENC_AUTH, _CONNECT_ATTRS = 0x8, 0x80000, 0x200000, 0x100000
_CAPABILITIES = 0x1 | 0x2 | 0x4 | _CONNECT_WITH_DB | 0x200 | 0x2000 | 0x8000 | _PLUGIN_AUTH
_AUTOCOMMIT = 2
_PLUGIN = b"mysql_native_password"
_QUIT, _INIT_DB, _QUERY, _PING, _RESET = 1, 2, 3, 14, 31


class SqlError(Exception):
    """An error that the client gets: number, SQLSTATE and message."""

    def __init__(self, message: str, errno: int = 1105, sqlstate: str = "HY000") -> None:
        super().__init__(message)
        self.errno, self.sqlstate = errno, sqlstate


@dataclass(frozen=True, slots=True)
class Result:
    """Rows as text: `columns` are names with wire types; a cell is bytes or None."""

    columns: tuple[tuple[str, int], ...]
    rows: Sequence[Sequence[bytes | None]]


def text_result(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Result:
    """A result of strings, as SHOW statements give; None stays NULL."""
    cells = [[None if value is None else str(value).encode() for value in row] for row in rows]
    return Result(tuple((name, VAR_STRING) for name in names), cells)


class Session(Protocol):
    """One client's connection after the password check."""

    def use(self, database: str) -> None:
        """Make this the current database; `SqlError` when it does not exist or is not allowed."""

    def query(self, sql: str) -> Result | int:
        """Run one statement: rows, or the number of affected rows. Raises `SqlError`; `Cut` ends the connection."""


class Accounts(Protocol):
    """Who may connect; `SqlServer` asks it in the connection's thread."""

    def password(self, user: str) -> str | None:
        """The user's password in clear, or None when there is no such user."""

    def session(self, user: str) -> Session:
        """A new session of a user whose password was right."""


class SqlServer:
    """Serves MySQL clients on a loopback port; `stop` and `start` as often as wanted."""

    def __init__(self, name: str, accounts: Accounts, port: int = 0, version: str = "5.7.99") -> None:
        self._accounts, self._version = accounts, version
        self._numbers = itertools.count(1)
        self._listener = Listener(name, self._serve, port)

    @property
    def port(self) -> int:
        """The port, the same before and after `stop`."""
        return self._listener.port

    def start(self) -> None:
        """Begin to accept connections."""
        self._listener.start()

    def stop(self) -> None:
        """Close the port and all connections at once."""
        self._listener.stop()

    def _serve(self, connection: socket.socket) -> None:
        stream = _PacketStream(connection)
        try:
            session = self._login(stream)
            if session is not None:
                while _command(stream, session):
                    continue
        except _EndOfConnection:
            return

    def _login(self, stream: _PacketStream) -> Session | None:
        nonce = bytes(1 + byte % 126 for byte in os.urandom(20))
        stream.send(_greeting(self._version, next(self._numbers), nonce))
        user, proof, database, plugin = _login_request(stream.receive())
        if plugin not in (b"", _PLUGIN):
            stream.send(b"\xfe" + _PLUGIN + b"\0" + nonce + b"\0")
            proof = stream.receive()
        expected = self._accounts.password(user)
        if expected is None or not _proves(proof, expected, nonce):
            using = "YES" if proof else "NO"
            denied = f"Access denied for user '{user}'@'127.0.0.1' (using password: {using})"
            stream.send(_error(SqlError(denied, 1045, "28000")))
            return None
        session = self._accounts.session(user)
        try:
            if database:
                session.use(database)
        except SqlError as error:
            stream.send(_error(error))
            return None
        stream.send(_ok(0))
        return session


def _command(stream: _PacketStream, session: Session) -> bool:
    """Serve one command; whether another may follow."""
    from cdc_standins.http_server import Cut

    stream.sequence = 0
    packet = stream.receive()
    code, rest = packet[0], packet[1:]
    try:
        if code == _QUIT:
            return False
        if code == _INIT_DB:
            session.use(rest.decode())
            stream.send(_ok(0))
        elif code == _QUERY:
            _send_result(stream, session.query(rest.decode("utf-8", "surrogateescape")))
        elif code in (_PING, _RESET):
            stream.send(_ok(0))
        else:
            raise SqlError(f"Unsupported command(0x{code:02x})", 1047, "08S01")
    except SqlError as error:
        stream.send(_error(error))
    except Cut:
        return False
    return True


def _send_result(stream: _PacketStream, result: Result | int) -> None:
    if isinstance(result, int):
        stream.send(_ok(result))
        return
    packets = [_length(len(result.columns))]
    packets += [_column(name, kind) for name, kind in result.columns]
    packets.append(_eof())
    for row in result.rows:
        packets.append(b"".join(b"\xfb" if cell is None else _length(len(cell)) + cell for cell in row))
    packets.append(_eof())
    stream.send(*packets)


class _EndOfConnection(Exception):
    pass


class _PacketStream:
    """Packets over a socket: 3 bytes of length, 1 of sequence."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = connection.makefile("rb")
        self.sequence = 0

    def receive(self) -> bytes:
        whole = b""
        while True:
            head = self._exactly(4)
            length = int.from_bytes(head[:3], "little")
            self.sequence = (head[3] + 1) & 255
            whole += self._exactly(length)
            if length < 0xFFFFFF:
                return whole

    def send(self, *payloads: bytes) -> None:
        out = bytearray()
        for payload in payloads:
            for start in range(0, len(payload) + 1, 0xFFFFFF):
                part = payload[start : start + 0xFFFFFF]
                out += len(part).to_bytes(3, "little") + bytes([self.sequence])
                out += part
                self.sequence = (self.sequence + 1) & 255
        self._connection.sendall(out)

    def _exactly(self, count: int) -> bytes:
        data = self._reader.read(count)
        if len(data) < count:
            raise _EndOfConnection
        return data


def _greeting(version: str, number: int, nonce: bytes) -> bytes:
    low, high = _CAPABILITIES & 0xFFFF, _CAPABILITIES >> 16
    return (
        b"\x0a" + version.encode() + b"\0" + struct.pack("<I", number) + nonce[:8] + b"\0"
        + struct.pack("<HBHH", low, _UTF8MB4, _AUTOCOMMIT, high) + bytes([len(nonce) + 1]) + bytes(10)
        + nonce[8:] + b"\0" + _PLUGIN + b"\0"
    )  # fmt: skip


def _login_request(packet: bytes) -> tuple[str, bytes, str, bytes]:
    """User, proof of the password, database and plugin of the client's first packet."""
    flags = struct.unpack_from("<I", packet)[0]
    user, _, rest = packet[32:].partition(b"\0")
    proof, rest = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    database = plugin = b""
    if flags & _CONNECT_WITH_DB:
        database, _, rest = rest.partition(b"\0")
    if flags & _PLUGIN_AUTH:
        plugin = rest.partition(b"\0")[0]
    return user.decode(), proof, database.decode(), plugin


def _proves(proof: bytes, password: str, nonce: bytes) -> bool:
    """mysql_native_password: SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))); empty for an empty password."""
    if not password:
        return not proof
    once = hashlib.sha1(password.encode()).digest()
    mask = hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest()
    return hmac.compare_digest(proof, bytes(a ^ b for a, b in zip(once, mask, strict=True)))


def _length(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def _string(text: str) -> bytes:
    data = text.encode()
    return _length(len(data)) + data


def _column(name: str, kind: int) -> bytes:
    charset = _BINARY if kind in _NUMBERS or kind == BLOB else _UTF8MB4
    flags = 128 if kind == BLOB else 0
    scale = 31 if kind in (FLOAT, DOUBLE) else 0
    tail = struct.pack("<BHIBHBH", 0x0C, charset, 1 << 16, kind, flags, scale, 0)
    return _string("def") + _string("") * 3 + _string(name) * 2 + tail


def _ok(affected: int) -> bytes:
    return b"\0" + _length(affected) + b"\0" + struct.pack("<HH", _AUTOCOMMIT, 0)


def _eof() -> bytes:
    return b"\xfe" + struct.pack("<HH", 0, _AUTOCOMMIT)


def _error(error: SqlError) -> bytes:
    return b"\xff" + struct.pack("<H", error.errno) + b"#" + error.sqlstate.encode() + str(error).encode()
