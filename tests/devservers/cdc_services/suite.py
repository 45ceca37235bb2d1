"""A suite's package index, and how far it can be trusted.

The chain: an archive key on this machine signs `InRelease`; that lists the SHA256 of `Packages.xz`; that lists the
SHA256 of every package. Without `gpgv` or the keyring the first link is missing, and the sums prove only that what
arrived is what the mirror meant to send.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from cdc_services.download import get
from cdc_services.packages import Package, parse_index

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SIGNED = "the archive's signature is good, and every file has the SHA256 that the signed index lists"
UNSIGNED = (
    "every file has the SHA256 that the mirror's index lists; the index itself could not be checked "
    "(no gpgv, or no Debian keyring on this machine), so this trusts the mirror and the way to it"
)


def read_index(mirror: str, suite: str, architecture: str) -> tuple[dict[str, Package], str]:
    """The packages of a suite, and one sentence that says what vouches for them.

    Raises ValueError when a signature or checksum is wrong, OSError when the mirror does not answer.
    """
    release, trust = verified(get(f"{mirror}/dists/{suite}/InRelease"))
    name = f"main/binary-{architecture}/Packages.xz"
    wanted = listed_sha256(release, name)
    folder = f"{mirror}/dists/{suite}/main/binary-{architecture}"
    data = _first([f"{folder}/by-hash/SHA256/{wanted}", f"{folder}/Packages.xz"])
    if hashlib.sha256(data).hexdigest() != wanted:
        raise ValueError(f"{suite}: the package index has the wrong checksum; the mirror may be changing, try again")
    return parse_index(lzma.decompress(data).decode()), trust


def verified(in_release: bytes, keyring: Path = KEYRING) -> tuple[str, str]:
    """The text of a clear-signed `InRelease`, and what its signature proves. Raises ValueError for a bad signature."""
    gpgv = shutil.which("gpgv")
    if gpgv is None or not keyring.is_file():
        return in_release.decode(), UNSIGNED
    with tempfile.TemporaryDirectory() as folder:
        source, text = Path(folder) / "InRelease", Path(folder) / "Release"
        source.write_bytes(in_release)
        command = [gpgv, "--status-fd", "1", "--keyring", str(keyring), "--output", str(text), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        # Several keys sign a release; as in apt one known good signature is enough, and one bad one too many.
        if not re.search(r"(?m)^\[GNUPG:\] VALIDSIG ", done.stdout) or "[GNUPG:] BADSIG " in done.stdout:
            raise ValueError(f"the signature of InRelease is not good: {done.stderr.strip()[-500:]}")
        return text.read_text(), SIGNED


def listed_sha256(release: str, name: str) -> str:
    """The SHA256 of one index file. Raises ValueError when the release does not list it."""
    section = re.search(r"(?m)^SHA256:\n((?: .*\n?)+)", release)
    for line in section[1].splitlines() if section else []:
        digest, _, path = line.split()
        if path == name:
            return digest
    raise ValueError(f"the release file lists no {name}")


def _first(urls: list[str], read: Callable[[str], bytes] = get) -> bytes:
    for url in urls[:-1]:
        try:
            return read(url)
        except OSError:
            continue  # a mirror without by-hash folders
    return read(urls[-1])
