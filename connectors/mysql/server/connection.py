"""Connections to MySQL and MariaDB: opening, TLS, timeouts and retries. Runs on driver and executors."""

from __future__ import annotations

import logging
import ssl
import threading
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pymysql.connections import Connection
from pymysql.constants import CLIENT

from cdc.errors import SourceError, SourceUnavailable
from cdc.retry import Backoff, RetryPolicy
from connectors.mysql.options import MySqlSourceOptions, TlsMode, is_loopback
from connectors.mysql.server.connection_errors import as_source_error
from connectors.shared.login.mysql import LOGIN_ERRORS, LoginRules, encrypted, log_in, unverified_context

log = logging.getLogger(__name__)

MySqlConnection: TypeAlias = "Connection[Any]"

RETRY = RetryPolicy(first_pause_s=0.5, longest_pause_s=15.0)
"""Pauses between attempts to reach a server."""
# Fixed for every session, whatever the server's defaults: TIMESTAMP values in UTC, backslash escapes in literals on,
# no mode that changes what a SELECT returns (PAD_CHAR_TO_FULL_LENGTH, ANSI_QUOTES), all rows of a result however long
# it takes, and no transaction or disconnection after a ROLLBACK.
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', sql_select_limit = 18446744073709551615, sql_big_selects = 1, "
    "completion_type = 0 /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """Everything needed to reach one server. Frozen and picklable: it is sent to executors.

    Attributes:
        tls_mode: as the MySQL client's --ssl-mode; `preferred` uses TLS when the server offers it, unverified.
        tls_ca: PEM file of the authorities to trust (verify-ca, verify-identity); default: the system's.
        tls_cert, tls_key: PEM files of a client certificate; with one, `preferred` means `required`.
        key_retrieval: trust a public key that a server sends without verified TLS; on this machine it is always
            trusted.
        connect_timeout_s: for everything up to a session: TCP connection, greeting, TLS, login, first statements.
        read_timeout_s, write_timeout_s: for one response of the server; None waits forever. A query that takes longer
            ends with SourceUnavailable.
        max_retries: number of retries when the server is not reachable; 0 tries once.
        local_files: the session may send LOAD DATA LOCAL. The driver itself still opens no file named by a server.
    """

    hostname: str
    username: str
    password: str = field(default="", repr=False)
    port: int = 3306
    tls_mode: TlsMode = "preferred"
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    key_retrieval: bool = False
    connect_timeout_s: float = 30.0
    read_timeout_s: float | None = 300.0
    write_timeout_s: float | None = 60.0
    max_retries: int = 3
    local_files: bool = False

    @classmethod
    def of(cls, options: MySqlSourceOptions) -> ConnectionOptions:
        """Return the connection described by the pipeline file."""
        return cls(
            hostname=options.hostname,
            port=options.port,
            username=options.username,
            password=options.password.get_secret_value(),
            tls_mode=options.tls,
            tls_ca=options.tls_ca,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            key_retrieval=options.key_retrieval,
            connect_timeout_s=options.connect_timeout_s,
            read_timeout_s=options.connect_timeout_s,
            max_retries=options.connect_max_retries,
        )

    @property
    def where(self) -> str:
        """`user@host:port`: the server's name in errors and logs."""
        return f"{self.username}@{self.hostname}:{self.port}"

    @property
    def rules(self) -> LoginRules:
        """The authentication methods allowed for a server at this address."""
        return LoginRules(
            verified=self.tls_mode in ("verify-ca", "verify-identity"),
            key_retrieval=self.key_retrieval,
            within_s=self.connect_timeout_s,
        )


def connect(options: ConnectionOptions, retry: RetryPolicy = RETRY) -> MySqlConnection:
    """Open a session: utf8mb4, UTC, autocommit. Retries, with growing pauses, while the server is not reachable.

    Authentication: caching_sha2_password and sha256_password (over TLS, or RSA without it if `key_retrieval` is
    allowed), mysql_native_password, client_ed25519; mysql_clear_password over verified TLS only. Raises
    SourceUnavailable after the last attempt, SourceError at once if a retry cannot help.
    """
    backoff = Backoff(retry, f"connecting to {options.where}")
    for left in range(options.max_retries, -1, -1):
        try:
            return _connect_once(options)
        except SourceUnavailable as error:
            if not left or not backoff.pause(error.message):
                backoff.given_up(error)
                raise
    raise SourceUnavailable("no connection was tried", where=options.where, hint="set connect.max-retries to 0 or more")


def _connect_once(options: ConnectionOptions) -> MySqlConnection:
    secure = _tls_arguments(options)
    try:
        connection = log_in(
            options.rules,
            options.hostname,
            options.port,
            user=options.username,
            password=options.password.encode(),  # as text PyMySQL would encode it in latin1
            charset="utf8mb4",
            autocommit=True,
            init_command=_SESSION,
            read_timeout=options.read_timeout_s,
            write_timeout=options.write_timeout_s,
            program_name="cdc",
            client_flag=CLIENT.LOCAL_FILES if options.local_files else 0,
            **secure,
        )
    except LOGIN_ERRORS as error:
        # `from None`: the driver's frames hold the password in their arguments.
        raise as_source_error(error, options.where) from None
    _PREFERRED.look(options, encrypted=encrypted(connection))
    return connection


class _Preferred:
    """Warns once when `tls.mode: preferred` gives a plain connection, and each time when it gave TLS before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secure: dict[str, bool] = {}

    def look(self, options: ConnectionOptions, *, encrypted: bool) -> None:
        """Check a new session."""
        if options.tls_mode != "preferred":
            return
        address = f"{options.hostname}:{options.port}"
        with self._lock:
            before = self._secure.get(address)
            self._secure[address] = encrypted
        if before and not encrypted:
            log.warning(
                "%s offered TLS before and does not now: the connection is plain; tls.mode: required would refuse it",
                address,
            )
        elif before is None and not encrypted and not is_loopback(options.hostname):
            log.warning("%s offers no TLS: the connection is plain; tls.mode: required would refuse it", address)


_PREFERRED = _Preferred()


def _tls_arguments(options: ConnectionOptions) -> dict[str, Any]:
    if options.tls_mode == "disabled":
        return {"ssl_disabled": True}
    if options.tls_mode == "preferred" and options.tls_cert is None:
        return {}
    return {"ssl": tls_context(options)}


def tls_context(options: ConnectionOptions) -> ssl.SSLContext:
    """Return the TLS context, with verification and a client certificate as configured.

    Raises SourceError for an unusable file.
    """
    verify = options.tls_mode in ("verify-ca", "verify-identity")
    try:
        context = ssl.create_default_context(cafile=options.tls_ca) if verify else unverified_context()
        # MySQL's own generated certificates lack extensions that newer OpenSSL asks for in strict mode.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = options.tls_mode == "verify-identity"
        if options.tls_cert is not None:
            context.load_cert_chain(options.tls_cert, options.tls_key)
    except OSError as error:
        files = ", ".join(name for name in (options.tls_ca, options.tls_cert, options.tls_key) if name)
        raise SourceError(
            f"a TLS file cannot be used: {error.strerror or error}",
            where=files,
            hint="each must be a readable PEM file",
        ) from error
    return context
