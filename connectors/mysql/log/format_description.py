"""FORMAT_DESCRIPTION events: who wrote the log, whether events have checksums, whether their layout is known.

Source: MySQL `Format_description_event` in `libs/mysql/binlog/event/control_events.h`; MariaDB's is the same.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from cdc.errors import CorruptLog, UnsupportedChange
from connectors.mysql import events
from connectors.shared.ddl.dialect import DdlDialect

_BODY = events.HEADER_SIZE
_CREATED = _BODY + 52
_POST_HEADERS = _BODY + 57
_NO_CHECKSUMS = 0
_KNOWN = {
    events.QUERY: events.QUERY_POST_HEADER,
    events.TABLE_MAP: events.TABLE_MAP_POST_HEADER,
    events.WRITE_ROWS_V1: events.ROWS_V1_POST_HEADER,
    events.UPDATE_ROWS_V1: events.ROWS_V1_POST_HEADER,
    events.DELETE_ROWS_V1: events.ROWS_V1_POST_HEADER,
    events.WRITE_ROWS_V2: events.ROWS_V2_POST_HEADER,
    events.UPDATE_ROWS_V2: events.ROWS_V2_POST_HEADER,
    events.DELETE_ROWS_V2: events.ROWS_V2_POST_HEADER,
}


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """`version` is the server's version text; with `checksum`, the events after this one end with a CRC-32."""

    version: str
    mariadb: bool
    checksum: bool


def parse(event: bytes, where: str) -> FormatDescription:
    """Parse and verify a complete FORMAT_DESCRIPTION event (header, body, checksum). `where` is for messages.

    Raises CorruptLog, and UnsupportedChange for a log of another format version.
    """
    if len(event) < _POST_HEADERS + events.CHECKSUM_SIZE + 1:
        raise CorruptLog("the format description event is too short", where=where)
    version = event[_BODY + 2 : _BODY + 52].rstrip(b"\0").decode("latin-1")
    sums = _has_checksums(version)
    if sums:
        _verify(event, where)
    binlog_version = int.from_bytes(event[_BODY : _BODY + 2], "little")
    if binlog_version != 4 or event[_BODY + 56] != events.HEADER_SIZE:
        raise UnsupportedChange(
            f"binary log format version {binlog_version} of server {version!r} is not known",
            where=where,
            hint="supported are logs of MySQL 5.1 and later and of MariaDB",
        )
    lengths = event[_POST_HEADERS : -events.CHECKSUM_SIZE - 1] if sums else event[_POST_HEADERS:]
    for kind, size in _KNOWN.items():
        if kind <= len(lengths) and lengths[kind - 1] not in (size, 0):
            raise UnsupportedChange(
                f"{events.type_name(kind)} events of server {version!r} have {lengths[kind - 1]} bytes of post-header, "
                f"not {size}",
                where=where,
                hint="this server version writes an unknown layout",
            )
    algorithm = event[-events.CHECKSUM_SIZE - 1] if sums else _NO_CHECKSUMS
    if algorithm not in (0, 1, 255):
        raise UnsupportedChange(f"checksum algorithm {algorithm} is not known", where=where)
    return FormatDescription(version, "mariadb" in version.lower(), algorithm == 1)


def _has_checksums(version: str) -> bool:
    """Return whether a server of that version supports checksums: MySQL since 5.6.1, all supported MariaDB versions."""
    server = DdlDialect.of(version)
    return server.mariadb or not 0 < server.version < 50601


def _verify(event: bytes, where: str) -> None:
    """Verify the event's own CRC-32, which is present even when other events have none.

    The in-use flag is excluded, as the server clears it in place when it closes the file. To a reader that begins
    inside a file or after a GTID set, the server sends the event with its time of creation set to 0, and recomputes the
    checksum only when the file's other events have one: otherwise it is the checksum of the unmodified event and cannot
    be verified.
    """
    modified = event[_CREATED : _CREATED + 4] == bytes(4)
    if modified and event[-events.CHECKSUM_SIZE - 1] == _NO_CHECKSUMS:
        return
    flags = event[17] & ~events.FLAG_IN_USE
    covered = event[:17] + bytes([flags]) + event[18 : -events.CHECKSUM_SIZE]
    if zlib.crc32(covered) != int.from_bytes(event[-events.CHECKSUM_SIZE :], "little"):
        raise CorruptLog(
            "wrong checksum of the format description event",
            where=where,
            hint="copy the file again",
        )
