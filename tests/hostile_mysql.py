"""A small server that begins the MySQL protocol and then does what no good server does. Keeps what clients sent."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SALT = b"12345678901234567890"
_CAPABILITIES = 0x00080000 | 0x00008000 | 0x00000200 | 0x00000001  # plugin auth, secure connection, protocol 41


class Visit:
    """One client's connection, as the script of a hostile server sees it."""

    def __init__(self, line: socket.socket, received: list[bytes]) -> None:
        self.line, self._received = line, received

    def send(self, number: int, body: bytes) -> None:
        """One packet."""
        self.line.sendall(struct.pack("<I", len(body))[:3] + bytes([number]) + body)

    def greet(self, plugin: str = "mysql_native_password", *, capabilities: int = 0) -> None:
        """The greeting of a server; `capabilities` are added to the usual ones, 0x0800 offers TLS."""
        offered = _CAPABILITIES | capabilities
        body = b"\x0a9.7.4\0" + struct.pack("<I", 7) + SALT[:8] + b"\0" + struct.pack("<H", offered & 0xFFFF)
        body += b"\xff" + struct.pack("<HHB", 2, offered >> 16, 21) + bytes(10) + SALT[8:] + b"\0"
        self.send(0, body + plugin.encode() + b"\0")

    def receive(self) -> bytes:
        """The next packet of the client; b"" when it went away."""
        head = self._exactly(4)
        body = self._exactly(int.from_bytes(head[:3], "little")) if head else b""
        self._received.append(body)
        return body

    def switch(self, plugin: str, number: int = 2) -> None:
        """Ask for another authentication method."""
        self.send(number, b"\xfe" + plugin.encode() + b"\0" + SALT + b"\0")

    def wait_for_the_end(self) -> None:
        """Say nothing until the client gives up."""
        with suppress(OSError):
            while data := self.line.recv(65536):
                self._received.append(data)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.line.recv(size - len(data))
            if not more:
                return b""
            data += more
        return data


class HostileServer:
    """Listens on this machine; `sent` is everything that clients sent, packet by packet."""

    def __init__(self, script: Callable[[Visit], None]) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.sent: list[bytes] = []
        self._lines: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self._lines.append(line)
                self._threads.append(threading.Thread(target=self._serve, args=(line,), daemon=True))
                self._threads[-1].start()

    def _serve(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            self._script(Visit(line, self.sent))

    def close(self) -> None:
        """Stop listening, and end every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for line in self._lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()


@contextmanager
def hostile(script: Callable[[Visit], None]) -> Iterator[HostileServer]:
    """A server that does to each client what the script says."""
    server = HostileServer(script)
    try:
        yield server
    finally:
        server.close()
