"""Commands of a replica before the log flows: session settings, registration, and the dump commands as bytes.

Sources: MySQL "Replication Protocol" pages (COM_REGISTER_SLAVE, COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID),
`Gtid_set::encode` in `sql/rpl_gtid_set.cc`, `libs/mysql/gtid/tag.cpp`; MariaDB knowledge base "Replica Registration".
"""

from __future__ import annotations

import struct
import uuid
from typing import Any, Final

import pymysql
from pymysql.constants import COMMAND

from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import as_source_error
from connectors.mysql.server.server_check import accept_checksums, announce_reader
from connectors.mysql.server.server_info import query, where_of

HEARTBEAT_S: Final = 10.0
"""Default seconds of silence after which the server sends a heartbeat."""

_WRITE_TIMEOUT_S: Final = 86_400
"""The server drops a reader that pauses longer than this while log is waiting."""

_NON_BLOCK: Final = 0x01
_SEND_ANNOTATIONS: Final = 0x02
_HEARTBEAT_V2: Final = 0x02
_GTID_COMMAND: Final = 0x1E
_TAGGED: Final = 1
LARGEST_POSITION: Final = 0xFFFFFFFF
"""COM_BINLOG_DUMP has four bytes for the position."""


def prepare_session(
    connection: MySqlConnection, *, mariadb: bool, gtid_set: str | None, heartbeat_s: float = HEARTBEAT_S
) -> None:
    """Set the session variables read by the dump thread: checksums as stored, heartbeats, timeouts, identity.

    Raises SourceError and SourceUnavailable.
    """
    period = int(heartbeat_s * 1_000_000_000)
    accept_checksums(connection, "master_binlog_checksum", *(() if mariadb else ("source_binlog_checksum",)))
    query(connection, f"SET @master_heartbeat_period = {period}, SESSION net_write_timeout = {_WRITE_TIMEOUT_S}")
    announce_reader(connection, str(uuid.uuid4()))
    if not mariadb:
        query(connection, f"SET @source_heartbeat_period = {period}")
        return
    query(connection, "SET @mariadb_slave_capability = 4")
    if gtid_set is not None:
        position = str(MariaDbGtid.parse(gtid_set))
        query(connection, "SET @slave_connect_state = %s, @slave_gtid_strict_mode = 1", (position,))


def register(connection: MySqlConnection, server_id: int) -> None:
    """Register this session as a replica. Raises SourceError, such as for a missing privilege."""
    body = struct.pack("<I", server_id) + b"\0\0\0" + struct.pack("<HII", 0, 0, 0)
    driver: Any = connection  # PyMySQL has no public name for commands it does not know
    try:
        driver._execute_command(COMMAND.COM_REGISTER_SLAVE, body)
        driver._read_packet()
    except (pymysql.err.MySQLError, OSError) as error:
        raise as_source_error(error, where_of(connection)) from error


def start_dump(connection: MySqlConnection, command: int, body: bytes) -> None:
    """Send a dump command; its response is the stream of events."""
    driver: Any = connection
    try:
        driver._execute_command(command, body)
    except (pymysql.err.MySQLError, OSError) as error:
        raise as_source_error(error, where_of(connection)) from error


def by_position(
    file: str, position: int, server_id: int, *, until_end: bool, annotations: bool = False
) -> tuple[int, bytes]:
    """Return COM_BINLOG_DUMP as (command, body). `position` is at most LARGEST_POSITION.

    annotations: request annotations from MariaDB. Since 11.4 the events of a transaction do not contain their
    positions, so without the annotations later events would seem to be nearer to its beginning.
    """
    flags = (_NON_BLOCK if until_end else 0) | (_SEND_ANNOTATIONS if annotations else 0)
    return COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", position, flags, server_id) + file.encode()


def by_gtid(gtid_set: str, server_id: int, *, until_end: bool) -> tuple[int, bytes]:
    """Return COM_BINLOG_DUMP_GTID for everything not in `gtid_set`; the empty set requests the whole existing log."""
    data = encode_gtid_set(GtidSet.parse(gtid_set))
    flags = _HEARTBEAT_V2 | (_NON_BLOCK if until_end else 0)
    return _GTID_COMMAND, struct.pack("<HIIQI", flags, server_id, 0, 4, len(data)) + data


def encode_gtid_set(gtids: GtidSet) -> bytes:
    """Encode a set: number of sources, then per source its id, (tag,) number of intervals, half-open intervals.

    If any source has a tag, the first eight bytes hold the format number 1 in the first and last byte and the number of
    sources between them, and every source id is followed by its tag's length (times two) and text.
    """
    tagged = any(tag for (_, tag), _ in gtids.sources)
    count = len(gtids.sources)
    parts = [struct.pack("<Q", _TAGGED << 56 | count << 8 | _TAGGED if tagged else count)]
    for (source, tag), intervals in gtids.sources:
        parts.append(uuid.UUID(source).bytes)
        if tagged:
            parts.append(bytes([len(tag) << 1]) + tag.encode())
        parts.append(struct.pack("<Q", len(intervals)))
        parts.extend(struct.pack("<QQ", first, last + 1) for first, last in intervals)
    return b"".join(parts)
