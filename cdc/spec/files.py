"""Reads the files of a pipeline: only regular files of limited size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class NotAFile(OSError):
    """The path is not a regular file or the file is too large; `strerror` has the reason."""

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(errno.EINVAL, reason, str(path))


def read_regular(path: Path, most: int) -> bytes:
    """Read a regular file, following links. Raises OSError, including NotAFile.

    FIFOs, devices and folders are refused, and so are files with more than `most` bytes, whatever their reported size
    (0 for files under /proc). Never blocks.
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
