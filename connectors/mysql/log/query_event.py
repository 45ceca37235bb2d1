"""QUERY events: the statement, the session settings that affect its meaning, and its default database.

EXECUTE_LOAD_QUERY is a QUERY event with a longer head: LOAD DATA in statement format, whose file came in earlier
events. Sources: MySQL `Query_event` in `libs/mysql/binlog/event/statement_events.h` and MariaDB `sql/log_event.h` for
the status variables, which are written in ascending order of their codes, so that a reader stops at the first unknown
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdc.errors import CorruptLog
from connectors.mysql import events
from connectors.mysql.log.receive_buffer import ReceiveBuffer

_SQL_MODE, _CATALOG, _CHARSET, _TIME_ZONE, _CATALOG_NZ = 1, 2, 4, 5, 6
_INVOKER, _UPDATED_DATABASES, _EXPLICIT_TIMESTAMP = 11, 12, 16
_MARIADB_GTID_FLAGS = 130
_FLAGS, _EXPLICIT_FLAG = 0, 1 << 24
"""Code of the session's flags, and the flag that MariaDB's sources call OPTION_EXPLICIT_DEF_TIMESTAMP."""
_FIXED: Final = {
    0: 4, _SQL_MODE: 8, 3: 4, _CHARSET: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, _EXPLICIT_TIMESTAMP: 1, 17: 8, 18: 2, 19: 1,
    20: 1, 128: 3, 129: 8,
}  # fmt: skip
"""Sizes of fixed-size values, by code."""

_CODECS: Final = {
    "cp1252": (5, 8, 15, 31, 47, 48, 49, 94), "big5hkscs": (1, 84), "gbk": (28, 87), "gb2312": (24, 86),
    "gb18030": (248, 249, 250), "shift_jis": (13, 88), "cp932": (95, 96), "euc_jp": (12, 91, 97, 98),
    "euc_kr": (19, 85), "tis_620": (18, 89), "koi8_r": (7, 74), "koi8_u": (22, 75), "cp1251": (14, 23, 50, 51, 52),
    "cp866": (36, 68), "cp850": (4, 80), "cp852": (40, 81), "iso8859_2": (2, 9, 21, 27, 77), "iso8859_7": (25, 70),
    "iso8859_8": (16, 71), "iso8859_9": (30, 78), "iso8859_13": (20, 41, 42, 79), "cp1250": (26, 34, 44, 66, 99),
    "cp1256": (57, 67), "cp1257": (29, 58, 59),
}  # fmt: skip
"""Python codec by default and binary collation ids of `character_set_client`; all others are UTF-8 or ASCII."""
_CODEC_OF: Final = {collation: codec for codec, collations in _CODECS.items() for collation in collations}
_UCS2: Final = (33, 35, 76, 83, 90, *range(128, 152), 159, *range(192, 216), 223)
_LITERALS_OF: Final = {**_CODEC_OF, 11: "ascii", 65: "ascii", **dict.fromkeys(_UCS2, "ucs2")}


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """One statement as logged. Settings are None if the log does not contain them.

    Attributes:
        schema: default database; may be empty.
        sql: the statement, decoded from the client's character set.
        sql_mode: bits of the session's sql_mode, as read by `ddl.dialect`.
        server_collation: id of the collation of new databases.
        literals: as in `DdlDialect`.
        time_zone: of the session, `SYSTEM` or `+05:00`; empty if it does not matter.
        explicit_timestamp: `explicit_defaults_for_timestamp` as logged by MySQL.
        explicit_timestamp_flag: the same as logged by MariaDB since 10.8.4; meaningless for other servers.
        error_code: not 0: the statement failed half-way on the server and was logged for its partial effect.
    """

    schema: str
    sql: str
    sql_mode: int | None = None
    server_collation: int | None = None
    literals: str = ""
    time_zone: str = ""
    explicit_timestamp: bool | None = None
    explicit_timestamp_flag: bool | None = None
    error_code: int = 0


def parse_query(buffer: ReceiveBuffer, index: int) -> QueryEvent:
    """Parse a QUERY or EXECUTE_LOAD_QUERY event. Raises CorruptLog when its lengths do not fit."""
    body, head = buffer.body(index), events.QUERY_POST_HEADER
    if int(buffer.type[index]) == events.EXECUTE_LOAD_QUERY:
        body = body[:head] + body[head + events.LOAD_FILE_FIELDS :]
    if len(body) < head:
        raise CorruptLog("a QUERY event with inconsistent lengths", where=buffer.where(index))
    names_end = head + int.from_bytes(body[11:13], "little")
    sql_start = names_end + body[8] + 1
    if sql_start > len(body):
        raise CorruptLog("a QUERY event with inconsistent lengths", where=buffer.where(index))
    found = _variables(body[head:names_end])
    collations = found.get(_CHARSET, b"")
    client = _number(collations[0:2])
    return QueryEvent(
        schema=body[names_end : sql_start - 1].decode("utf-8", "backslashreplace"),
        sql=body[sql_start:].decode(_CODEC_OF.get(client or 0, "utf-8"), "backslashreplace"),
        sql_mode=_number(found.get(_SQL_MODE, b"")),
        server_collation=_number(collations[4:6]),
        literals=_literals(client, _number(collations[2:4])),
        time_zone=found.get(_TIME_ZONE, b"").decode("utf-8", "backslashreplace"),
        explicit_timestamp=bool(found[_EXPLICIT_TIMESTAMP][0]) if _EXPLICIT_TIMESTAMP in found else None,
        explicit_timestamp_flag=bool((_number(found[_FLAGS]) or 0) & _EXPLICIT_FLAG) if _FLAGS in found else None,
        error_code=int.from_bytes(body[9:11], "little"),
    )


def _literals(client: int | None, connection: int | None) -> str:
    codec = _LITERALS_OF.get(connection or 0, "")
    return "" if codec == _CODEC_OF.get(client or 0) else codec


def is_alone(buffer: ReceiveBuffer, *, begun: bool) -> bool:
    """Return whether the last event is FLUSH, GRANT or ANALYZE, with which the log may end.

    begun: the event before the buffer is a GTID. XA START does not count, nor do later statements of its transaction.
    """
    if buffer.type[-1] != events.QUERY or buffer.query_kind[-1] != events.HARMLESS:
        return False
    begins = int(buffer.type[-2]) in events.GTID_TYPES if len(buffer) > 1 else begun
    return begins and not parse_query(buffer, len(buffer) - 1).sql.upper().startswith("XA ")


def _number(data: bytes) -> int | None:
    return int.from_bytes(data, "little") if data else None


def _variables(data: bytes) -> dict[int, bytes]:
    """Return status variables by code, up to the first that is unknown or does not fit."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        code = data[at]
        size, skip = _size(code, data[at + 1 :])
        if size is None or at + 1 + skip + size > len(data):
            break
        found[code] = data[at + 1 + skip : at + 1 + skip + size]
        at += 1 + skip + size + (code == _CATALOG)
    return found


def _size(code: int, rest: bytes) -> tuple[int | None, int]:
    """Return (bytes of the value, bytes of the length before it); None for an unknown code."""
    if code in _FIXED:
        return _FIXED[code], 0
    if not rest:
        return None, 0
    if code in (_CATALOG, _TIME_ZONE, _CATALOG_NZ):
        return rest[0], 1
    if code == _INVOKER:
        host = 1 + rest[0]
        return (host + 1 + rest[host] if host < len(rest) else None), 0
    if code == _UPDATED_DATABASES:
        return _names_size(rest), 0
    if code == _MARIADB_GTID_FLAGS:
        return 2 + 8 * bool(rest[0] & 0x0C), 0
    return None, 0


def _names_size(rest: bytes) -> int | None:
    """Return the size of a count and that many zero-terminated names; 254 stands for too many to list."""
    at = 1
    for _ in range(rest[0] if rest[0] < 254 else 0):
        end = rest.find(b"\0", at)
        if end < 0:
            return None
        at = end + 1
    return at
