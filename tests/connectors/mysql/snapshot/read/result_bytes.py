"""Answers to a prepared statement as bytes, and a driver's connection that reads them in pieces."""

from __future__ import annotations

import io
import random
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from pymysql.connections import Connection

LONGEST = 0xFFFFFF
END = b"\xfe\0\0\2\0"


def packed(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 251:
        return bytes([number])
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def sized(value: bytes) -> bytes:
    return packed(len(value)) + value


def packets(payloads: Iterable[bytes], sequence: int) -> bytes:
    """The payloads as packets, numbered from `sequence` on; long ones in several."""
    parts = []
    for payload in payloads:
        at = 0
        while True:
            part = payload[at : at + LONGEST]
            parts.append(len(part).to_bytes(3, "little") + bytes([sequence & 255]) + part)
            sequence, at = sequence + 1, at + LONGEST
            if len(part) < LONGEST:
                break
    return b"".join(parts)


def error(code: int, text: str = "trouble") -> bytes:
    return b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode()


def column(name: str, code: int, flags: int = 0) -> bytes:
    """A column definition."""
    words = b"".join(sized(word) for word in (b"def", b"d", b"t", b"t", name.encode(), name.encode()))
    return words + b"\x0c" + struct.pack("<HIBHBxx", 45, 80, code, flags, 0)


def row(values: Sequence[bytes | None]) -> bytes:
    """A row: its values as they are on the wire."""
    bitmap = bytearray((len(values) + 9) // 8)
    for index, value in enumerate(values):
        if value is None:
            bitmap[(index + 2) // 8] |= 1 << ((index + 2) % 8)
    return b"\0" + bytes(bitmap) + b"".join(value for value in values if value is not None)


def answers(columns: Sequence[bytes], rows: Iterable[bytes]) -> bytes:
    """What a server sends for prepare and execute; `rows` are the payloads after the columns."""
    count = struct.pack("<H", len(columns))
    prepared = packets([b"\0\1\0\0\0" + count + b"\0\0\0\0\0", *columns, END], 1)
    return prepared + packets([packed(len(columns)), *columns, END, *rows], 1)


class _Pieces(io.RawIOBase):
    """A socket that gives what was written to it in random pieces, at most `most` bytes at once."""

    def __init__(self, given: socket.socket, rng: random.Random, most: int) -> None:
        self._given, self._rng, self._most = given, rng, most

    def readable(self) -> bool:
        return True

    def recv_into(self, view: memoryview) -> int:
        return self._given.recv_into(view, min(len(view), self._rng.randint(1, self._most)))

    readinto = recv_into  # type: ignore[assignment]

    def settimeout(self, seconds: float | None) -> None:
        self._given.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self._given.sendall(data)

    def close(self) -> None:
        self._given.close()
        super().close()


class Server:
    """The other end: sends an answer, hears what is said."""

    def __init__(self, *, seed: int = 1, most: int = 1 << 16, read_timeout_s: float = 60.0) -> None:
        self.socket, ours = socket.socketpair()
        pieces = _Pieces(ours, random.Random(seed), most)
        self.connection: Connection[Any] = Connection(
            host="server", user="cdc", password="", defer_connect=True, read_timeout=read_timeout_s
        )
        driver: Any = self.connection
        driver._sock, driver._rfile = pieces, io.BufferedReader(pieces)
        driver._current_timeout, driver._next_seq_id = None, 0

    def close(self) -> None:
        self.connection._force_close()  # type: ignore[attr-defined]
        self.socket.close()
