"""Numba kernels over result sets of the binary protocol. As with `connectors.mysql.kernels`: checked bounds, codes.

Their compiled code has a cache folder of its own, named after these source files and those of the log's kernels, which
they call; so an edit here does not compile the others anew.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit

import connectors.mysql.kernels  # noqa: F401 - sets its own cache folder first

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _cache_folder() -> Path:
    """The folder of this version's code, below NUMBA_CACHE_DIR or `~/.cache/cdc/kernels`."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for source in (*sorted(here.glob("*.py")), *sorted((here.parents[2] / "kernels").glob("*.py"))):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path.home() / ".cache" / "cdc" / "kernels")
    return base / f"snapshot-{digest.hexdigest()[:16]}"


_FOLDER = _cache_folder()


def kernel(function: _Function) -> _Function:
    """Compile on first use, cached in this package's own folder; where it cannot be made, in Numba's choice."""
    before = config.CACHE_DIR
    try:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        config.CACHE_DIR = str(_FOLDER)
    except OSError:
        pass
    try:
        compiled: _Function = njit(cache=True, nogil=True)(function)
    finally:
        config.CACHE_DIR = before
    return compiled
