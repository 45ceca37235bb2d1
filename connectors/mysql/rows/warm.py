"""Loads the decoder's kernels by decoding a log of two rows; compiles them if no cached code fits this machine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np

from cdc.schema import TableId
from connectors.mysql import events
from connectors.mysql.kernels import framing
from connectors.mysql.log.event_bodies import gtid_runs
from connectors.mysql.log.indexer import Indexer
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.decoder import Decoder
from connectors.mysql.table import MySqlColumn, MySqlTable

_TABLE = TableId("warm", "up")
_COLUMNS = (MySqlColumn("id", "int"), MySqlColumn("note", "varchar", 20, charset="latin1"))
_POST_HEADERS = {events.QUERY: 13, events.TABLE_MAP: 8, events.WRITE_ROWS_V2: 10}


def warm_kernels() -> int:
    """Index and decode two rows; returns their number. Executor and stream reader; a repeat is free."""
    decoder = Decoder({_TABLE: MySqlTable(_TABLE, _COLUMNS)}, captures=_TABLE.__eq__, count=lambda reason, number: None)
    return sum(len(block) for buffer in indexed() for block in decoder.decode(buffer))


def indexed() -> Iterator[ReceiveBuffer]:
    """Index the log's events and transactions, as before reading its rows."""
    log = np.frombuffer(bytearray(_log()), np.uint8)
    for buffer in Indexer(framing.FILE, "warm.000001", len(events.MAGIC)).buffers(log, len(log), len(events.MAGIC)):
        gtid_runs(buffer, 0, len(buffer))
        yield buffer


def _log() -> bytes:
    """Build a log of format description, GTID, BEGIN, TABLE_MAP, WRITE_ROWS and XID, with checksums."""
    lengths = bytes(_POST_HEADERS.get(kind, 0) for kind in range(1, events.GTID_TAGGED + 1))
    table_id = (7).to_bytes(6, "little")
    names = b"".join(bytes([len(name)]) + name + b"\0" for name in (b"warm", b"up"))
    row = b"\0" + struct.pack("<i", 1) + b"\2ab"
    parts = (
        (events.FORMAT_DESCRIPTION, struct.pack("<H50sIB", 4, b"9.7.0", 0, events.HEADER_SIZE) + lengths + b"\1"),
        (events.GTID, b"\0" + bytes(16) + (1).to_bytes(8, "little") + b"\2" + bytes(16)),
        (events.QUERY, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0BEGIN"),
        (events.TABLE_MAP, table_id + b"\1\0" + names + b"\2" + bytes((3, 15)) + b"\2" + struct.pack("<H", 20) + b"\3"),
        (events.WRITE_ROWS_V2, table_id + b"\1\0" + b"\2\0" + b"\2\3" + row + row),
        (events.XID, bytes(8)),
    )
    data = events.MAGIC
    for kind, body in parts:
        size = events.HEADER_SIZE + len(body) + events.CHECKSUM_SIZE
        plain = struct.pack("<IBIIIH", 1, kind, 1, size, len(data) + size, 0) + body
        data += plain + struct.pack("<I", zlib.crc32(plain))
    return data
