"""Logs written as scripts: chunks for planner and reader tests, from events in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from binlog_builder import Event, gtid, log, query

from connectors.mysql import events
from connectors.mysql.kernels import framing
from connectors.mysql.log.indexer import Indexer
from connectors.mysql.log.receive_buffer import ReceiveBuffer

SOURCE = bytes(range(16))
STANDALONE = 0x01

BEGIN: Event = (events.QUERY, query(b"BEGIN"))
COMMIT: Event = (events.QUERY, query(b"COMMIT"))
XID: Event = (events.XID, bytes(8))


def sql(text: str) -> Event:
    return events.QUERY, query(text.encode())


def seen(number: int) -> Event:
    """MySQL's GTID event of transaction `number`."""
    return events.GTID, gtid(SOURCE, number)


def mariadb(number: int, flags: int = 0, extra: bytes = b"") -> Event:
    """MariaDB's GTID event: domain 0, server 1."""
    return events.MARIADB_GTID, number.to_bytes(8, "little") + bytes(4) + bytes([flags]) + extra + bytes(6)


def table_map(number: int, table: str) -> Event:
    database, name = (part.encode() for part in table.split("."))
    names = b"".join(bytes([len(part)]) + part + b"\0" for part in (database, name))
    return events.TABLE_MAP, number.to_bytes(6, "little") + b"\1\0" + names + b"\1\x08\0\0"


def rows(number: int, size: int = 40) -> Event:
    """A WRITE_ROWS event of a table id; planning looks at its size only."""
    return events.WRITE_ROWS_V2, number.to_bytes(6, "little") + b"\1\0\2\0\1\xff" + bytes(size)


def insert(number: int, table: str, *, size: int = 40, id_: int = 1) -> list[Event]:
    """A whole MySQL transaction: GTID, BEGIN, TABLE_MAP, one rows event, XID."""
    return [seen(number), BEGIN, table_map(id_, table), rows(id_, size), XID]


def chunk(script: Iterable[Event], file: str = "binlog.000001") -> ReceiveBuffer:
    """One file with all events of the script, as one chunk without the format description."""
    data = np.frombuffer(bytearray(log(script)[len(events.MAGIC) :]), np.uint8)
    _, found = Indexer(framing.FILE, file, len(events.MAGIC)).buffers(data, len(data))
    return found


def pieces(whole: ReceiveBuffer, cuts: Iterable[int] | None = None) -> Iterator[ReceiveBuffer]:
    """The chunk cut before these events; without cuts, one chunk for every event."""
    inner = range(1, len(whole)) if cuts is None else cuts
    for first, last in pairwise([0, *inner, len(whole)]):
        yield whole.part(first, last)
