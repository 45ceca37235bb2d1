"""Binary log event types and sizes of MySQL 5.6 - 9.x and MariaDB 10 - 11, and the errors of a log that cannot be read.

Sources of the format: MySQL "Replication Protocol / Binlog Event" pages and `libs/mysql/binlog/event/*_events.h`;
MariaDB `sql/log_event.h` and the "Replication Protocol" pages of its knowledge base.

Every event starts with a 19-byte header, all numbers little-endian:

| bytes | field |
|---|---|
| 0-3 | timestamp, seconds since the epoch |
| 4 | type |
| 5-8 | server id |
| 9-12 | size of the whole event, with header and checksum |
| 13-16 | position after the event in its file, modulo 2**32; 0 for events made up by the sender |
| 17-18 | flags |
"""

from __future__ import annotations

from typing import Final

START_V3: Final = 1
QUERY: Final = 2
STOP: Final = 3
ROTATE: Final = 4
INTVAR: Final = 5
LOAD: Final = 6
SLAVE: Final = 7
CREATE_FILE: Final = 8
APPEND_BLOCK: Final = 9
EXEC_LOAD: Final = 10
DELETE_FILE: Final = 11
NEW_LOAD: Final = 12
RAND: Final = 13
USER_VAR: Final = 14
FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
BEGIN_LOAD_QUERY: Final = 17
EXECUTE_LOAD_QUERY: Final = 18
TABLE_MAP: Final = 19
WRITE_ROWS_V1: Final = 23
UPDATE_ROWS_V1: Final = 24
DELETE_ROWS_V1: Final = 25
INCIDENT: Final = 26
HEARTBEAT: Final = 27
IGNORABLE: Final = 28
ROWS_QUERY: Final = 29
WRITE_ROWS_V2: Final = 30
UPDATE_ROWS_V2: Final = 31
DELETE_ROWS_V2: Final = 32
GTID: Final = 33
ANONYMOUS_GTID: Final = 34
PREVIOUS_GTIDS: Final = 35
TRANSACTION_CONTEXT: Final = 36
VIEW_CHANGE: Final = 37
XA_PREPARE: Final = 38
PARTIAL_UPDATE_ROWS: Final = 39
TRANSACTION_PAYLOAD: Final = 40
HEARTBEAT_V2: Final = 41
GTID_TAGGED: Final = 42
MARIADB_ANNOTATE_ROWS: Final = 160
MARIADB_BINLOG_CHECKPOINT: Final = 161
MARIADB_GTID: Final = 162
MARIADB_GTID_LIST: Final = 163
MARIADB_START_ENCRYPTION: Final = 164
MARIADB_QUERY_COMPRESSED: Final = 165
MARIADB_WRITE_ROWS_COMPRESSED_V1: Final = 166
MARIADB_UPDATE_ROWS_COMPRESSED_V1: Final = 167
MARIADB_DELETE_ROWS_COMPRESSED_V1: Final = 168
MARIADB_WRITE_ROWS_COMPRESSED_V2: Final = 169
MARIADB_UPDATE_ROWS_COMPRESSED_V2: Final = 170
MARIADB_DELETE_ROWS_COMPRESSED_V2: Final = 171
MARIADB_PARTIAL_ROW_DATA: Final = 172

NAMES: Final[dict[int, str]] = {
    value: name for name, value in dict(globals()).items() if isinstance(value, int) and name.isupper()
}
"""Event type names for error messages. Must come before any other number of this module."""

MAGIC: Final = b"\xfebin"
ENCRYPTED_MAGIC: Final = b"\xfdbin"
HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4
MAX_PACKET: Final = 0xFFFFFF
"""Payload length of a packet whose event continues in the next packet."""

FLAG_IN_USE: Final = 0x1
FLAG_ARTIFICIAL: Final = 0x20
FLAG_IGNORABLE: Final = 0x80

ROWS_TYPES: Final = frozenset(
    {
        WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1, WRITE_ROWS_V2, UPDATE_ROWS_V2, DELETE_ROWS_V2,
        PARTIAL_UPDATE_ROWS,
    }
)  # fmt: skip
GTID_TYPES: Final = frozenset({GTID, ANONYMOUS_GTID, GTID_TAGGED, MARIADB_GTID})
FILE_HEADS: Final = frozenset({FORMAT_DESCRIPTION, PREVIOUS_GTIDS, MARIADB_GTID_LIST, MARIADB_BINLOG_CHECKPOINT})
"""Events at the beginning of a file, and MariaDB's checkpoint, which also follows commits.

A log range may end there.
"""

QUERY_POST_HEADER: Final = 13
LOAD_FILE_FIELDS: Final = 13
"""Size of the fields that EXECUTE_LOAD_QUERY adds to those of QUERY: file id, name position, duplicate handling."""
TABLE_MAP_POST_HEADER: Final = 8
ROWS_V1_POST_HEADER: Final = 8
ROWS_V2_POST_HEADER: Final = 10

BEGIN: Final = 1
"""`query_kind`: BEGIN opens a transaction."""
COMMIT: Final = 2
"""`query_kind`: COMMIT ends one (engines without XID, or a statement that commits)."""
HARMLESS: Final = 3
"""`query_kind`: changes no row and no table: SAVEPOINT, XA START, FLUSH, a comment."""
OTHER: Final = 4
"""`query_kind`: DDL, statement-format DML, XA COMMIT and everything else that must be examined."""
ROLLBACK: Final = 5
"""`query_kind`: ROLLBACK or ROLLBACK TO: earlier rows of transactional tables in the same transaction are void."""


def type_name(code: int) -> str:
    """Name of an event type, such as `QUERY`, or `type 200` for an unknown one."""
    return NAMES.get(code, f"type {code}")
