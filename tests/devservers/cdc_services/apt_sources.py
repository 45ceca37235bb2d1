"""The Debian mirror that this machine's apt is configured with (formats: sources.list(5)). No host is named here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_DEBIAN = re.compile(r"(https?://\S+/debian)/?")
_ONE_LINE = re.compile(r"deb(?:-src)?\s+(?:\[[^]]*\]\s+)?(\S+)")
NO_MIRROR = (
    "no Debian mirror is known: apt has none configured here. Name one with --mirror or CDC_DEBIAN_MIRROR, "
    "or start the servers with Docker, or give the tests an address (CDC_TEST_MYSQL_URL, CDC_TEST_MARIADB_URL)"
)


def mirror(environ: Mapping[str, str] = os.environ, etc: Path = Path("/etc/apt")) -> str:
    """The base address to download from: `CDC_DEBIAN_MIRROR`, else the first of apt's own that ends in `/debian`.

    Raises LookupError naming the alternatives.
    """
    chosen = environ.get("CDC_DEBIAN_MIRROR")
    if chosen:
        return chosen.rstrip("/")
    for address in addresses(_files(etc)):
        match = _DEBIAN.fullmatch(address)
        if match:
            return match[1]
    raise LookupError(NO_MIRROR)


def addresses(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Repository addresses out of (file name, text) pairs, in order; disabled entries are left out."""
    for name, text in texts:
        yield from _deb822(text) if name.endswith(".sources") else _lines(text)


def _files(etc: Path) -> Iterator[tuple[str, str]]:
    for path in [*sorted(etc.glob("sources.list.d/*")), etc / "sources.list"]:
        if path.suffix in (".sources", ".list") and path.is_file():
            yield path.name, path.read_text()


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        match = _ONE_LINE.match(line.strip())
        if match:
            yield match[1]


def _deb822(text: str) -> Iterator[str]:
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", plain):
        if re.search(r"(?mi)^Enabled:\s*(no|false|0)\s*$", stanza):
            continue
        found = re.search(r"(?mi)^URIs:((?:[^\n]*)(?:\n[ \t]+[^\n]*)*)", stanza)
        if found:
            yield from found[1].split()
