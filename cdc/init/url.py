"""Server URLs for `cdc init`."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from cdc.draft import ServerUrl

_FORM = "write scheme://user@host:port/database, such as mysql://reader@db.example:3306/shop"


def parse_url(text: str) -> ServerUrl:
    """The parts of a URL; user, password and database may be percent-encoded. Raises ValueError with the reason."""
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(f"the port is not a number from 0 to 65535; {_FORM}") from None
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"it names no host; {_FORM}")
    if parts.query or parts.fragment:
        raise ValueError(f"text after ? or # is not supported; {_FORM}, and --option KEY=VALUE for more")
    return ServerUrl(
        parts.scheme.lower(), parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""),
        unquote(parts.path.strip("/")),
    )  # fmt: skip
