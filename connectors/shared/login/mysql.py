"""Sessions with servers that speak the MySQL protocol: protects the password, and limits the time of the login.

PyMySQL answers whatever a server requests: a server that requests the password in clear text gets it, one that sends a
public key gets the password encrypted with that key, and a server that stalls during the login is waited for as long as
for a query. Runs on driver and executors.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.connections import Connection

_CLEAR_TEXT = frozenset({"mysql_clear_password", "dialog", "authentication_pam"})
_BROKEN = frozenset({"mysql_old_password"})
MALFORMED = 2027
"""Error number for an answer that is not the protocol, CR_MALFORMED_PACKET of MySQL's clients."""

_LARGEST_PACKET = 1 << 20
"""Maximum packet size before the login is complete."""


class UnsafeLogin(Exception):
    """The server requests the password in an insecure way; it was not sent."""


class NotMySql(Exception):
    """The program at that address does not speak the MySQL protocol."""


class LoginTimeout(Exception):
    """The session did not begin in time."""


LOGIN_ERRORS = (UnsafeLogin, NotMySql, LoginTimeout, pymysql.err.MySQLError, OSError, RuntimeError, UnicodeError)
"""Errors that `log_in` raises."""

_NONSENSE = (struct.error, ValueError, LookupError, AttributeError, TypeError, AssertionError, RuntimeError)
"""Errors of PyMySQL over bytes that are not the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRules:
    """The authentication methods that a server may use.

    Attributes:
        verified: its certificate is verified, so it is the intended server and nobody can eavesdrop.
        key_retrieval: a public key sent by the server is trusted without that.
        within_s: time limit for beginning the session: connection, TLS, login and the first statements.
    """

    verified: bool
    key_retrieval: bool
    within_s: float


def log_in(rules: LoginRules, host: str, port: int, **arguments: Any) -> Connection[Any]:
    """Open a session; `arguments` are those of PyMySQL's connection.

    Raises UnsafeLogin, NotMySql, LoginTimeout, and PyMySQL's errors and OSError unchanged.
    """
    ends = time.monotonic() + rules.within_s
    connection = _Connection(rules, host=host, port=port, defer_connect=True, **arguments)
    connected = _connect(host, port, rules)
    with _Deadline(connected, ends) as deadline:
        try:
            connection.connect(connected)
        except Exception as error:
            connected.close()
            if deadline.passed:
                message = f"the server took the connection and did not finish the login{_within(rules)}"
                raise LoginTimeout(message) from None
            if isinstance(error, UnsafeLogin | NotMySql | OSError | UnicodeError | ssl.SSLError) or _explained(error):
                raise
            raise NotMySql(f"{type(error).__name__}: {error}") from None
        finally:
            connection.begun = True
    if deadline.passed:
        connection._force_close()  # type: ignore[attr-defined]
        raise LoginTimeout(f"the login took too long{_within(rules)}")
    return connection


def unverified_context() -> ssl.SSLContext:
    """Return a TLS context that accepts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def encrypted(connection: Connection[Any]) -> bool:
    """Return whether the session uses TLS."""
    return bool(connection._secure)  # type: ignore[attr-defined]


def _within(rules: LoginRules) -> str:
    return f" within {rules.within_s:g} s"


def _connect(host: str, port: int, rules: LoginRules) -> socket.socket:
    try:
        addresses = {address for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        connected = socket.create_connection((host, port), rules.within_s / len(addresses))
    except TimeoutError:
        raise LoginTimeout(f"nothing answers{_within(rules)}") from None
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # A machine that is gone without a word is noticed within two minutes, also during a statement of an hour.
    if hasattr(socket, "TCP_KEEPIDLE"):  # Linux; elsewhere the system's default applies, which is more than two hours
        for option, value in ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6)):
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
    return connected


def _explained(error: Exception) -> bool:
    """Return whether the server or PyMySQL explains this error.

    Such an error has a number, or is about a missing library.
    """
    numbered = isinstance(error, pymysql.err.MySQLError) and len(error.args) > 1 and isinstance(error.args[0], int)
    return numbered or isinstance(error, RuntimeError)


if TYPE_CHECKING:
    _Base = Connection[Any]
else:
    _Base = Connection


class _Connection(_Base):
    """PyMySQL's connection, which applies `rules` before it answers a server."""

    def __init__(self, rules: LoginRules, **arguments: Any) -> None:
        self._rules, self._key, self.begun = rules, b"", False
        super().__init__(**arguments)

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        """Skip verification if TLS is only preferred: loading the system's authorities takes 20 ms."""
        return super()._create_ssl_ctx(sslp) if sslp else unverified_context()  # type: ignore[misc]

    @property
    def server_public_key(self) -> bytes:
        """The key to encrypt the password with; PyMySQL sets it to the one the server sent."""
        return self._key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if key and not self._rules.key_retrieval:
            raise UnsafeLogin("the server wants the password encrypted with a public key that it sends itself")
        self._key = key or b""

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        name = plugin_name.decode("ascii", "replace")
        if name in _BROKEN:
            raise UnsafeLogin(f"the server asks for {name}, which is not secure")
        if name in _CLEAR_TEXT and not (self._rules.verified and encrypted(self)):
            raise UnsafeLogin(f"the server asks for the password in clear text ({name})")
        return super()._process_auth(plugin_name, auth_packet, handler)  # type: ignore[misc]

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        try:
            return super()._read_query_result(unbuffered)  # type: ignore[misc]
        except _NONSENSE as error:
            self._force_close()  # type: ignore[attr-defined]
            raise pymysql.err.OperationalError(MALFORMED, f"{type(error).__name__}: {error}") from None

    def _read_bytes(self, num_bytes: int) -> bytes:
        if not self.begun and num_bytes > _LARGEST_PACKET:
            raise NotMySql(f"a packet of {num_bytes:,} bytes before the login")
        return bytes(super()._read_bytes(num_bytes))  # type: ignore[misc]


class _Deadline:
    """Closes a connection at a deadline, however slowly the server continues.

    This works in the middle of a TLS handshake, too.
    """

    def __init__(self, connected: socket.socket, ends: float) -> None:
        self.passed = False
        self._line = connected.dup()  # the TLS handshake detaches the socket itself
        self._timer = threading.Timer(max(0.0, ends - time.monotonic()), self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        self._line.close()

    def _end(self) -> None:
        self.passed = True
        try:
            self._line.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            return
