"""Files that a pipeline is made of: read whole, when they are regular files of a size that makes sense."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class NotAFile(OSError):
    """The path leads to something that has no end, or is larger than it may be; `strerror` says what."""

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(errno.EINVAL, reason, str(path))


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a regular file, links followed. Raises OSError, NotAFile being one.

    A FIFO, a device and a folder are refused, and so is a file of more than `most` bytes, whatever size it claims
    (files under /proc claim none); nothing is waited for.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise NotAFile("not a file name", path) from error
    try:
        kind = os.fstat(number).st_mode
        if not stat.S_ISREG(kind):
            raise NotAFile(f"is {_kind(kind)}, not a regular file", path)
        data = b""
        while part := os.read(number, most + 1 - len(data)):
            data += part
            if len(data) > most:
                raise NotAFile(f"is larger than {most // 1024:,} kB", path)
    finally:
        os.close(number)
    return data


def _kind(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
    }
    return names.get(stat.S_IFMT(mode), "something else")
