"""Preconditions of a pipeline: server settings, privileges, and an unused replica id."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pymysql
from pymysql.constants import COMMAND

from cdc.errors import SourceError
from cdc.pattern import TablePattern
from cdc.schema import TableId
from connectors.mysql.server.connection import MySqlConnection
from connectors.mysql.server.connection_errors import GRANT, account, as_source_error, is_about_table, lacks_privilege
from connectors.mysql.server.not_logged import not_logged_problems
from connectors.mysql.server.server_info import (
    ServerInfo,
    is_mariadb,
    query,
    server_info,
    version_number,
    where_of,
)
from connectors.shared.sql.text import quoted

# Ids are picked from the upper half, far from those that people usually give to replicas.
_PICKED = range(2**31, 2**32 - 1)
_TABLES_PER_QUERY = 200
_SAFE_REPLICA_LIST = (8, 0, 20)
_VIEWS = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS"


def check_server(connection: MySqlConnection, captures: Callable[[TableId], bool] | None = None) -> ServerInfo:
    """Return the server's state, if its log can be captured. Raises one SourceError with every reason otherwise.

    `captures`: whether a table is captured; without it, log filters for databases are not checked. Supported as they
    are: encrypted binary logs (the server decrypts what it sends), compressed transactions and MariaDB's
    log_bin_compress, any binlog_checksum, binlog_row_value_options = PARTIAL_JSON.
    """
    info = server_info(connection)
    problems = [*settings_problems(info), *not_logged_problems(connection, info, captures)]
    if problems:
        message = "; ".join(what for what, _ in problems)
        raise SourceError(message, where=where_of(connection), hint="; ".join(fix for _, fix in problems))
    check_replication_privilege(connection, info)
    return info


def settings_problems(info: ServerInfo) -> Iterator[tuple[str, str]]:
    """Yield (problem, fix) for each setting that would lose data. Pure."""
    if not info.log_bin:
        fix = "add log-bin=binlog and server-id=1 under [mysqld] in its configuration file and restart it"
        yield "the server writes no binary log (log_bin is OFF)", fix
        return
    if info.log_engine:
        fix = "leave binlog_storage_engine out of its configuration and restart it"
        yield f"the binary log is kept in {info.log_engine}, where events have no file and no position", fix
    if info.row_format != "ROW":
        fix = "run on the server: SET GLOBAL binlog_format = 'ROW' (sessions that are open keep the old one)"
        yield f"binlog_format is {info.row_format}, changes are logged as statements", fix
    if info.row_image != "FULL":
        fix = "run on the server: SET GLOBAL binlog_row_image = 'FULL' (sessions that are open keep the old one)"
        yield f"binlog_row_image is {info.row_image}, rows are logged without all of their columns", fix


def check_replication_privilege(connection: MySqlConnection, info: ServerInfo) -> None:
    """Raise SourceError with the GRANT statement when the account may not read the binary log.

    The session stays usable; a dump would end it. MySQL asks for the same privilege for SHOW BINLOG EVENTS. MariaDB
    asks for another one there, so it gets the command with which a replica registers, under the server's own id;
    MySQL must not (see `registers`).
    """
    if not info.mariadb:
        try:
            query(connection, "SHOW BINLOG EVENTS LIMIT 1")
        except SourceError as error:
            if error.retryable or lacks_privilege(error):
                raise  # others, as of a file that is being purged, say nothing about the account
        return
    # COM_REGISTER_SLAVE: id, host, user, password (each with a length byte), port, rank, master id.
    body = struct.pack("<IBBBHII", info.server_id, 0, 0, 0, 0, 0, 0)
    try:
        connection._execute_command(COMMAND.COM_REGISTER_SLAVE, body)  # type: ignore[attr-defined]
        connection._read_packet()  # type: ignore[no-untyped-call]
    except (pymysql.err.MySQLError, OSError) as error:
        raise as_source_error(error, where_of(connection), logged_in=True) from error


def check_select(connection: MySqlConnection, tables: Iterable[TableId]) -> None:
    """Raise SourceError for the first of these tables with an unreadable column, or for all that cannot be opened.

    Other tables are not visible to the account. Reads no row.
    """
    wanted = tuple(tables)
    for start in range(0, len(wanted), _TABLES_PER_QUERY):
        part = wanted[start : start + _TABLES_PER_QUERY]
        try:
            query(connection, " UNION ALL ".join(map(_all_columns, part)), slow=True)
        except SourceError as error:
            if not is_about_table(error):
                raise
            _name_unreadable(connection, part)
            raise


def _all_columns(table: TableId) -> str:
    return f"(SELECT 1 FROM (SELECT * FROM {quoted(table.database, table.table)}) AS t WHERE FALSE)"


def _name_unreadable(connection: MySqlConnection, tables: Iterable[TableId]) -> None:
    """Raise SourceError for the tables that the server cannot open; its own errors need not name them."""
    answers: dict[TableId, str] = {}
    for table in tables:
        try:
            query(connection, _all_columns(table))
        except SourceError as error:
            if not is_about_table(error):
                raise
            answers[table] = error.message
    if answers:
        raise SourceError(
            f"the server cannot read {'a captured table' if len(answers) == 1 else 'captured tables'}: "
            f"{'; '.join(dict.fromkeys(answers.values()))}",
            where=f"{', '.join(map(str, answers))} on {where_of(connection)}",
            hint="repair or drop it on the server, or leave it out with tables.exclude",
        )


def grant_statement(connection: MySqlConnection) -> str:
    """Return the statement that grants this connection's account what a pipeline needs."""
    return GRANT.format(user=account(where_of(connection)))


