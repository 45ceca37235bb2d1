"""The SQL access: front ends speak the MySQL protocol. Short sessions with failover.

Statements are sent as text: neither server prepares DDL. Names and values in them are written by `text`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pymysql

from cdc.errors import SinkError, SinkUnavailable
from cdc.retry import RetryPolicy
from connectors.shared.login.mysql import LOGIN_ERRORS, LoginRules, LoginTimeout, NotMySql, UnsafeLogin, log_in
from connectors.shared.servers import preference
from connectors.shared.servers.address import Account, Address, TimeLimits, Tls
from connectors.shared.servers.tls import is_tls_refusal, tls_hint, tls_reason

_DENIED = frozenset({1045, 1044, 1698, 1862, 1130})
_CANNOT = frozenset({1045, 1698, 1862, 1130, 1251, 2059, 2026, 3159})
_CLIENT = range(2000, 3000)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqlServers:
    """Everything needed to open a session. Frozen and picklable. `secure` in an address is not used: see `tls`.

    Attributes:
        tls: None means a plain connection.
        query_s: maximum wait for one answer.
    """

    frontends: tuple[Address, ...]
    account: Account
    tls: Tls | None = None
    limits: TimeLimits = field(default_factory=TimeLimits)
    query_s: float = 300.0


class StatementRefused(Exception):
    """The server refused a statement; contains no secret of ours.

    Attributes:
        code: its error number. message: its text. state: its SQLSTATE, empty if not requested.
    """

    def __init__(self, code: int, message: str, state: str = "") -> None:
        super().__init__(f"{message} (error {code})")
        self.code, self.message, self.state = code, message, state


class SqlSession:
    """An open connection to one front end; `server` is its `host:port`. One thread at a time."""

    def __init__(self, connection: Any, server: str) -> None:
        self._connection, self.server = connection, server

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement and fetch its whole result.

        Raises StatementRefused, or SinkUnavailable when the answer is lost.
        """
        return [tuple(row.values()) for row in self.records(sql)]

    def records(self, sql: str) -> list[dict[str, Any]]:
        """Return rows as `rows`, each by column name: SHOW statements have different columns in each version."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except (pymysql.err.MySQLError, OSError) as error:
            raise _failed(error, self.server) from None

    def spelled(self, sql: str, many: int) -> Iterator[Sequence[tuple[bytes | None, ...]]]:
        """Yield the rows of a long result, up to `many` at a time, each value as the server spells it.

        Raises as `rows`. The session can do nothing else until the last row.
        """
        usual = self._connection.use_unicode, self._connection.decoders
        self._connection.use_unicode, self._connection.decoders = False, {}
        try:
            with self._connection.cursor(pymysql.cursors.SSCursor) as cursor:
                cursor.execute(sql)
                while rows := cursor.fetchmany(many):
                    yield rows
        except (pymysql.err.MySQLError, OSError) as error:
            raise _failed(error, self.server) from None
        finally:
            self._connection.use_unicode, self._connection.decoders = usual

    def run(self, sql: str) -> None:
        """Run a statement without result. Raises as `rows`; a DDL whose answer is lost may have been executed."""
        self.rows(sql)


@dataclass(frozen=True, slots=True)
class SqlClient:
    """Opens sessions. Thread-safe and picklable. `retry`: how long to wait for unavailable servers."""

    servers: SqlServers
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    @contextmanager
    def session(self, *, wait: bool = True) -> Iterator[SqlSession]:
        """Open a session with the first reachable front end, and close it at the end; without `wait`, try only once.

        Raises SinkUnavailable when none is reachable, SinkError for a wrong password and the like. `StatementRefused`
        in the block propagates unchanged: the caller knows its meaning.
        """
        connection, server = self.retry.call(self._connect, "a session") if wait else self._connect()
        try:
            yield SqlSession(connection, server)
        finally:
            connection.close()

    def retry_query(self, question: Callable[[SqlSession], T]) -> T:
        """Return the result of `question`, which must not change anything.

        When the answer is lost, the question is asked again in a new session.
        """

        def once() -> T:
            with self.session(wait=False) as session:
                return question(session)

        return self.retry.call(once, "a query")

    def _connect(self) -> tuple[Any, str]:
        frontends = self.servers.frontends
        last: SinkUnavailable | None = None
        for frontend in preference.in_order(frontends):
            try:
                connection = self._connect_once(frontend)
            except SinkUnavailable as error:
                last = error
                continue
            preference.note_answered(frontends, frontend)
            return connection, frontend.host_header
        raise last or SinkUnavailable("no front end is named", hint="name one")

    def _connect_once(self, address: Address) -> Any:
        servers = self.servers
        secure: dict[str, Any] = {"ssl_disabled": True} if servers.tls is None else {"ssl": servers.tls.context()}
        try:
            return log_in(
                LoginRules(
                    verified=servers.tls is not None and servers.tls.verify,
                    key_retrieval=address.is_loopback,
                    within_s=servers.limits.connect_s,
                ),
                address.host,
                address.port,
                user=servers.account.username,
                password=servers.account.password.encode(),  # as text PyMySQL would encode it in latin1
                charset="utf8mb4",
                autocommit=True,
                read_timeout=servers.query_s,
                write_timeout=servers.query_s,
                cursorclass=pymysql.cursors.DictCursor,
                **secure,
            )
        except LOGIN_ERRORS as error:
            # `from None`: the driver's frames hold the password in their arguments.
            raise _not_connected(error, f"{servers.account.username}@{address.host_header}") from None


def _failed(error: Exception, server: str) -> Exception:
    code, message = _code_and_message(error)
    if code and code not in _CLIENT and not isinstance(error, OSError):
        return StatementRefused(code, message)
    return SinkUnavailable(f"no answer to a statement: {message}", where=server, hint="see the server's log")


def _not_connected(error: Exception, where: str) -> SinkError:
    if isinstance(error, UnsafeLogin):
        hint = "the password was not sent; set sink.tls.sql: true, with certificates verified"
        return SinkError(str(error), where=where, hint=hint)
    if isinstance(error, NotMySql):
        hint = "check the ports: SQL goes to a front end's query_port, 9030 by default"
        return SinkError(f"the server does not speak the MySQL protocol: {error}", where=where, hint=hint)
    if isinstance(error, LoginTimeout):
        hint = "check that the front end runs, and that this is its query_port"
        return SinkUnavailable(f"cannot be reached: {error}", where=where, hint=hint)
    cause = getattr(error, "original_exception", error)
    if is_tls_refusal(cause):
        hint = "check the certificate, sink.tls.ca and that the front end's query_port offers TLS"
        return SinkError(f"no TLS connection: {tls_reason(cause)}", where=where, hint=tls_hint(cause, hint))
    code, message = _code_and_message(error)
    if code in _DENIED:
        return SinkError(f"access denied: {message}", where=where, hint="check sink.username and sink.password")
    if code in _CANNOT or isinstance(error, RuntimeError | UnicodeError):
        return SinkError(f"no session: {message}", where=where, hint="check the account and the TLS options")
    return SinkUnavailable(f"cannot be reached: {message}", where=where, hint="check that the front end runs")


def _code_and_message(error: Exception) -> tuple[int, str]:
    """Return number and text of an error; PyMySQL puts them into `args`, and sometimes text alone."""
    if len(error.args) >= 2 and isinstance(error.args[0], int):
        return error.args[0], str(error.args[1])
    return 0, str(error) or type(error).__name__
