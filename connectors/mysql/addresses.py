"""Internet addresses as MariaDB spells them: columns of the types INET4 and INET6."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop, inet_pton

FAMILIES = {"inet4": AF_INET, "inet6": AF_INET6}


def address_bytes(text: str, kind: str) -> bytes:
    """Parse an address of the column type `kind`. Raises OSError for text that is none."""
    return inet_pton(FAMILIES[kind], text)


def address_text(value: bytes, kind: str) -> str:
    """Format an address of the column type `kind`. Raises ValueError for another number of bytes.

    MariaDB writes `::` also for a single group of zeros (`Inet6::to_string` in `plugin/type_inet/sql_type_inet.cc`),
    which the C library does not.
    """
    text = inet_ntop(FAMILIES[kind], value)
    groups = text.split(":")
    if kind == "inet4" or "::" in text or "0" not in groups:
        return text
    at = groups.index("0")
    return ":".join(groups[:at]) + "::" + ":".join(groups[at + 1 :])