def free_server_id(connection: MySqlConnection) -> int:
    """Return a random high replica id that is not registered: two readers with one id would disconnect each other."""
    used = used_server_ids(connection)
    chosen = random.SystemRandom().sample(_PICKED, 1 + len(used))
    return next(number for number in chosen if number not in used)


def used_server_ids(connection: MySqlConnection) -> frozenset[int]:
    """Return the server's own id and those of its registered replicas (as far as visible to the account).

    MySQL before 8.0.22 has SHOW SLAVE HOSTS alone, which is not for us: see `registers`.
    """
    own, version = query(connection, "SELECT @@GLOBAL.server_id, VERSION()")[0]
    statement = "SHOW SLAVE HOSTS" if is_mariadb(version) else "SHOW REPLICAS"
    try:
        return frozenset({int(own), *(int(row[0]) for row in query(connection, statement))})
    except SourceError as error:
        if error.retryable:
            raise  # the connection is lost; other errors: unknown statement, or no privilege
    return frozenset({int(own)})


def registers(version: str) -> bool:
    """Whether a reader of the log registers as a replica on a server of this version, to be listed there.

    MySQL before 8.0.20 keeps the record of a replica whose session ends before it dumps, and SHOW SLAVE HOSTS then
    follows a pointer to the session's freed memory: the server crashes.
    """
    return is_mariadb(version) or version_number(version) >= _SAFE_REPLICA_LIST


def announce_reader(connection: MySqlConnection, uuid: str) -> None:
    """Give a session that is about to dump the log its own identity.

    A MySQL server ends an older dump of the same replica uuid, or without one of the same server id (function
    `kill_zombie_dump_threads`). So every reader needs its own uuid.
    """
    query(connection, "SET @replica_uuid = %s, @slave_uuid = %s", (uuid, uuid))


def accept_checksums(connection: MySqlConnection, *names: str) -> None:
    """Let the server send events with the checksums stored in its log; servers before MySQL 5.6.1 have none.

    `names`: the session variables that it reads, `master_binlog_checksum` and since MySQL 8.0.26
    `source_binlog_checksum`.
    """
    for _, value in query(connection, "SHOW GLOBAL VARIABLES LIKE 'binlog_checksum'"):
        for name in names:
            query(connection, f"SET @{name} = %s", (value,))


BEYOND = re.compile(r"[^\u0000-\uffff]")
"""Matches a character that no name can have: names are in utf8mb3. MySQL replaces it with ?, MariaDB refuses it."""


def explain_no_tables(visible: Sequence[TableId], pattern: TablePattern, connection: MySqlConnection) -> SourceError:
    """Return the error for a pattern without a match; an account sees only tables it has a privilege on."""
    known = (TableId(str(row[0]), str(row[1])) for row in query(connection, _VIEWS, slow=True))
    views = [str(view) for view in known if pattern.matches(view)]
    if views:
        return SourceError(
            f"{', '.join(views[:5])} is a view: the binlog has only the rows of its tables",
            where=where_of(connection),
            hint="name the tables that it selects from in source.tables",
        )
    in_any_case = replace(pattern, ignore_case=True)
    spelled = [str(table) for table in visible if in_any_case.matches(table)]
    if spelled:
        return SourceError(
            f"no table matches `{pattern.include}`: table names are case-sensitive on this server, which has "
            f"{', '.join(spelled[:5])}",
            where=where_of(connection),
            hint="write the names in source.tables as the server has them",
        )
    in_short = replace(pattern, include=BEYOND.sub(r"\\?", pattern.include))
    kept = [str(table) for table in visible if in_short.matches(table)]
    if kept:
        return SourceError(
            f"no table matches `{pattern.include}`: this server stores characters beyond U+FFFF in names as ?, and has "
            f"{', '.join(kept[:5])}",
            where=where_of(connection),
            hint=f"write `{in_short.include}` in source.tables",
        )
    names = ", ".join(str(table) for table in visible[:5]) + (" ..." if len(visible) > 5 else "")
    return SourceError(
        f"no table matches `{pattern.include}`; the account can see {len(visible)} tables: {names or 'none'}",
        where=where_of(connection),
        hint=f"check source.tables; if the tables exist, run on the server: {grant_statement(connection)}",
    )
