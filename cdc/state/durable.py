"""Writes files of the state directory: atomically, on disk when it returns, readable only by this user.

A crash leaves either the old content or the new. An error of the operating system becomes a StateError with the path
and the next step.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cdc.errors import StateError

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_HINTS = {
    errno.ENOSPC: "free some space and start again; nothing was lost",
    errno.EDQUOT: "raise the quota and start again; nothing was lost",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f) and start again; nothing was lost",
    errno.EACCES: "give this user read and write access, or choose another --state-dir",
    errno.EPERM: "give this user read and write access, or choose another --state-dir",
    errno.EROFS: "choose another --state-dir",
    errno.EMFILE: "raise the limit of open files (ulimit -n) and start again; nothing was lost",
    errno.ENFILE: "raise the machine's limit of open files and start again; nothing was lost",
    errno.EIO: "look at the disk and the system's log; restore the state directory from a backup if it is damaged",
    errno.ENOTDIR: "a file is where a folder should be: choose another --state-dir",
    errno.EEXIST: "a file is where a folder should be: choose another --state-dir",
    errno.ENAMETOOLONG: "choose a --state-dir with a shorter path",
}
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE})
"""Errors that are not about a particular file: no room for data or for files."""

_OTHER = "see what is wrong there and start again; nothing was lost"


def state_error(path: Path, error: OSError, verb: str = "write") -> StateError:
    """An error of the operating system as a StateError; `path` is used if the error names no file."""
    reason = error.strerror or type(error).__name__
    return StateError(f"cannot {verb} the state: {reason}", where=str(error.filename or path), hint=hint_for(error))


def hint_for(error: OSError) -> str:
    """The user's next step after an error of the operating system."""
    return _HINTS.get(error.errno or 0, _OTHER)


def temporary_path(path: Path) -> Path:
    """Return the name under which this thread writes a file before the file gets its own name; `sweep` knows it."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically: temporary file, fsync, rename, fsync of the folder. Raises StateError."""
    temporary = temporary_path(path)
    try:
        create_folder(path.parent)
        with durable(temporary, path) as file:
            file.write(data)
    except OSError as error:
        raise state_error(path, error) from error


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically without syncing it: a power failure may undo that. Raises OSError."""
    temporary = temporary_path(path)
    with open(temporary, "wb", opener=private) as file:
        file.write(data)
    os.replace(temporary, path)


@contextlib.contextmanager
def durable(temporary: Path, path: Path) -> Iterator[BinaryIO]:
    """Context manager: a new file written under the name `temporary`; at the end it is on disk and named `path`.

    If the block raises, `temporary` is removed and `path` is unchanged. Raises OSError.
    """
    with new_file(temporary) as file:
        yield file
    try:
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Context manager: a new file for bulk data; at the end it and its folder are on disk. Raises OSError.

    If the block raises, the file is removed.
    """
    file = open_new(path)
    try:
        yield file
        close_synced(file)
    except BaseException:
        file.close()
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def open_new(path: Path) -> BinaryIO:
    """Create or truncate a file, readable only by this user, and its folder. Raises OSError."""
    create_folder(path.parent)
    return open(path, "wb", opener=private)


def close_synced(file: BinaryIO) -> None:
    """Sync a file of `open_new` and its folder to disk, and close it. Raises OSError."""
    with file:
        file.flush()
        os.fsync(file.fileno())
    sync_folder(Path(file.name).parent)


def create_folder(folder: Path) -> None:
    """Create a folder and its missing parents; they are on disk when it returns. Raises OSError."""
    if folder.is_dir():
        return
    create_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(FOLDER_MODE)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Sync a file that another program has written, and its folder, to disk. Raises OSError."""
    sync_folder(path)
    sync_folder(path.parent)


def remove(path: Path) -> None:
    """Remove a file if it exists. Raises StateError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise state_error(path, error, "remove a file of") from error


def sweep(folder: Path) -> None:
    """Remove temporary files that crashes have left in a folder, except those of this process: another thread may be
    writing one, as `cdc serve` does the history of runs. No other process may be writing to it."""
    own = f".{os.getpid()}-"
    with os.scandir(folder) as found:
        names = [entry.name for entry in found if entry.name.startswith(".") and entry.name.endswith(".tmp")]
    for name in names:
        if own not in name:
            remove(folder / name)


def private(path: str, flags: int) -> int:
    """An opener for `open` that creates files readable only by this user."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
