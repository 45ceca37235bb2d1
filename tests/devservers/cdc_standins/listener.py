"""Accepting connections: one listening socket, one thread per connection, and an end that leaves nothing open."""

from __future__ import annotations

import random
import select
import socket
import threading
from collections.abc import Callable

Serve = Callable[[socket.socket], None]
_OWN_PORTS = range(27_000, 32_000)
"""Below those that systems give to connections, and none that servers of tests are given: a stand-in that is killed and
started again finds its port free."""


class Listener:
    """Listens on the loopback interface and calls `serve` in a thread of its own for each connection.

    `port` 0 takes a free one; after `stop`, `start` listens on the same port again. `serve` need not close the socket.
    """

    def __init__(self, name: str, serve: Serve, port: int = 0, host: str = "127.0.0.1") -> None:
        self.name, self.host, self.port = name, host, port
        self._serve = serve
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._socket: socket.socket | None = None
        self._wake: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._bind()

    @property
    def listening(self) -> bool:
        """Whether connections are accepted now."""
        return self._thread is not None

    def start(self) -> None:
        """Begin to accept connections; nothing happens when it does already."""
        if self._thread is not None:
            return
        listening = self._socket or self._bind()
        listening.listen(128)
        self._wake, wake = socket.socketpair()
        self._thread = threading.Thread(
            target=self._accept, args=(listening, wake), name=f"{self.name}-accept", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Close the port and every connection at once: peers see a reset or an end, later ones a refused connection."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        assert self._wake is not None
        self._wake.close()
        if thread is not threading.current_thread():
            thread.join()
        self._socket = None
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            hang_up(connection)

    def _bind(self) -> socket.socket:
        ports = [self.port] if self.port else random.SystemRandom().sample(_OWN_PORTS, 100)
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if self.port:  # one just picked may be bound by another that does not listen yet: that one is not shared
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for port in ports:
            try:
                listening.bind((self.host, port))
                break
            except OSError as error:
                refused = error
        else:
            listening.close()
            raise OSError(f"{self.name}: port {port} is not free: {refused}") from refused
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.port, self._socket = port, listening
        return listening

    def _accept(self, listening: socket.socket, wake: socket.socket) -> None:
        with listening, wake:
            while True:
                ready, _, _ = select.select([listening, wake], [], [])
                if wake in ready:
                    return
                connection, _ = listening.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._open.add(connection)
                threading.Thread(target=self._run, args=(connection,), name=self.name, daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._serve(connection)
        except (ConnectionError, TimeoutError):
            return  # the peer went away: it knows
        finally:
            with self._lock:
                self._open.discard(connection)


def hang_up(connection: socket.socket) -> None:
    """End a connection in both directions, whatever its thread is doing."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was gone already
