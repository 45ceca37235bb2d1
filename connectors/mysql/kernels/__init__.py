"""Numba kernels over raw log bytes. No kernel reads outside the bounds it is given; none raises: they return codes.

The way of a row: `framing` finds events and verifies them (`crc`), `table_maps` finds out whose rows they hold, `rows`
makes columns of them: `placing` finds the values of many images, `columns` converts them; `row_by_row`, `image` and
`one_value` do the same for what is out of the ordinary. `ops` has the records that they share with Python code.

Compiled code is cached in a folder named after the contents of these source files, below NUMBA_CACHE_DIR or
`~/.cache/cdc/kernels`. Numba itself looks only at the file of the outermost function: after an edit or an upgrade of a
kernel that others call, the old code would live on inside of theirs.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from numba import config


def _digest(folder: Path) -> str:
    """Names and contents of the source files of a folder, and of what they share with Python code, as 16 hex digits."""
    digest = hashlib.sha256()
    for source in (*sorted(folder.glob("*.py")), folder.parent / "log" / "events.py"):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _use_cache_folder() -> None:
    """Point Numba's cache at this version's folder; where it cannot be made, Numba's own choice stays."""
    base = Path(os.environ.get("NUMBA_CACHE_DIR") or Path.home() / ".cache" / "cdc" / "kernels")
    folder = base / _digest(Path(__file__).parent)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    config.CACHE_DIR = str(folder)


_use_cache_folder()
