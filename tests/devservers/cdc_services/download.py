"""Files from the mirror: resumed where an earlier run stopped, kept only when their checksum is right."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from pathlib import Path

_BLOCK = 1 << 18
_TIMEOUT_S = 60


def fetch(url: str, target: Path, *, size: int, sha256: str) -> Path:
    """Make `target` the file at `url`. A right one that is there already is kept; a half one is continued.

    Raises ValueError when the bytes do not have that SHA256, OSError when the server does not give them.
    """
    if target.exists() and target.stat().st_size == size and digest(target) == sha256:
        return target
    part = target.with_name(target.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    if have < size:
        _append(url, part, have)
    if part.stat().st_size != size or digest(part) != sha256:
        part.unlink()
        raise ValueError(f"{target.name}: the checksum is wrong; nothing of it was kept, run this again")
    return part.replace(target)


def get(url: str) -> bytes:
    """A small file. Raises OSError."""
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        return bytes(answer.read())


def digest(path: Path) -> str:
    """SHA256 in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _append(url: str, part: Path, have: int) -> None:
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
        # 206 continues; 200 means that the server sends the whole file again.
        mode = "ab" if answer.status == 206 else "wb"
        with part.open(mode) as out:
            while block := answer.read(_BLOCK):
                out.write(block)
