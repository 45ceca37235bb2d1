"""A TCP proxy that can cut connections in the middle of an event, and lead to another server."""

from __future__ import annotations

import contextlib
import socket
import threading


class CuttingProxy:
    """Forwards a loopback port to a server. `cut_after(n)` ends each connection that has brought n more bytes."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._left: int | None = None
        self._open: set[socket.socket] = set()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut_after(self, received: int) -> None:
        """Cut the connection that brings this byte from the server, once."""
        with self._lock:
            self._left = received

    def lead_to(self, port: int) -> None:
        """From now on the address is another server's; what is open to the old one is cut."""
        with self._lock:
            self._server_port = port
            ends = list(self._open)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                part, cut = self._allowed(data) if counted else (data, False)
                target.sendall(part)
                if cut:
                    break
        with self._lock:
            self._open -= {source, target}
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _allowed(self, data: bytes) -> tuple[bytes, bool]:
        with self._lock:
            if self._left is None:
                return data, False
            part = data[: self._left]
            self._left -= len(part)
            if self._left > 0:
                return part, False
            self._left = None
            self.cuts += 1
            return part, True
