"""Receives the bytes of a replication stream from its socket.

Returned data is never overwritten: much data is returned as the buffer itself, which is then replaced, little data as a
copy.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final

from connectors.mysql.log.buffers import acquire_buffer, carry
from connectors.mysql.log.receive_buffer import Bytes

SMALL_BYTES: Final = 64 << 10
"""Up to this size data is copied out of the buffer, so that a few small events do not pin a whole buffer."""
_LINGER_S: Final = 0.002
_LONGEST_LINGER_S: Final = 0.05
"""Time to wait for more while much data flows, and the total limit for it, to fill bigger buffers."""
_LOW_WATER_BYTES: Final = 1 << 20
"""Minimum bytes that wake up a lingering receiver (socket(7), SO_RCVLOWAT), unless fewer are wanted."""


class Receiver:
    """One socket and the buffer that it fills. The socket stays the caller's.

    Attributes:
        filled: received and unconsumed bytes at the start of the buffer.
        broken: why nothing more will arrive; empty while the connection is good.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        self._socket, self._buffer = sock, acquire_buffer()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self.filled, self.broken = 0, ""

    def fill(self, limit: int | None) -> int:
        """Receive available data, and wait for more only while much is flowing; returns the number of bytes.

        limit: maximum bytes in the buffer, above the current fill; None: as much as fits.
        """
        before = self.filled
        limit = len(self._buffer) if limit is None else min(limit, len(self._buffer))
        self._receive(limit)
        if self.filled - before >= SMALL_BYTES:
            self._linger(limit)
        return self.filled - before

    def wait(self, timeout_s: float) -> bool:
        """Wait until data arrives or the connection ends; returns False when neither happens in time."""
        return bool(self._poll.poll(timeout_s * 1000))

    def interrupt(self) -> None:
        """Shut down the connection for reading, so that `wait` returns.

        Any thread; the socket may be closed already.
        """
        with suppress(OSError):
            socket.socket.shutdown(
                self._socket, socket.SHUT_RD
            )  # the one of the TLS socket would continue in plain text

    def contents(self) -> Bytes:
        """Return the received, unconsumed bytes. They are not overwritten any more after `consume`."""
        held = self._buffer[: self.filled]
        return held.copy() if self.filled <= SMALL_BYTES else held

    def consume(self, size: int) -> None:
        """Drop the first bytes of `contents`; the rest is at the start of the buffer afterwards."""
        buffer, filled = self._buffer, self.filled
        if filled <= SMALL_BYTES:
            buffer[: filled - size] = buffer[size:filled].copy()
        elif size or filled == len(buffer):
            self._buffer = carry(buffer, size, filled)
        self.filled = filled - size

    def first(self, size: int) -> bytes:
        """Return the first bytes of the buffer."""
        return self._buffer[:size].tobytes()

    def _linger(self, limit: int) -> None:
        """Wait for more data, waking up once for many packets instead of for each."""
        started = time.monotonic()
        while self.filled < limit and not self.broken and time.monotonic() - started < _LONGEST_LINGER_S:
            before = self.filled
            low_water = min(_LOW_WATER_BYTES, limit - before)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water)
            self.wait(_LINGER_S)
            self._receive(limit)
            if self.filled == before:
                break
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def _receive(self, limit: int) -> None:
        view = memoryview(self._buffer.data)[:limit]
        while self.filled < limit:
            try:
                got = self._socket.recv_into(view[self.filled :])
            except (BlockingIOError, ssl.SSLWantReadError):
                return
            except OSError as error:
                self.broken = f"the connection broke: {error.strerror or error}"
                return
            if got == 0:
                self.broken = "the server closed the connection"
                return
            self.filled += got
