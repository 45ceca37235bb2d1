"""A server's version, settings and end of its binary log, queried together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import pymysql

from cdc.errors import SourceError, SourceUnavailable
from connectors.mysql.ddl.names import folded
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import as_source_error
from connectors.shared.ddl.dialect import DdlDialect

Flavor: TypeAlias = Literal["mysql", "mariadb"]
Row: TypeAlias = tuple[Any, ...]

_VARIABLES = (
    "version", "server_id", "server_uuid", "gtid_mode", "log_bin", "binlog_format", "binlog_row_image",
    "gtid_purged", "lower_case_table_names", "explicit_defaults_for_timestamp", "log_replica_updates",
    "log_slave_updates", "innodb_native_foreign_keys", "binlog_storage_engine",
)  # fmt: skip

SLOW_S = 300.0
"""Time limit of statements whose duration depends on the number of tables or rows."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server at one moment.

    Attributes:
        version: as reported by the server; `version_number` is (major, minor, patch).
        server_uuid: MySQL's since 5.6; empty on MariaDB, which has none.
        gtid: transactions carry GTIDs (MariaDB: always; MySQL: gtid_mode ON).
        executed: the GTID set or position at `file`/`position`, in the server's spelling on one line; may be empty.
        purged: MySQL's gtid_purged; empty on MariaDB.
        file, position: end of the binary log; empty and 0 when `log_bin` is off, or the log is not in files.
        explicit_timestamps: explicit_defaults_for_timestamp.
        logs_received: log_replica_updates: it logs changes received from other servers.
        logs_cascades: it logs row changes by foreign keys: MySQL since 9.6, unless `innodb_native_foreign_keys` is on.
        log_engine: MariaDB's binlog_storage_engine; empty if the log is in files.
        do_db, ignore_db: binlog_do_db and binlog_ignore_db, in lower case if names ignore case.
        row_image, row_format: binlog_row_image and so on, upper case.
    """

    flavor: Flavor
    version: str
    version_number: tuple[int, int, int]
    server_id: int
    server_uuid: str
    gtid: bool
    log_bin: bool
    row_format: str
    row_image: str
    lower_case_table_names: int
    executed: str
    purged: str
    file: str
    position: int
    explicit_timestamps: bool = True
    logs_received: bool = True
    logs_cascades: bool = False
    log_engine: str = ""
    do_db: frozenset[str] = frozenset()
    ignore_db: frozenset[str] = frozenset()

    @property
    def dialect(self) -> DdlDialect:
        """The SQL dialect for statements whose events do not specify more."""
        own = DdlDialect.of(self.version)
        return replace(
            own,
            explicit_timestamps=self.explicit_timestamps,
            logs_cascades=self.logs_cascades,
        )

    @property
    def mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return self.flavor == "mariadb"

    @property
    def filters_log(self) -> bool:
        """Whether its log excludes databases."""
        return bool(self.do_db or self.ignore_db)

    def logs_database(self, database: str) -> bool:
        """Return whether rows of a database are logged."""
        name = folded(database) if self.lower_case_table_names else database
        return name in self.do_db if self.do_db else name not in self.ignore_db

    @property
    def identity(self) -> str:
        """The owner of positions: the server's uuid; on MariaDB, which has none, its server id."""
        return self.server_uuid or f"server-id {self.server_id}"


def query(
    connection: MySqlConnection, sql: str, arguments: Sequence[object] | None = None, *, slow: bool = False
) -> tuple[Row, ...]:
    """Run one statement and return its rows. Raises SourceError or SourceUnavailable instead of the driver's errors.

    A server that does not answer within the connection's read timeout is unavailable. A `slow` statement, whose
    duration depends on the amount of data, may take `SLOW_S`.
    """
    driver: Any = connection  # the field is missing in PyMySQL's stubs
    usual_s = driver._read_timeout
    try:
        if slow and usual_s is not None:
            driver._read_timeout = max(usual_s, SLOW_S)
        with connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            if cursor.description is None and sql.lstrip()[:4].upper() in ("SELE", "SHOW"):
                raise _no_database(f"{sql.split()[0]} has no result", connection)
            return tuple(cursor.fetchall())
    except (pymysql.err.MySQLError, OSError) as error:
        raise as_source_error(error, where_of(connection), logged_in=True) from error
    finally:
        driver._read_timeout = usual_s


def _no_database(answer: str, connection: MySqlConnection) -> SourceError:
    hint = "check hostname and port: a proxy or another kind of server listens there"
    return SourceError(f"its answer is not that of MySQL or MariaDB: {answer}", where=where_of(connection), hint=hint)


def clock_s(connection: MySqlConnection) -> int:
    """Return the time by the server's clock: whole seconds since 1970."""
    return int(query(connection, "SELECT UNIX_TIMESTAMP()")[0][0])


def where_of(connection: MySqlConnection) -> str:
    """Return `user@host:port` of a connection."""
    user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user
    return f"{user}@{connection.host}:{connection.port}"


