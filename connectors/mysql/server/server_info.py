"""What a server is and where its binary log stands, asked in one go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import pymysql

from cdc.errors import SourceError
from connectors.mysql.ddl.dialect import Dialect
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import as_source_error

Flavor: TypeAlias = Literal["mysql", "mariadb"]
Row: TypeAlias = tuple[Any, ...]

_VARIABLES = (
    "version", "server_id", "server_uuid", "gtid_mode", "log_bin", "binlog_format", "binlog_row_image",
    "gtid_purged", "lower_case_table_names", "explicit_defaults_for_timestamp",
)  # fmt: skip

SLOW_S = 300.0
"""How long a statement may take whose time depends on how many tables or rows there are."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server at one moment.

    Attributes:
        version: as the server says it; `version_number` is (major, minor, patch).
        server_uuid: MySQL's; empty on MariaDB, which has none.
        gtid: transactions carry GTIDs (MariaDB: always; MySQL: gtid_mode ON).
        executed: the GTID set or position at `file`/`position`, in the server's spelling on one line; may be empty.
        purged: MySQL's gtid_purged; empty on MariaDB.
        file, position: end of the binary log; empty and 0 when `log_bin` is off.
        explicit_timestamps: explicit_defaults_for_timestamp.
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

    @property
    def dialect(self) -> Dialect:
        """How it reads statements whose events do not say more."""
        return replace(Dialect.of(self.version), explicit_timestamps=self.explicit_timestamps)

    @property
    def mariadb(self) -> bool:
        """The server is MariaDB."""
        return self.flavor == "mariadb"

    @property
    def identity(self) -> str:
        """Whose positions these are: the server's uuid; on MariaDB, which has none, its server id."""
        return self.server_uuid or f"server-id {self.server_id}"


def query(
    connection: MySqlConnection, sql: str, arguments: Sequence[object] | None = None, *, slow: bool = False
) -> tuple[Row, ...]:
    """Rows of one statement. Raises SourceError or SourceUnavailable instead of the driver's errors.

    A server that does not answer within the connection's read timeout is unavailable. A `slow` statement, whose time
    depends on how much data there is, may take `SLOW_S`.
    """
    driver: Any = connection  # PyMySQL's stubs leave the field out
    usual_s = driver._read_timeout
    try:
        if slow and usual_s is not None:
            driver._read_timeout = max(usual_s, SLOW_S)
        with connection.cursor() as cursor:
            cursor.execute(sql, arguments)
            return tuple(cursor.fetchall())
    except (pymysql.err.MySQLError, OSError) as error:
        raise as_source_error(error, where_of(connection), logged_in=True) from error
    finally:
        driver._read_timeout = usual_s


def where_of(connection: MySqlConnection) -> str:
    """`user@host:port` of a connection."""
    user = connection.user.decode() if isinstance(connection.user, bytes) else connection.user
    return f"{user}@{connection.host}:{connection.port}"


def server_info(connection: MySqlConnection) -> ServerInfo:
    """Ask the server. Needs REPLICATION CLIENT when the binary log is on; raises SourceError with the GRANT."""
    values = _variables(connection)
    flavor: Flavor = "mariadb" if "mariadb" in values["version"].lower() else "mysql"
    number = version_number(values["version"])
    log_bin = values.get("log_bin", "OFF").upper() in ("ON", "1")
    file, position, executed = _log_status(connection, flavor, number) if log_bin else ("", 0, "")
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
        executed=executed,
        purged=_one_line(values.get("gtid_purged", "")) if flavor == "mysql" else "",
        file=file,
        position=position,
        explicit_timestamps=values.get("explicit_defaults_for_timestamp", "ON").upper() == "ON",
    )


def identity_of(connection: MySqlConnection) -> str:
    """`ServerInfo.identity`, asked by itself."""
    greeting: Any = connection  # PyMySQL's stubs leave the type out
    if "mariadb" in str(greeting.get_server_info()).lower():
        return f"server-id {query(connection, 'SELECT @@GLOBAL.server_id')[0][0]}"
    return str(query(connection, "SELECT @@GLOBAL.server_uuid")[0][0])


def version_number(text: str) -> tuple[int, int, int]:
    """`9.7.4-2` -> (9, 7, 4); MariaDB's replication prefix `5.5.5-` is not a version. Raises SourceError."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text.removeprefix("5.5.5-"))
    if match is None:
        raise SourceError(f"the server's version {text!r} is not understood")
    return int(match[1]), int(match[2]), int(match[3])


def _variables(connection: MySqlConnection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = query(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in rows}


def end_of_log(connection: MySqlConnection) -> tuple[str, int, str]:
    """File and position of the end of the log, and the GTID set there: empty on MariaDB, which would look for it in the
    file. One cheap statement. Raises SourceError."""
    greeting: Any = connection  # PyMySQL's stubs leave the type out
    version = str(greeting.get_server_info())
    flavor: Flavor = "mariadb" if "mariadb" in version.lower() else "mysql"
    return _end_of_log(connection, flavor, version_number(version))


def _end_of_log(connection: MySqlConnection, flavor: Flavor, number: tuple[int, int, int]) -> tuple[str, int, str]:
    new = flavor == "mysql" and number >= (8, 2, 0)
    rows = query(connection, "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS")
    if not rows:
        return "", 0, ""
    return str(rows[0][0]), int(rows[0][1]), _one_line(str(rows[0][4] or "")) if flavor == "mysql" else ""


def _log_status(connection: MySqlConnection, flavor: Flavor, number: tuple[int, int, int]) -> tuple[str, int, str]:
    """File, position and GTIDs that belong together."""
    file, position, executed = _end_of_log(connection, flavor, number)
    if flavor == "mysql" or not file:
        return file, position, executed
    found = query(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, position))
    return file, position, str(found[0][0] or "")


def _one_line(text: str) -> str:
    return "".join(text.split())
