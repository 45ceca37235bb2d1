"""Sessions with the sink's server: strict, in UTC, without foreign key checks; errors are those of a sink."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
from pymysql.constants import COMMAND
from pymysql.protocol import OKPacketWrapper

from cdc.errors import CommitFailed, SinkError, SinkUnavailable, SourceError
from cdc.retry import RetryPolicy
from connectors.mysql.server.connection import ConnectionOptions, MySqlConnection, connect
from connectors.mysql.server.connection_errors import BUSY, GONE
from connectors.mysql.sink.options import ServerSinkOptions
from connectors.mysql.sink.refusal import SIGNALLED
from connectors.mysql.sink.types import Flavor
from connectors.shared.sql.client import StatementRefused

ENVELOPE_BYTES = 16 << 10
"""Maximum bytes of a statement besides its rows: the names of its columns, and the packet header."""
_PIECE_BYTES = 1 << 20
_SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
_LISTED_WARNINGS = 1024
"""Minimum number of warnings that SHOW WARNINGS lists: those of a load may be about values. MySQL's default."""
_SERVER = (
    "SELECT @@GLOBAL.local_infile, @@max_error_count, "
    "(SELECT TRANSACTIONS FROM information_schema.ENGINES WHERE SUPPORT = 'DEFAULT')"
)
_ACCESS_DENIED = 1227
_RESTRICTED = (
    f"SET GLOBAL max_error_count = {_LISTED_WARNINGS} on the server, or GRANT SESSION_VARIABLES_ADMIN to the account"
)
_OUT_OF_SYNC = 2014
_OCEANBASE_LIMITS = ("ob_query_timeout", "ob_trx_timeout", "ob_trx_idle_timeout")
_AGAIN = frozenset({*BUSY, 1020, 1317, 3572, 4012, 4013, 4030, 6002, 6003, 6004, 6224, 6225})
"""Errors after which the whole commit is retried.

Lock waits, deadlocks, a server that takes no sessions at the moment, rows changed by others since the transaction began
(MariaDB with innodb_snapshot_isolation, its default since 11.6), OceanBase's timeouts and full memory.
"""

_LOCKED = frozenset({1205, 3572})
_LOCK_HOLDERS = (
    "another session holds the lock: see SHOW FULL PROCESSLIST, in MySQL also sys.innodb_lock_waits and "
    "sys.schema_table_lock_waits"
)
_READ_ONLY = frozenset({1290, 1792, 1836})
_NAMES_READ_ONLY = re.compile(r"read.only", re.IGNORECASE)
"""Errors of a server that only reads, as in a planned switchover, until the new primary has its address."""

_HOST_AND_PORT = re.compile(r"source\.(?:hostname(?:(?:,| and) source\.port)?|port)")
"""The options in hints of the login, where one option of the sink has both."""

_LARGEST_CODE = 0xFFFF
"""Mask for error codes: the driver reads numbers above 32,767, which a SIGNAL may use, as negative."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The answer to LOAD DATA: number of replaced rows, and of warnings."""

    deleted: int
    warnings: int


class SinkSession:
    """An open session. One thread at a time.

    Attributes:
        flavor: `mysql`, `mariadb` or `oceanbase`.
        version: as reported by the server.
        where: `user@host:port`.
        local_files: LOAD DATA LOCAL is allowed, and transactional.
        max_packet_bytes: the longest statement that the server accepts.
        lists_warnings: SHOW WARNINGS lists enough of them.
        creates_transactional: tables are created in an engine with transactions.
    """

    def __init__(self, connection: MySqlConnection, where: str) -> None:
        self.connection, self.where = connection, where
        version, comment, longest = self.rows("SELECT VERSION(), @@version_comment, @@max_allowed_packet")[0]
        self.version, self.max_packet_bytes = str(version), int(longest)
        if self.max_packet_bytes < 2 * ENVELOPE_BYTES:
            raise SinkError(
                f"max_allowed_packet of the server is {self.max_packet_bytes:,} bytes, which leaves no room for rows",
                where=where,
                hint=f"set it to at least {2 * ENVELOPE_BYTES:,} bytes there, better to more than the longest row",
            )
        banner = f"{version} {comment}".lower()
        self.flavor: Flavor = "oceanbase" if "oceanbase" in banner else "mariadb" if "mariadb" in banner else "mysql"
        self.local_files, self.lists_warnings, self.creates_transactional = False, True, True
        if self.flavor != "oceanbase":  # which commits a LOAD DATA on its own, even inside a transaction
            local_files, listed, transactions = self.rows(_SERVER)[0]
            self.local_files, self.lists_warnings = bool(int(local_files)), int(listed) >= _LISTED_WARNINGS
            self.creates_transactional = transactions == "YES"

    def rows(self, sql: str, arguments: tuple[object, ...] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows.

        Raises StatementRefused if the server refuses it, SinkUnavailable to retry.
        """
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, arguments)
                return list(cursor.fetchall())
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._failed(error) from None

    def run(self, sql: str, arguments: tuple[object, ...] | None = None) -> int:
        """Run a statement; returns the number of changed rows. Raises as `rows`."""
        try:
            with self.connection.cursor() as cursor:
                return int(cursor.execute(sql, arguments))
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._failed(error) from None

    def write(self, sql: str) -> tuple[int, int]:
        """Run a statement that writes; returns the numbers of changed rows and of warnings. Raises as `rows`."""
        try:
            with self.connection.cursor() as cursor:
                return int(cursor.execute(sql)), int(cursor.warning_count)
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._failed(error) from None

    def load(self, sql: str, body: Iterable[bytes]) -> LoadResult:
        """Run LOAD DATA LOCAL with these bytes, whatever file the server asks for. Raises as `rows`."""
        driver: Any = self.connection
        size = min(_PIECE_BYTES, self.max_packet_bytes // 2)
        try:
            driver._execute_command(COMMAND.COM_QUERY, sql)
            first = driver._read_packet()
            if not first.is_load_local_packet():
                raise SinkError("the server did not ask for the rows of LOAD DATA LOCAL", where=self.where)
            for text in body:
                for at in range(0, len(text), size):
                    driver.write_packet(text[at : at + size])
            driver.write_packet(b"")
            done = OKPacketWrapper(driver._read_packet())
        except (pymysql.err.MySQLError, OSError) as error:
            raise self._failed(error) from None
        return LoadResult(_number(done.message, "Deleted"), int(done.warning_count))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in one transaction.

        A COMMIT without an answer raises SinkUnavailable, a refused one CommitFailed.
        """
        self.run("BEGIN")
        try:
            yield
            self._commit()
        except BaseException:
            with suppress(StatementRefused, SinkUnavailable):
                self.run("ROLLBACK")
            raise

    def _commit(self) -> None:
        try:
            self.run("COMMIT")
        except StatementRefused as error:
            raise CommitFailed(str(error), where=self.where) from None

    def _failed(self, error: Exception) -> Exception:
        code, text = error.args[:2] if len(error.args) > 1 and isinstance(error.args[0], int) else (0, str(error))
        state = str(getattr(error, "sqlstate", None) or "")
        if state.startswith(SIGNALLED):
            return StatementRefused(code & _LARGEST_CODE, str(text), state)
        if code in _READ_ONLY and _NAMES_READ_ONLY.search(str(text)):
            hint = "is it a replica? name the primary server, or make this one writable"
            return SinkUnavailable(f"{text} (error {code})", where=self.where, hint=hint)
        if code in _AGAIN:
            hint = _LOCK_HOLDERS if code in _LOCKED else ""
            return SinkUnavailable(f"{text} (error {code})", where=self.where, hint=hint)
        if isinstance(error, OSError) or code in GONE or code == _OUT_OF_SYNC:
            hint = "is the server running?"
            return SinkUnavailable(f"the connection was lost: {text}", where=self.where, hint=hint)
        return StatementRefused(code, str(text))


def _number(message: object, word: str) -> int:
    """Return the number after a word of `Records: 3  Deleted: 0  Skipped: 0  Warnings: 0`."""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message or "")
    _, found, rest = text.partition(f"{word}: ")
    return int(rest.split()[0]) if found else 0


