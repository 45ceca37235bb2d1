"""Compressed transactions and events, small and larger than a chunk."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
import zstandard
from binlog_builder import event, flat, log, query
from together import together

from cdc.errors import CorruptLog
from connectors.mysql import events
from connectors.mysql.log.expand import PIECE
from connectors.mysql.log.log_file import read_buffers


def packed(value: int) -> bytes:
    return bytes([value]) if value < 251 else b"\xfe" + value.to_bytes(8, "little")


def field(kind: int, value: int) -> bytes:
    data = packed(value)
    return bytes([kind, len(data)]) + data


def payload(inside: bytes, *, method: int = 0, stated: int | None = None, frames: int = 1) -> tuple[int, bytes]:
    """A TRANSACTION_PAYLOAD event; `frames` parts compressed one by one."""
    step = -(-len(inside) // frames)
    parts = [inside[at : at + step] for at in range(0, len(inside), step)]
    data = b"".join(map(zstandard.ZstdCompressor(write_content_size=False).compress, parts)) if method == 0 else inside
    head = field(2, method) + field(3, len(inside) if stated is None else stated) + field(1, len(data)) + b"\0"
    return events.TRANSACTION_PAYLOAD, head + data


def inner(*bodies: bytes, kind: int = events.WRITE_ROWS_V2) -> bytes:
    return b"".join(event(kind, body, 0, checksum=False) for body in bodies)


def read(tmp_path: Path, *parts: tuple[int, bytes]) -> list[tuple[int, int, bytes]]:
    """End position, type and body of all events but the first."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(parts))
    return [(position, kind, body) for _, position, kind, _, _, body in flat(read_buffers(path))][1:]


@pytest.mark.parametrize(("method", "frames"), [(0, 1), (0, 3), (255, 1)])
def test_payloads_between_plain_events(tmp_path: Path, method: int, frames: int) -> None:
    inside = inner(b"a" * 100, b"b") + inner(query(b"BEGIN"), kind=events.QUERY)
    parts = ((events.XID, bytes(8)), payload(inside, method=method, frames=frames), (events.XID, b"\1" * 8))
    found = read(tmp_path, *parts, payload(inner(b"c")))
    rows = events.WRITE_ROWS_V2
    assert [(kind, body) for _, kind, body in found] == [
        (events.XID, bytes(8)), (rows, b"a" * 100), (rows, b"b"), (events.QUERY, query(b"BEGIN")),
        (events.XID, b"\1" * 8), (rows, b"c"),
    ]  # fmt: skip
    assert found[1][0] == found[2][0] == found[3][0] > found[0][0]


def test_a_payload_bigger_than_a_chunk_comes_in_pieces(tmp_path: Path) -> None:
    bodies = [bytes([65 + index % 26]) * 999_983 for index in range(30)] + [b"z" * (PIECE + 12_345), b"end"]
    path = tmp_path / "binlog.000001"
    path.write_bytes(log([payload(inner(*bodies)), (events.XID, bytes(8))]))
    chunks = list(read_buffers(path))
    assert [body for _, _, kind, _, _, body in flat(chunks) if kind == events.WRITE_ROWS_V2] == bodies
    assert len(chunks) > 4
    assert max(len(chunk.data) for chunk in chunks) <= 2 * (PIECE + 12_345 + 19)


def test_many_small_payloads_are_joined_into_chunks_of_limited_size(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log([payload(inner(bytes([index]) * 1_000_000)) for index in range(40)]))
    chunks = list(read_buffers(path))
    assert len(flat(chunks)) == 41
    assert max(len(chunk.data) for chunk in chunks) <= PIECE


