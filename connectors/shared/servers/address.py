"""Addresses of servers and how to reach them: credentials, TLS, time limits. Frozen and picklable."""

from __future__ import annotations

import base64
import ipaddress
import re
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from cdc.errors import SinkError

_NAME = re.compile(r"[^\s/@?#]+")


@dataclass(frozen=True, slots=True)
class Address:
    """One HTTP server. `str()` never contains credentials."""

    host: str
    port: int
    secure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    @property
    def host_header(self) -> str:
        """`host:port` as in the Host header."""
        return str(self).partition("://")[2]

    @property
    def is_loopback(self) -> bool:
        """Whether it denotes this machine by its spelling; no name is resolved."""
        if self.host.lower() in ("localhost", "localhost.localdomain"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str, *, default_port: int) -> Address:
        """Parse `host`, `host:port`, `[::1]:port`, or one of them after `http://` or `https://`.

        Raises ValueError with the reason, which never repeats credentials.
        """
        scheme, mark, rest = text.strip().rpartition("://")
        rest = rest.rstrip("/")
        if (mark and scheme.lower() not in ("http", "https")) or not _NAME.fullmatch(rest):
            raise ValueError("must be host:port, after http:// or https:// if need be, without path and user")
        try:
            parts = urlsplit(f"//{rest}")
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("the port must be a number from 1 to 65535") from None
        if not host or port == 0:
            raise ValueError("must be host:port")
        return cls(host, default_port if port is None else port, scheme.lower() == "https")


def parse_list(text: str, *, default_port: int, separators: str = ",;") -> tuple[Address, ...]:
    """Parse addresses separated by any of `separators`, in order of preference. Raises ValueError."""
    parts = [part for part in re.split(f"[{re.escape(separators)}]", text) if part.strip()]
    if not parts:
        raise ValueError("must name at least one host:port")
    return tuple(Address.parse(part, default_port=default_port) for part in parts)


@dataclass(frozen=True, slots=True)
class Account:
    """The account to log in with. The password appears in no text representation."""

    username: str
    password: str = field(default="", repr=False)

    @property
    def authorization(self) -> str:
        """The value of the header `Authorization` (RFC 7617, UTF-8)."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


@dataclass(frozen=True, slots=True)
class Tls:
    """Proof of the identity of a server.

    Attributes:
        ca: PEM file of the authorities to trust; None means the system's.
        verify: whether certificate and host name are verified at all.
        plain_backends: whether a front end reached over TLS may redirect us, with our credentials, to a plain address.
    """

    ca: str | None = None
    verify: bool = True
    plain_backends: bool = False

    def context(self) -> ssl.SSLContext:
        """Return a client context, shared by all connections. Raises SinkError for an unusable file."""
        try:
            return _context(self, Path(self.ca).stat().st_mtime_ns if self.ca else 0)
        except OSError as error:
            reason = f"a TLS file cannot be used: {error.strerror or error}"
            raise SinkError(reason, where=str(self.ca), hint="it must be a readable PEM file") from error


@lru_cache(maxsize=16)
def _context(tls: Tls, _changed_ns: int) -> ssl.SSLContext:
    """Return the cached context: reading the system's authorities takes 50 ms, as long as several loads of few rows."""
    context = ssl.create_default_context(cafile=tls.ca)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits, in seconds.

    Attributes:
        connect_s: the connection, with its TLS handshake.
        continue_s: the server's `100 Continue`, before which it plans the load.
        send_s: space in the connection for the next piece of a body (1 MB).
        answer_s: the answer, after everything was sent.
    """

    connect_s: float = 10.0
    continue_s: float = 60.0
    send_s: float = 120.0
    answer_s: float = 600.0