def server_info(connection: MySqlConnection) -> ServerInfo:
    """Query the server. Needs REPLICATION CLIENT when the binary log is on; raises SourceError with the GRANT."""
    info = server_settings(connection)
    in_files = info.log_bin and not info.log_engine
    logged = _log_row(connection, info.flavor, info.version_number) if in_files else ("", 0, "", "", "")
    do_db, ignore_db = (_names(str(text or ""), bool(info.lower_case_table_names)) for text in logged[2:4])
    return replace(
        info,
        executed=_executed(connection, info.flavor, logged),
        file=str(logged[0]),
        position=int(logged[1]),
        do_db=do_db,
        ignore_db=ignore_db,
    )


def server_settings(connection: MySqlConnection) -> ServerInfo:
    """Return the server without the state and filters of its log; any account may query it. Raises SourceError."""
    values = _variables(connection)
    if "version" not in values:
        raise _no_database("SHOW GLOBAL VARIABLES names no version", connection)
    flavor: Flavor = "mariadb" if is_mariadb(values["version"]) else "mysql"
    number = version_number(values["version"])
    log_bin = values.get("log_bin", "OFF").upper() in ("ON", "1")
    return ServerInfo(
        flavor=flavor,
        version=values["version"],
        version_number=number,
        server_id=int(values.get("server_id", "0")),
        server_uuid=values.get("server_uuid", "") if flavor == "mysql" else "",
        gtid=flavor == "mariadb" or values.get("gtid_mode", "OFF").upper() == "ON",
        log_bin=log_bin,
        row_format=values.get("binlog_format", "ROW").upper(),
        row_image=values.get("binlog_row_image", "FULL").upper(),
        lower_case_table_names=int(values.get("lower_case_table_names", "0")),
        executed="",
        purged=_one_line(values.get("gtid_purged", "")) if flavor == "mysql" else "",
        file="",
        position=0,
        explicit_timestamps=values.get("explicit_defaults_for_timestamp", "OFF").upper() == "ON",
        logs_received="ON" in (values.get(name, "").upper() for name in ("log_replica_updates", "log_slave_updates")),
        logs_cascades=values.get("innodb_native_foreign_keys", "").upper() == "OFF",
        log_engine=values.get("binlog_storage_engine", ""),
    )


def identity_of(connection: MySqlConnection) -> str:
    """Query only `ServerInfo.identity`."""
    greeting: Any = connection  # PyMySQL's stubs leave the type out
    version = str(greeting.get_server_info())
    if is_mariadb(version) or version_number(version) < (5, 6, 0):
        return f"server-id {query(connection, 'SELECT @@GLOBAL.server_id')[0][0]}"
    return str(query(connection, "SELECT @@GLOBAL.server_uuid")[0][0])


def is_mariadb(version: str) -> bool:
    """Return whether a version text is MariaDB's, as `10.11.19-MariaDB`."""
    return "mariadb" in version.lower()


def version_number(text: str) -> tuple[int, int, int]:
    """Parse a version: `9.7.4-2` -> (9, 7, 4). MariaDB's replication prefix `5.5.5-` is ignored. Raises SourceError."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text.removeprefix("5.5.5-"))
    if match is None:
        raise SourceError(f"the server's version {text!r} is not understood")
    return int(match[1]), int(match[2]), int(match[3])


def _variables(connection: MySqlConnection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = query(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in rows}


def end_of_log(connection: MySqlConnection) -> tuple[str, int, str]:
    """Return file and position of the end of the log, and the GTID set there. Raises SourceError.

    The GTID set is empty on MariaDB, which would search the file for it. One cheap statement.
    """
    greeting: Any = connection  # PyMySQL's stubs leave the type out
    version = str(greeting.get_server_info())
    flavor: Flavor = "mariadb" if is_mariadb(version) else "mysql"
    row = _log_row(connection, flavor, version_number(version))
    return str(row[0]), int(row[1]), _one_line(str(row[4] or "")) if flavor == "mysql" else ""


def _log_row(connection: MySqlConnection, flavor: Flavor, number: tuple[int, int, int]) -> Row:
    """Return file, position, binlog_do_db, binlog_ignore_db and, on MySQL, the GTID set; all empty without a log."""
    new = flavor == "mysql" and number >= (8, 2, 0)
    rows = query(connection, "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS")
    return (*rows[0], "")[:5] if rows else ("", 0, "", "", "")


def _executed(connection: MySqlConnection, flavor: Flavor, logged: Row) -> str:
    """Return the GTIDs at the end of the log."""
    if flavor == "mysql" or not logged[0]:
        return _one_line(str(logged[4] or ""))
    return gtids_at(connection, str(logged[0]), int(logged[1]))


def gtids_at(connection: MySqlConnection, file: str, position: int) -> str:
    """Return MariaDB's GTIDs at a position of its log. Raises SourceUnavailable when the server answers NULL.

    NULL means that it cannot tell; an empty text means no transaction at all.
    """
    found = query(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, position), slow=True)[0][0]
    if found is None:
        raise SourceUnavailable(
            f"the server cannot return the GTIDs at {file}:{position} of its log",
            where=where_of(connection),
            hint="an event there may be longer than its max_allowed_packet: raise it; or this is another server than "
            "before",
        )
    return str(found)


def _names(text: str, in_lower_case: bool) -> frozenset[str]:
    return frozenset(name for name in (folded(text) if in_lower_case else text).split(",") if name)


def _one_line(text: str) -> str:
    return "".join(text.split())
