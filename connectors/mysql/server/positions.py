"""Positions in a server's binary log: the existing files, where to start, and whether a position still exists."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import total_ordering

import pymysql
from pymysql.constants import COMMAND

from cdc.errors import PositionLost, SourceError
from connectors.mysql.gtid import GtidSet, MariaDbGtid
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import LOST_LOG_HINT, as_source_error
from connectors.mysql.server.gtid_range import lacking
from connectors.mysql.server.server_check import accept_checksums, announce_reader, free_server_id
from connectors.mysql.server.server_info import ServerInfo, query, where_of

FIRST_POSITION = 4  # every binlog file begins with a 4-byte magic number
_NON_BLOCK = 0x01  # BINLOG_DUMP_NON_BLOCK: end at the end of the log instead of waiting for more
_RESTART = f"{LOST_LOG_HINT}; and keep binary logs longer on the server"
_RETENTION = {"mysql": "SET GLOBAL binlog_expire_logs_seconds = 604800", "mariadb": "SET GLOBAL expire_logs_days = 7"}


def file_number(name: str) -> int:
    """Return the number in a file name: `binlog.000002` is 2; 0 when the name does not end in digits."""
    digits = name.rpartition(".")[2]
    return int(digits) if digits.isascii() and digits.isdigit() else 0


@total_ordering
@dataclass(frozen=True, slots=True)
class LogPosition:
    """A byte position in a binlog file of one server; an event begins there, or the file ends.

    Files are ordered by their numbers.
    """

    file: str
    position: int = FIRST_POSITION

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"

    def __lt__(self, other: LogPosition) -> bool:
        return (file_number(self.file), self.position) < (file_number(other.file), other.position)


def log_end(info: ServerInfo) -> LogPosition:
    """Return the end of the log as of `info`."""
    return LogPosition(info.file, info.position)


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """One binlog file of the server; the last one of a list is still growing."""

    name: str
    size: int


def list_logs(connection: MySqlConnection) -> tuple[BinlogFile, ...]:
    """Return the binlog files that the server still has, oldest first. Raises SourceError without a binary log."""
    return tuple(BinlogFile(str(row[0]), int(row[1])) for row in query(connection, "SHOW BINARY LOGS"))


def earliest_position(connection: MySqlConnection) -> LogPosition:
    """Return the beginning of the oldest file."""
    return LogPosition(list_logs(connection)[0].name)


def position_at(open_session: Callable[[], MySqlConnection], timestamp_ms: int) -> LogPosition:
    """Return the begin of the file with the first transaction committed at `timestamp_ms` (since 1970 UTC) or later.

    That is the last file opened before that second, or the oldest file; the reader skips transactions before the time.
    Reads the first event of log2(number of files) files, each in its own session.
    """
    with open_session() as connection:
        logs = list_logs(connection)
    found = last_before(logs, timestamp_ms // 1000, lambda log: opened_s(open_session(), log.name))
    return LogPosition(found.name)


def last_before(logs: Sequence[BinlogFile], time_s: int, opened_s: Callable[[BinlogFile], int]) -> BinlogFile:
    """Return the last file opened before `time_s`, else the first one; calls `opened_s` log2(n) times. Pure."""
    low, high = 0, len(logs)  # files before `low` were opened before the time, files from `high` on were not
    while low < high:
        middle = (low + high) // 2
        if opened_s(logs[middle]) < time_s:
            low = middle + 1
        else:
            high = middle
    return logs[max(0, low - 1)]


def opened_s(connection: MySqlConnection, file: str) -> int:
    """Return when the server opened a binlog file: seconds since 1970 of its first event. Closes the connection."""
    try:
        accept_checksums(connection, "master_binlog_checksum", "source_binlog_checksum")
        announce_reader(connection, str(uuid.uuid4()))
        query(connection, "SET @mariadb_slave_capability = 4")
        server_id = free_server_id(connection)
        return _first_event_time(connection, server_id, file)
    finally:
        connection.close()


def _first_event_time(connection: MySqlConnection, server_id: int, file: str) -> int:
    request = struct.pack("<IHI", FIRST_POSITION, _NON_BLOCK, server_id) + file.encode()
    try:
        connection._execute_command(COMMAND.COM_BINLOG_DUMP, request)  # type: ignore[attr-defined]
        while True:
            packet = connection._read_packet()  # type: ignore[no-untyped-call]
            if packet.is_eof_packet():
                raise PositionLost(f"the server has no event in {file}", where=where_of(connection), hint=_RESTART)
            # An OK byte, then the event header: 4 bytes time; the ROTATE that names the file has none.
            seconds = struct.unpack_from("<I", packet.get_all_data(), 1)[0]
            if seconds:
                return int(seconds)
    except (pymysql.err.MySQLError, OSError) as error:
        raise as_source_error(error, where_of(connection), logged_in=True) from error


def check_file_position(connection: MySqlConnection, info: ServerInfo, wanted: LogPosition) -> None:
    """Raise PositionLost, with the details, when the server cannot continue from that file and position."""
    logs = list_logs(connection)
    found = next((log for log in logs if log.name == wanted.file), None)
    if found is None:
        have = f"the server has {logs[0].name} to {logs[-1].name}" if logs else "the server has no binlog file"
        raise PositionLost(f"{wanted.file} is gone; {have}", where=where_of(connection), hint=_hint(info))
    if wanted.position > found.size:
        message = f"{wanted} is beyond the end of the file ({found.size}): the log was reset, or this is another server"
        raise PositionLost(message, where=where_of(connection), hint=_RESTART)


def check_had(connection: MySqlConnection, info: ServerInfo, done: str) -> None:
    """Raise SourceError when the server lacks transactions of a set that another tool has read.

    Then the set is of another server, at least partly, and this server's own transactions would be read from their
    begin.
    """
    try:
        missing = lacking(info.executed, done, mariadb=info.mariadb)
    except ValueError as error:
        raise SourceError(f"the position's GTIDs cannot be read: {error}", where=where_of(connection)) from None
    if missing:
        raise SourceError(
            f"the position counts transactions as read that this server does not have: {missing}",
            where=where_of(connection),
            hint="point hostname and port at the server that the tool has read from, or a replica of it",
        )


def check_gtid_position(connection: MySqlConnection, info: ServerInfo, done: str) -> None:
    """Raise PositionLost, with the details, when the server cannot send everything after the GTIDs in `done`.

    `done` is a MySQL GTID set or a MariaDB GTID position; empty means that nothing was read yet.
    """
    try:
        if info.mariadb:
            _check_mariadb_gtid(connection, info, MariaDbGtid.parse(done))
        else:
            _check_mysql_gtid(connection, info, GtidSet.parse(done))
    except ValueError as error:
        raise SourceError(str(error), where=where_of(connection), hint="correct the GTID set") from error


def _check_mysql_gtid(connection: MySqlConnection, info: ServerInfo, done: GtidSet) -> None:
    if not info.gtid:
        fix = "start by file and position, or run the server with gtid_mode = ON"
        raise SourceError("the server does not use GTIDs (gtid_mode)", where=where_of(connection), hint=fix)
    lost = GtidSet.parse(info.purged).minus(done)
    if lost:
        message = f"the transactions {lost} are purged from the server's log and were not read yet"
        raise PositionLost(message, where=where_of(connection), hint=_hint(info))
    unknown = done.of_source(info.server_uuid).minus(GtidSet.parse(info.executed)) if info.server_uuid else GtidSet()
    if unknown:
        message = f"the server does not know its own transactions {unknown}: it was reset or restored from a backup"
        raise PositionLost(message, where=where_of(connection), hint=_RESTART)


def _check_mariadb_gtid(connection: MySqlConnection, info: ServerInfo, done: MariaDbGtid) -> None:
    oldest = list_logs(connection)[0].name
    rows = query(connection, "SHOW BINLOG EVENTS IN %s LIMIT 3", (oldest,))
    before = next((str(row[5]) for row in rows if row[2] == "Gtid_list"), "[]")
    lost = done.lacking(MariaDbGtid.parse(before.strip("[]")))
    if lost:
        message = f"the log begins in {oldest} after {lost}, and not everything up to there was read"
        raise PositionLost(message, where=where_of(connection), hint=_hint(info))
    unknown = MariaDbGtid.parse(info.executed).lacking(done)
    if unknown:
        message = f"the server does not know {unknown}: its log was reset, or this is another server"
        raise PositionLost(message, where=where_of(connection), hint=_RESTART)


def _hint(info: ServerInfo) -> str:
    return f"{_RESTART}: {_RETENTION[info.flavor]}"