@dataclass(frozen=True, slots=True)
class SinkServer:
    """Opens sessions. Picklable.

    Attributes:
        lock_wait_s: how long a statement waits for locked rows or tables.
        address: the option with the server's port, for messages.
    """

    connection: ConnectionOptions
    lock_wait_s: int
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    address: str = "sink.port"

    @classmethod
    def of(cls, options: ServerSinkOptions, retry: RetryPolicy) -> SinkServer:
        """Return the server named by the options."""
        host, port = options.address
        connection = ConnectionOptions(
            hostname=host,
            port=port,
            username=options.username,
            password=options.password.get_secret_value(),
            tls_mode=options.tls,
            tls_ca=options.tls_ca,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            key_retrieval=options.key_retrieval,
            connect_timeout_s=options.connect_timeout_s,
            read_timeout_s=options.statement_timeout_s,
            write_timeout_s=options.statement_timeout_s,
            max_retries=0,
            local_files=True,
        )
        return cls(connection, int(options.lock_wait_timeout_s), retry, options.port_option)

    @contextmanager
    def session(self, *, wait: bool = True) -> Iterator[SinkSession]:
        """Open a session and close it at the end; without `wait`, an unavailable server is not waited for.

        Raises SinkError, SinkUnavailable, also for errors of the source's functions in the block. A `StatementRefused`
        in the block propagates unchanged.
        """
        session = self.retry.call(self._open, "a session with the sink") if wait else self._open()
        try:
            yield session
        except SourceError as error:
            raise _of_sink(error, self.address) from error
        finally:
            with suppress(pymysql.err.MySQLError, OSError):
                session.connection.close()

    def _open(self) -> SinkSession:
        try:
            connection = connect(self.connection)
        except SourceError as error:
            raise _of_sink(error, self.address) from None
        try:
            session = SinkSession(connection, self.connection.where)
            for statement in self._settings(session):
                session.run(statement)
        except StatementRefused as error:
            connection.close()
            hint = _RESTRICTED if error.code == _ACCESS_DENIED else ""
            raise SinkError(str(error), where=self.connection.where, hint=hint) from None
        except BaseException:
            connection.close()
            raise
        return session

    def _settings(self, session: SinkSession) -> Iterator[str]:
        yield f"SET SESSION time_zone = '+00:00', sql_mode = '{_SQL_MODE}', foreign_key_checks = 0"
        if session.flavor == "oceanbase":
            for name in _OCEANBASE_LIMITS:
                yield f"SET SESSION {name} = {3_600_000_000}"
        else:
            yield (
                f"SET SESSION innodb_lock_wait_timeout = {self.lock_wait_s}, lock_wait_timeout = {self.lock_wait_s}, "
                "sql_notes = ON"
            )
            if not session.creates_transactional:
                yield "SET SESSION default_storage_engine = InnoDB"
            if not session.lists_warnings:  # MySQL: needs a privilege
                yield f"SET SESSION max_error_count = {_LISTED_WARNINGS}"


def _of_sink(error: SourceError, address: str) -> SinkError:
    """Convert an error to one of a sink: the login code is shared with the source."""
    hint = error.hint if address == "sink.port" else _HOST_AND_PORT.sub(address, error.hint)
    made = SinkUnavailable if error.retryable else SinkError
    return made(error.message, where=error.where, hint=hint.replace("source.", "sink."))
