"""How Numba kernels are declared and cached, and kernels that several connectors call.

The kernels here neither raise errors nor allocate memory.

Compiled code is cached in a folder below NUMBA_CACHE_DIR or `~/.cache/cdc/kernels`, named after the contents of the
kernels' source files. Numba itself checks only the file of the outermost function, so after an edit of an inner
function it would keep using the old code. Where that folder cannot be written, as in a YARN container, whose home is
`/home/`, a folder below the one for temporary files is used, for this user alone. Where that cannot be written either,
or no longer, each process compiles for itself. Numba's setting is changed only while one of these functions is
declared, because it belongs to the whole process and other packages keep their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit

from connectors.shared.kernels.once import compiled_once

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Kernels:
    """The decorator for the kernels of one package: compiled at the first call, run without the interpreter's lock.

    Args:
        folder: holds the package's source files.
        name: the beginning of the name of its cache folder.
        *called: folders of other packages whose kernels these call, and files whose constants they are compiled with;
            the package of this class is always included.
    """

    def __init__(self, folder: Path, name: str, *called: Path) -> None:
        self._cache = _cache_folder((Path(__file__).parent, folder, *called), name)

    def __call__(self, function: _Function) -> _Function:
        """Declare a kernel that only other kernels call: `@kernel`. A call from Python ends the process."""
        return self._declare(function, no_cpython_wrapper=True)

    def entry(self, function: _Function) -> _Function:
        """Declare a kernel that Python calls as well: `@kernel.entry`. Its wrapper takes a tenth more to compile."""
        return self._declare(function)

    def inlined(self, function: _Function) -> _Function:
        """Declare a kernel that is inlined into the kernels that call it: `@kernel.inlined`."""
        return self._declare(function, inline="always")

    def _declare(self, function: _Function, **options: Any) -> _Function:
        compiled: Any = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        if self._cache is None:
            return compiled  # type: ignore[no-any-return]
        before, config.CACHE_DIR = config.CACHE_DIR, self._cache
        try:
            compiled.enable_caching()
        except RuntimeError:  # the folder cannot be written to any more
            return compiled  # type: ignore[no-any-return]
        finally:
            config.CACHE_DIR = before
        compiled_once(compiled, self._cache)
        return compiled  # type: ignore[no-any-return]


def _sources(*places: Path) -> Iterator[Path]:
    """Yield files, and the source files of folders. A place that is named twice counts once."""
    for place in dict.fromkeys(places):
        yield from (sorted(place.glob("*.py")) if place.is_dir() else [place])


def _cache_folder(places: tuple[Path, ...], name: str) -> str | None:
    """Return the cache folder for these sources; None where no folder can be written."""
    digest = hashlib.sha256()
    for source in _sources(*places):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    for base in (_chosen, _of_this_user):
        with contextlib.suppress(OSError, RuntimeError):
            folder = base() / f"{name}-{digest.hexdigest()[:16]}"
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return str(folder)
    return None


def _chosen() -> Path:
    """Return the configured folder. Raises RuntimeError for a user without a home."""
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path.home() / ".cache" / "cdc" / "kernels")


def _of_this_user() -> Path:
    """Return this user's folder among the temporary files. Raises OSError when it belongs to somebody else.

    The code in it will be run, so nobody else may write there.
    """
    folder = Path(tempfile.gettempdir()) / f"cdc-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not of this user alone")
    return folder


kernel = Kernels(Path(__file__).parent, "shared")
"""Declares a kernel of this package."""