@together(
    "part, message",
    [
        (payload(inner(b"a"), stated=19), "it states 19 bytes and holds 20"),
        (payload(inner(b"a", b"b"), stated=20), "it states 20 bytes and holds 21"),
        (payload(inner(b"a"), stated=21), "it states 21 bytes and holds 20"),
        (payload(inner(b"a"), method=255, stated=3), "it states 3 bytes and holds others"),
        (payload(inner(b"a"), method=7), "its header cannot be read"),
        (payload(inner(b"a") + b"rest"), "the events inside have impossible lengths"),
        (payload(inner(b"", kind=events.FORMAT_DESCRIPTION)), "an event that cannot be inside"),
        (payload(inner(b"\2\1\0\0", kind=events.TRANSACTION_PAYLOAD)), "an event that cannot be inside"),
        ((events.TRANSACTION_PAYLOAD, field(2, 0) + field(3, 9) + field(1, 3) + b"\0abc"), "cannot be expanded"),
        (payload(inner(*[b"a" * 1_000_000] * 10) + b"x"), "states 10000191 bytes"),
        (payload(inner(*[b"a" * 1_000_000] * 10), stated=PIECE + 1), r"states 8388609 bytes and holds 10000190"),
    ],
)
def test_payloads_that_are_not_what_they_state_are_corrupt(
    tmp_path: Path, part: tuple[int, bytes], message: str
) -> None:
    with pytest.raises(CorruptLog, match=message):
        read(tmp_path, part)


def squeezed(plain: bytes, *, stated: int | None = None) -> bytes:
    size = (len(plain) if stated is None else stated).to_bytes(4, "big").lstrip(b"\0")
    return bytes([0x80 | len(size)]) + size + zlib.compress(plain)


ROWS_V1 = struct.pack("<IHH", 9, 0, 1) + b"\x0a\xff\x03"
ROWS_V2 = struct.pack("<IHHH", 9, 0, 1, 5) + b"abc" + b"\x0a\xff\x03"


@together(
    "kind, head, plain_kind",
    [
        (events.MARIADB_WRITE_ROWS_COMPRESSED_V1, ROWS_V1, events.WRITE_ROWS_V1),
        (events.MARIADB_UPDATE_ROWS_COMPRESSED_V1, ROWS_V1 + b"\xfe\x03", events.UPDATE_ROWS_V1),
        (events.MARIADB_DELETE_ROWS_COMPRESSED_V1, ROWS_V1, events.DELETE_ROWS_V1),
        (events.MARIADB_WRITE_ROWS_COMPRESSED_V2, ROWS_V2, events.WRITE_ROWS_V2),
        (events.MARIADB_UPDATE_ROWS_COMPRESSED_V2, ROWS_V2 + b"\xfe\x03", events.UPDATE_ROWS_V2),
        (events.MARIADB_DELETE_ROWS_COMPRESSED_V2, ROWS_V2, events.DELETE_ROWS_V2),
        (events.MARIADB_QUERY_COMPRESSED, query(b"", b"shop", b"\6\3std"), events.QUERY),
    ],
)
def test_compressed_events_of_mariadb_become_plain_ones(
    tmp_path: Path, kind: int, head: bytes, plain_kind: int
) -> None:
    plain = b"COMMIT" if plain_kind == events.QUERY else bytes(range(256)) * 3
    path = tmp_path / "binlog.000001"
    path.write_bytes(log([(kind, head + squeezed(plain))]))
    chunk = list(read_buffers(path))[-1]
    assert chunk.type.tolist() == [plain_kind]
    assert chunk.body(0) == head + plain
    start = int(chunk.start[0])
    assert chunk.data[start + 4] == plain_kind
    assert int.from_bytes(chunk.data[start + 9 : start + 13].tobytes(), "little") == 19 + len(head) + len(plain)
    assert chunk.query_kind.tolist() == [events.COMMIT if plain_kind == events.QUERY else 0]
    assert chunk.end_position.tolist() == [path.stat().st_size]


@pytest.mark.parametrize("stated", [5, 7, 1 << 31])
def test_compressed_events_with_a_wrong_size_are_corrupt(tmp_path: Path, stated: int) -> None:
    body = query(b"") + squeezed(b"COMMIT", stated=stated)
    with pytest.raises(CorruptLog, match="cannot be expanded"):
        read(tmp_path, (events.MARIADB_QUERY_COMPRESSED, body))
