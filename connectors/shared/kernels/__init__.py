"""How Numba kernels over Arrow buffers are declared and cached. None raises and none allocates.

Compiled code is cached in a folder named after the contents of the kernels' source files, below NUMBA_CACHE_DIR or
`~/.cache/cdc/kernels`: Numba itself looks only at the file of the outermost function, and after an edit of an inner one
the old code would live on. The folder is set while one of these functions is declared and only then, as the setting
belongs to the whole process and other packages keep their own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from numba import config, njit

Declare = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a kernel of a function: compiled at its first call, cached, and run without the interpreter's lock."""


def kernels_in(folder: Path, name: str, *called: Path) -> Declare:
    """The decorator for the kernels of one package: `folder` holds its source files, `name` begins its cache folder.

    `called` are the folders of other packages whose kernels these call.
    """
    cache = _cache_folder((folder, *called), name)

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        before = config.CACHE_DIR
        if cache is not None:
            config.CACHE_DIR = cache
        try:
            return njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
        finally:
            config.CACHE_DIR = before

    return declare


def _digest(*folders: Path) -> str:
    """Names and contents of the source files of folders, as 16 hex digits."""
    digest = hashlib.sha256()
    for folder in folders:
        for source in sorted(folder.glob("*.py")):
            digest.update(source.name.encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder(packages: Sequence[Path], name: str) -> str | None:
    """This version's folder, None where it cannot be made: Numba's own choice stays then."""
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path.home() / ".cache" / "cdc" / "kernels")
    folder = base / f"{name}-{_digest(Path(__file__).parent, *packages)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder)
