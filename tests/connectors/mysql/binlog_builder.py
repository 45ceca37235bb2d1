"""Makes binary logs byte by byte: what real servers do not write on demand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from connectors.mysql import events
from connectors.mysql.log.receive_buffer import ReceiveBuffer

FIXTURES = Path(__file__).parents[2] / "fixtures" / "binlog"
Event = tuple[int, bytes]
"""Type and body."""


def format_description(checksum: bool, *, at: int = 4, flags: int = 0, version: bytes = b"9.7.0") -> bytes:
    lengths = bytearray(42)
    for kind, size in ((events.QUERY, 13), (events.TABLE_MAP, 8)):
        lengths[kind - 1] = size
    body = struct.pack("<H50sIB", 4, version, 0, 19) + bytes(lengths) + bytes([checksum])
    header = _header(events.FORMAT_DESCRIPTION, len(body) + 4, at, flags=0)
    sealed = header + body + struct.pack("<I", zlib.crc32(header + body))
    return sealed[:17] + struct.pack("<H", flags) + sealed[19:]


def _header(kind: int, body_size: int, at: int, *, flags: int, seconds: int = 1_700_000_000) -> bytes:
    size = 19 + body_size
    return struct.pack("<IBIIIH", seconds, kind, 1, size, (at + size) & 0xFFFFFFFF, flags)


def event(
    kind: int, body: bytes, at: int, *, checksum: bool = True, flags: int = 0, stated: int | None = None
) -> bytes:
    """One event that begins at position `at`; `stated` replaces the position in its header."""
    plain = _header(kind, len(body) + 4 * checksum, at, flags=flags) + body
    if stated is not None:
        plain = plain[:13] + struct.pack("<I", stated) + plain[17:]
    return plain + (struct.pack("<I", zlib.crc32(plain)) if checksum else b"")


def log(parts: Iterable[Event], *, checksum: bool = True, flags: int = 0) -> bytes:
    """A whole binary log file."""
    data = events.MAGIC + format_description(checksum)
    for kind, body in parts:
        data += event(kind, body, len(data), checksum=checksum, flags=flags)
    return data


def packets(payload: bytes, sequence: int) -> bytes:
    """An event as the server sends it: zero byte first, cut into client packets, the first with number `sequence`."""
    data, out = b"\0" + payload, b""
    while True:
        piece, data = data[: events.MAX_PACKET], data[events.MAX_PACKET :]
        out += len(piece).to_bytes(3, "little") + bytes([sequence & 0xFF]) + piece
        sequence += 1
        if len(piece) < events.MAX_PACKET:
            return out


def query(sql: bytes, schema: bytes = b"shop", variables: bytes = b"") -> bytes:
    return struct.pack("<IIBHH", 1, 0, len(schema), 0, len(variables)) + variables + schema + b"\0" + sql


def gtid(source: bytes, number: int, commit_us: int = 1_700_000_000_123_456) -> bytes:
    """Body of a GTID event of MySQL 8."""
    clock = b"\2" + bytes(16) + commit_us.to_bytes(7, "little")
    return b"\0" + source + number.to_bytes(8, "little") + clock + b"\x50" + bytes(4)


def flat(chunks: Iterable[ReceiveBuffer]) -> list[tuple[str, int, int, int, int, bytes]]:
    """File, end position, type, commit time, query kind and body of every event."""
    return [
        (chunk.file, int(chunk.end_position[index]), int(chunk.type[index]), int(chunk.commit_ms[index]),
         int(chunk.query_kind[index]), chunk.body(index))
        for chunk in chunks
        for index in range(len(chunk))
    ]  # fmt: skip


def names(chunks: Iterable[ReceiveBuffer]) -> dict[str, int]:
    """How many events of each type."""
    found: dict[str, int] = {}
    for chunk in chunks:
        for kind in chunk.type.tolist():
            found[events.type_name(kind)] = found.get(events.type_name(kind), 0) + 1
    return found
