"""One HTTP/1.1 connection for one request (RFC 9112): head, interim answer, body in pieces, answer.

Needed because the standard client can neither wait for `100 Continue` nor read an answer that precedes the end of the
body. Raises plain OSError; `connectors.shared.streamload.http` knows its meaning for the request.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, BinaryIO

from connectors.shared.servers.address import Address, TimeLimits, Tls

_LONGEST_LINE = 64 << 10
_LARGEST_ANSWER = 16 << 20
_PIECE = 1 << 20

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer. `server` is its sender; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    server: str

    @property
    def text(self) -> str:
        """The body as text; invalid UTF-8 becomes replacement characters."""
        return self.body.decode("utf-8", "replace")


class HttpConnection:
    """A connection. Not thread-safe. `close` may be called at any time, also from another thread."""

    def __init__(self, address: Address, tls: Tls, limits: TimeLimits) -> None:
        """Connect. Raises OSError, including `ssl.SSLError`."""
        self._address, self._limits = address, limits
        plain = socket.create_connection((address.host, address.port), timeout=limits.connect_s)
        self._socket: socket.socket = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.secure:
                self._socket = tls.context().wrap_socket(plain, server_hostname=address.host)
            self._file = self._socket.makefile("rb")
        except BaseException:
            plain.close()
            raise

    @property
    def server(self) -> str:
        """The server's address, as errors show it."""
        return str(self._address)

    def send_head(self, method: str, target: str, headers: Headers) -> None:
        """Send the request line and headers. Raises ValueError for a header with a line end."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._address.host_header}", "Connection: close"]
        for name, value in headers.items():
            if any(character in name + value for character in "\r\n\0"):
                raise ValueError(f"the header {name} holds a line end")
            lines.append(f"{name}: {value}")
        self._socket.settimeout(self._limits.send_s)
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())

    def send_chunk(self, data: bytes | memoryview) -> None:
        """Send one piece of a chunked body; nothing for an empty one, which would end the body."""
        view = memoryview(data).cast("B")
        self._socket.settimeout(self._limits.send_s)
        for start in range(0, len(view), _PIECE):
            piece = view[start : start + _PIECE]
            self._send_all([f"{len(piece):x}\r\n".encode(), piece, b"\r\n"])

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.settimeout(self._limits.send_s)
        self._socket.sendall(data)

    def end_chunks(self) -> None:
        """Send the end of a chunked body."""
        self.send(b"0\r\n\r\n")

    def answered_early(self) -> bool:
        """Return whether the server has sent something already. Always False with TLS, whose own records look alike."""
        if isinstance(self._socket, ssl.SSLSocket):
            return False
        return bool(select.select([self._socket], [], [], 0)[0])

    def may_continue(self) -> Answer | None:
        """Wait for `100 Continue`: None when it came, else the answer that came instead."""
        status, headers = self._head(self._limits.continue_s)
        return None if status == http.client.CONTINUE else self._read_answer(status, headers)

    def answer(self) -> Answer:
        """Wait for the answer to the request. Raises OSError when the connection ends before it is complete."""
        while True:
            status, headers = self._head(self._limits.answer_s)
            if status >= 200:
                return self._read_answer(status, headers)

    def close(self) -> None:
        """Close immediately: the server sees an incomplete request."""
        with contextlib.suppress(OSError):  # already disconnected, as intended
            self._socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._socket.close()

    def _send_all(self, parts: Iterable[bytes | memoryview]) -> None:
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.sendall(b"".join(parts))
            return
        left: list[Any] = [memoryview(part) for part in parts]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if left:
                left[0] = left[0][sent:]

    def _head(self, timeout_s: float) -> tuple[int, Message]:
        self._socket.settimeout(timeout_s)
        lines = _WholeLines(self._file)
        fields = lines.readline().split(None, 2)
        if len(fields) < 2 or not fields[0].startswith(b"HTTP/1.") or not fields[1].isdigit():
            raise ConnectionResetError("the answer is not HTTP/1.1")
        try:
            return int(fields[1]), http.client.parse_headers(lines)
        except http.client.HTTPException as error:
            raise ConnectionResetError(f"the answer's headers cannot be read: {error}") from error

    def _read_answer(self, status: int, headers: Message) -> Answer:
        known = {name.lower(): value for name, value in headers.items()}
        return Answer(status, known, self._body(status, known), str(self._address))

    def _body(self, status: int, headers: Headers) -> bytes:
        if status in (http.client.NO_CONTENT, http.client.NOT_MODIFIED):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks()
        length = headers.get("content-length", "")
        if length.isdigit():
            return self._exactly(int(length))
        return self._file.read(_LARGEST_ANSWER)

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = self._chunk_size()
            if size == 0:
                while self._file.readline(_LONGEST_LINE) not in (b"\r\n", b"\n", b""):
                    continue
                return bytes(body)
            body += self._exactly(size)
            self._exactly(2)
            if len(body) > _LARGEST_ANSWER:
                raise ConnectionResetError(f"the answer is longer than {_LARGEST_ANSWER} bytes")

    def _chunk_size(self) -> int:
        line = self._file.readline(_LONGEST_LINE)
        try:
            return int(line.partition(b";")[0], 16)
        except ValueError:
            raise ConnectionResetError("the answer ends in the middle of its body") from None

    def _exactly(self, length: int) -> bytes:
        if length > _LARGEST_ANSWER:
            raise ConnectionResetError(f"the answer is longer than {_LARGEST_ANSWER} bytes")
        data = self._file.read(length)
        if len(data) < length:
            raise ConnectionResetError("the answer ends in the middle of its body")
        return data


@dataclass(frozen=True, slots=True)
class _WholeLines:
    """Lines of an answer's head: half an address to be redirected to must not be used."""

    file: BinaryIO

    def readline(self, limit: int = _LONGEST_LINE, /) -> bytes:
        """Return the next line with its end. Raises ConnectionResetError if the connection ends before."""
        line = self.file.readline(limit)
        if len(line) < limit and not line.endswith(b"\n"):
            raise ConnectionResetError("the connection was closed before a whole answer")
        return line
