"""Bodies of events other than rows: queries, GTIDs, rotations. For single events; rows have kernels."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass

import numpy as np

from cdc.errors import CorruptLog
from connectors.mysql import events
from connectors.mysql.kernels import gtid_log
from connectors.mysql.log.receive_buffer import ReceiveBuffer


@dataclass(frozen=True, slots=True)
class Gtid:
    """The identity of one transaction.

    Attributes:
        source: MySQL: `uuid` or `uuid:tag`; MariaDB: `domain-server`; empty for ANONYMOUS_GTID.
        number: transaction number (MySQL) or sequence number (MariaDB).
    """

    source: str
    number: int

    def __str__(self) -> str:
        if not self.source:
            return ""
        return f"{self.source}:{self.number}" if len(self.source) >= 36 else f"{self.source}-{self.number}"


def parse_gtid(buffer: ReceiveBuffer, index: int) -> Gtid:
    """Read a GTID, ANONYMOUS_GTID, GTID_TAGGED or MARIADB_GTID event. Raises CorruptLog."""
    kind, body = int(buffer.type[index]), buffer.body(index)
    if kind == events.MARIADB_GTID:
        _need(buffer, index, body, 13)
        server = int.from_bytes(buffer.data[int(buffer.start[index]) + 5 :][:4].tobytes(), "little")
        number, domain = struct.unpack_from("<QI", body)
        return Gtid(f"{domain}-{server}", number)
    if kind == events.GTID_TAGGED:
        source, fields = np.zeros(16, np.uint8), np.zeros(4, np.int64)
        if not gtid_log.tagged_fields(buffer.data, int(buffer.start[index]), int(buffer.end[index]), source, fields):
            raise CorruptLog("a GTID event that cannot be read", where=buffer.where(index))
        number, at, size, _ = fields.tolist()
        tag = buffer.data[at : at + size].tobytes().decode("ascii", "replace")
        return Gtid(f"{uuid.UUID(bytes=source.tobytes())}" + (f":{tag}" if tag else ""), number)
    if kind == events.ANONYMOUS_GTID:
        return Gtid("", 0)
    _need(buffer, index, body, 25)
    return Gtid(str(uuid.UUID(bytes=body[1:17])), int.from_bytes(body[17:25], "little"))


def gtid_runs(buffer: ReceiveBuffer, first: int, last: int) -> list[tuple[str, int, int]]:
    """Return the GTIDs of events `first` up to, not including, `last` as runs (`uuid[:tag]`, from, to).

    Both ends are inclusive. Runs are in log order; only neighbours are merged. Anonymous transactions have none. Raises
    CorruptLog.
    """
    return [
        (parse_gtid(buffer, index).source, begin, end)
        for index, begin, end in _runs(buffer, first, last)
        if buffer.type[index] != events.MARIADB_GTID
    ]


def mariadb_gtid_runs(buffer: ReceiveBuffer, first: int, last: int) -> list[tuple[int, int, int]]:
    """`gtid_runs` for MariaDB: (domain, server id, last sequence number), one per run of a domain and server."""
    found = []
    for index, _, number in _runs(buffer, first, last):
        if buffer.type[index] == events.MARIADB_GTID:
            domain, _, server = parse_gtid(buffer, index).source.partition("-")
            found.append((int(domain), int(server), number))
    return found


def _runs(buffer: ReceiveBuffer, first: int, last: int) -> list[tuple[int, int, int]]:
    if not 0 <= first <= last <= len(buffer):
        raise IndexError(f"events {first}:{last} of a buffer of {len(buffer)}")
    capacity = int(np.isin(buffer.type[first:last], sorted(events.GTID_TYPES)).sum())
    runs = np.empty((capacity, 3), np.int64)
    count = gtid_log.find_runs(buffer.data, buffer.start, buffer.end, buffer.type, first, last, runs)
    if count < 0:
        raise CorruptLog("a GTID event that cannot be read", where=buffer.where(-1 - count))
    return [(index, begin, end) for index, begin, end in runs[:count].tolist()]


def rotate_target(body: bytes, where: str) -> tuple[str, int]:
    """Return (next file, position in it) of a ROTATE event. Raises CorruptLog."""
    if len(body) <= 8:
        raise CorruptLog("a ROTATE event without a file name", where=where)
    return body[8:].rstrip(b"\0").decode("utf-8", "replace"), int.from_bytes(body[:8], "little")


def heartbeat_position(body: bytes, where: str) -> tuple[str, int]:
    """Return (file, position) of a HEARTBEAT_V2 event: type, length, value; 1 is the name, 2 the position, 0 ends."""
    name, position, at = "", 0, 0
    while at < len(body) and body[at] != 0:
        if at + 2 > len(body) or at + 2 + body[at + 1] > len(body):
            raise CorruptLog("a heartbeat with inconsistent lengths", where=where)
        kind, value = body[at], body[at + 2 : at + 2 + body[at + 1]]
        at += 2 + len(value)
        if kind == 1:
            name = value.decode("utf-8", "replace")
        elif kind == 2 and value:
            width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(value[0])
            position = value[0] if width is None else int.from_bytes(value[1 : 1 + width], "little")
    return name, position


def parse_previous_gtids(buffer: ReceiveBuffer, index: int) -> list[tuple[str, int, int]]:
    """Return (`uuid[:tag]`, from, to), both ends inclusive, of a PREVIOUS_GTIDS event. Raises CorruptLog.

    The layout is that of `dump_command.encode_gtid_set`.
    """
    body, found = buffer.body(index), []
    try:
        (head,) = struct.unpack_from("<Q", body)
        tagged = head >> 56 == 1
        count, at = (head >> 8 & 0xFFFFFFFFFFFF if tagged else head), 8
        for _ in range(count):
            source = str(uuid.UUID(bytes=body[at : at + 16]))
            at += 16
            if tagged:
                size = body[at] >> 1
                source += f":{body[at + 1 : at + 1 + size].decode('ascii')}" if size else ""
                at += 1 + size
            (intervals,) = struct.unpack_from("<Q", body, at)
            at += 8
            for _ in range(intervals):
                begin, end = struct.unpack_from("<QQ", body, at)
                found.append((source, begin, end - 1))
                at += 16
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptLog("a PREVIOUS_GTIDS event that cannot be read", where=buffer.where(index)) from error
    return found


def parse_gtid_list(buffer: ReceiveBuffer, index: int) -> list[tuple[int, int, int]]:
    """Return (domain, server id, sequence number) of a MARIADB_GTID_LIST event: the last ones before this file.

    Raises CorruptLog.
    """
    body = buffer.body(index)
    _need(buffer, index, body, 4)
    count = int.from_bytes(body[:4], "little") & 0x0FFFFFFF
    _need(buffer, index, body, 4 + 16 * count)
    return [struct.unpack_from("<IIQ", body, 4 + 16 * entry) for entry in range(count)]


def _need(buffer: ReceiveBuffer, index: int, body: bytes, size: int) -> None:
    if len(body) < size:
        name = events.type_name(int(buffer.type[index]))
        raise CorruptLog(
            f"a {name} event of {len(body)} bytes, at least {size} were expected", where=buffer.where(index)
        )
