"""An HTTP/1.1 server for stream loads: the handler decides about the body before a byte of it is read.

A handler gets a `Request` and returns a `Response`, or raises `Cut` to end the connection without an answer.
`100 Continue` is sent when the handler first reads the body of a request with `Expect`; one that never does answers at
once. The connection is closed after an answer that left body unread, as what follows on it could not be told apart.
"""

from __future__ import annotations

import base64
import binascii
import json
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from cdc_standins.listener import Listener, hang_up

BLOCK_BYTES = 1 << 20
_LINE_BYTES = 1 << 16


class Reader(Protocol):
    """What is read from a connection."""

    def readline(self, size: int, /) -> bytes:
        """A line with its end, or what there is before the end of the connection."""

    def readinto1(self, buffer: memoryview, /) -> int:
        """Some bytes; 0 at the end of the connection."""


class Cut(Exception):
    """Raised by a handler: close the connection and answer nothing."""


class ClientGone(ConnectionError):
    """The peer closed its connection within a request."""


class BadRequest(Exception):
    """The peer's bytes are not HTTP/1.1 as this server reads it."""


class Body:
    """A request's body, readable once, with Content-Length or chunked; `bytes_read` counts what came so far."""

    def __init__(self, reader: Reader, headers: Mapping[str, str], before: Callable[[], None]) -> None:
        self.chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        self.length: int | None = None if length is None or self.chunked else _number(length, 10, "Content-Length")
        self.bytes_read = 0
        self.finished = not self.chunked and not self.length
        self._reader, self._before, self._begun = reader, before, False
        self._left = 0 if self.chunked else self.length or 0

    def into(self, buffer: bytearray) -> Iterator[int]:
        """Fill the start of `buffer` again and again; yields how many bytes were put there.

        Raises `ClientGone` when the connection ends before the body does.
        """
        if not self._begun:
            self._begun = True
            if not self.finished:
                self._before()
        view = memoryview(buffer)
        while not self.finished:
            if self._left == 0:
                self._next_chunk()
                continue
            count = self._reader.readinto1(view[: min(self._left, len(view))])
            if not count:
                raise ClientGone("the connection ended within the body")
            self._left -= count
            self.bytes_read += count
            if self._left == 0 and not self.chunked:
                self.finished = True
            yield count
            if self._left == 0 and self.chunked:
                self._line(b"")

    def read(self) -> bytes:
        """All of it."""
        whole = bytearray()
        buffer = bytearray(min(BLOCK_BYTES, self.length or BLOCK_BYTES))
        for count in self.into(buffer):
            whole += memoryview(buffer)[:count]
        return bytes(whole)

    def _next_chunk(self) -> None:
        self._left = _number(self._line().partition(b";")[0].decode("ascii", "replace"), 16, "chunk size")
        if self._left == 0:
            while self._line():
                continue  # trailers mean nothing here
            self.finished = True

    def _line(self, wanted: bytes | None = None) -> bytes:
        line = self._reader.readline(_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise ClientGone("the connection ended between chunks")
        line = line.rstrip(b"\r\n")
        if wanted is not None and line != wanted:
            raise BadRequest("a chunk is longer than it said")
        return line


@dataclass(slots=True)
class Request:
    """One request. Header names are lower case; `path` is decoded, `parts` its non-empty segments."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Body
    target: str
    version: str = "HTTP/1.1"
    local_port: int = 0

    @property
    def parts(self) -> list[str]:
        """The segments of the path."""
        return [part for part in self.path.split("/") if part]

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for `100 Continue`."""
        return "100-continue" in self.headers.get("expect", "").lower()

    def basic(self) -> tuple[str, str] | None:
        """User and password of `Authorization: Basic`, or None when there is none that can be read."""
        scheme, _, value = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            user, colon, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return (user, password) if colon else None


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; `close` ends the connection after it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    close: bool = False


def json_response(document: Any, status: int = 200, *, indent: int | None = None, close: bool = False) -> Response:
    """An answer with a JSON body."""
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    return Response(status, text.encode(), {"Content-Type": "application/json"}, close)


Handler = Callable[[Request], Response]


class HttpServer:
    """Serves `handler` on a loopback port; thread per connection, keep-alive, `stop` and `start` as often as wanted."""

    def __init__(self, name: str, handler: Handler, port: int = 0) -> None:
        self._handler = handler
        self._listener = Listener(name, self._serve, port)

    @property
    def port(self) -> int:
        """The port, the same before and after `stop`."""
        return self._listener.port

    @property
    def listening(self) -> bool:
        """Whether connections are accepted now."""
        return self._listener.listening

    def start(self) -> None:
        """Begin to accept connections."""
        self._listener.start()

    def stop(self) -> None:
        """Close the port and all connections at once."""
        self._listener.stop()

    def _serve(self, connection: socket.socket) -> None:
        with connection.makefile("rb", buffering=_LINE_BYTES) as reader:
            while self._one(connection, cast(Reader, reader)):
                continue

    def _one(self, connection: socket.socket, reader: Reader) -> bool:
        """Serve one request; whether another may follow on the connection."""
        try:
            request = _read_request(connection, reader)
            if request is None:
                return False
            response = self._handler(request)
        except Cut:
            hang_up(connection)
            return False
        except BadRequest as error:
            _send(connection, Response(400, str(error).encode(), close=True), close=True)
            return False
        last = response.close or not request.body.finished or request.headers.get("connection", "").lower() == "close"
        _send(connection, response, close=last, head_only=request.method == "HEAD")
        if last:
            _linger(connection)
        return not last


def _read_request(connection: socket.socket, reader: Reader) -> Request | None:
    line = reader.readline(_LINE_BYTES).strip()
    if not line:
        return None
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest("not an HTTP/1 request line")
    method, target, version = words
    headers = _read_headers(reader)
    expects = "100-continue" in headers.get("expect", "").lower()

    def before() -> None:
        if expects:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    body = Body(reader, headers, before)
    return Request(method, unquote(parts.path), query, headers, body, target, version, connection.getsockname()[1])


def _read_headers(reader: Reader) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := reader.readline(_LINE_BYTES).rstrip(b"\r\n"):
        name, colon, value = line.partition(b":")
        if not colon:
            raise BadRequest("a header line without a colon")
        headers[name.decode("latin-1").strip().lower()] = _text(value.strip(b" \t"))
    return headers


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _send(connection: socket.socket, response: Response, *, close: bool, head_only: bool = False) -> None:
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = "Unknown"
    headers = {"Content-Length": str(len(response.body)), "Connection": "close" if close else "keep-alive"}
    headers.update(response.headers)
    head = f"HTTP/1.1 {response.status} {phrase}\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in headers.items()
    )
    connection.sendall(head.encode() + b"\r\n" + (b"" if head_only else response.body))


def _linger(connection: socket.socket) -> None:
    """Let the answer reach the peer before the close: a close with bytes unread would reset the connection."""
    try:
        connection.shutdown(socket.SHUT_WR)
        while select.select([connection], [], [], 0.5)[0] and connection.recv(_LINE_BYTES):
            continue
    except OSError:
        return  # the peer closed first


def _number(text: str, base: int, what: str) -> int:
    try:
        number = int(text.strip(), base)
    except ValueError:
        number = -1
    if number < 0:
        raise BadRequest(f"{what} is not a number")
    return number
