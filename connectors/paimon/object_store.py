"""The object store of a warehouse: how its buckets are addressed, and whether that address exists.

Without path-style access, the bucket's name is a prefix of the endpoint's host name. When no such host exists, the
libraries keep trying for an hour or more, so it is looked up first.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from cdc.errors import SinkError, SinkUnavailable

PATH_STYLE = "s3.path-style-access"
_SPELLINGS = (PATH_STYLE, "s3.path.style.access")
_HINT = f"catalog.properties.{PATH_STYLE}: true, for a store that has buckets in its paths, such as MinIO"


def path_style(options: Mapping[str, str]) -> bool:
    """Whether the option, in either of Paimon's spellings, puts the bucket into the path."""
    return any(str(options.get(name, "false")).lower() == "true" for name in _SPELLINGS)


def nameless_host(options: Mapping[str, str]) -> str:
    """The endpoint's host if no bucket name can be put before it (an IP address, `localhost`); otherwise empty."""
    host = "" if path_style(options) else _endpoint(options)[0]
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host if host == "localhost" else ""


def check_bucket(options: Mapping[str, str]) -> None:
    """Look up the host of the warehouse's bucket. Raises SinkError when there is none, SinkUnavailable; in seconds."""
    warehouse, (host, port) = urlsplit(options.get("warehouse", "")), _endpoint(options)
    if warehouse.scheme not in ("s3", "s3a") or not host or path_style(options):
        return
    name = f"{warehouse.netloc}.{host}"
    try:
        socket.getaddrinfo(name, port)
    except socket.gaierror as error:
        reason = f"{name}, where the bucket would be, cannot be looked up: {error.strerror}"
        if error.errno == socket.EAI_NONAME:
            raise SinkError(reason, where=warehouse.geturl(), hint=_HINT) from error
        raise SinkUnavailable(reason, where=warehouse.geturl(), hint=_HINT) from error


def _endpoint(options: Mapping[str, str]) -> tuple[str, int | None]:
    """The endpoint's host and port; an empty host when no endpoint is given, which means Amazon's."""
    text = options.get("s3.endpoint", "")
    found = urlsplit(text if "://" in text else f"//{text}")
    return found.hostname or "", found.port
