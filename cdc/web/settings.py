"""Settings of the web page: where it is served, and to whom."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, field

from cdc.errors import EngineError

LEAST_TOKEN = 16
"""Minimum characters of a token: a shorter one could be guessed."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The address of the page, and the permissions of visitors.

    Attributes:
        host, port: where to listen; port 0 means any free port.
        token: required for access; empty: everyone on this machine has access, and nobody else.
        read_only: allows reading only, no actions.
        hosts: further names of this server, for a server behind a proxy.
    """

    host: str = "127.0.0.1"
    port: int = 8380
    token: str = field(default="", repr=False)
    read_only: bool = False
    hosts: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise EngineError for settings that would admit anyone."""
        if not self.token and not is_loopback(self.host):
            raise EngineError(
                f"the web page would be open to everyone who can reach {self.host}",
                hint="set a token (CDC_WEB_TOKEN) of 16 characters or more, or listen on 127.0.0.1",
            )
        if self.token and len(self.token) < LEAST_TOKEN:
            raise EngineError(
                f"the token for the web page has {len(self.token)} characters and could be guessed",
                hint=f"take one of {LEAST_TOKEN} or more: python3 -c 'import secrets; print(secrets.token_urlsafe())'",
            )

    def is_own_host(self, header: str) -> bool:
        """Whether a Host header is one of ours: a page of another site whose name resolves to us sends that name."""
        name = host_name(header)
        if is_loopback(self.host):
            return is_loopback(name) or name in self.hosts
        return name in (self.host, socket.gethostname().lower(), socket.getfqdn().lower(), *self.hosts) or _is_ip(name)


def host_name(header: str) -> str:
    """Return the name in a Host header, in lower case, without port and brackets."""
    name = header.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def is_loopback(name: str) -> bool:
    """Whether the name is only reachable from this machine."""
    return name == "localhost" or (_is_ip(name) and ipaddress.ip_address(name).is_loopback)


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
