"""Formats of the state directory: an older one is brought to today's when a run opens it, a newer one is refused.

| format | since | what is different |
|---|---|---|
| 1 | the first version | everybody could read it; some files were written without a sync |
| 2 | 0.2 | folders 0700, files 0600; the splits of a batch are kept until it is committed |

Whoever changes what is written so that an older version would go wrong with it raises FORMAT and adds a step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cdc.state.durable import FILE_MODE, FOLDER_MODE, remove, state_error

FORMAT = 2

_SPARES = ("source/schemas.new", "source/chunks.new", "source/watermarks.new", "source/lost.tmp",
           "source/captured.tmp", "sink/applied.tmp", "sink/committed.json.tmp")  # fmt: skip
"""What a crash of a version with format 1 may have left."""


def migrated(root: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a directory to today's format, step by step; what its `pipeline.json` says from then on.

    Driver, under the lock. Each step may be repeated: a crash before the new `pipeline.json` is written repeats them.
    Raises StateError.
    """
    for older in range(int(fields["format"]), FORMAT):
        _STEPS[older](root)
    return {**fields, "format": FORMAT}


def _from_1(root: Path) -> None:
    for name in _SPARES:
        remove(root / name)
    make_private(root)


def make_private(root: Path) -> None:
    """Take the rights of others away from everything below. Raises StateError."""
    try:
        for folder, _, files in os.walk(root):
            os.chmod(folder, FOLDER_MODE)
            for name in files:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    os.chmod(path, FILE_MODE)
    except OSError as error:
        raise state_error(root, error) from error


_STEPS: Mapping[int, Callable[[Path], None]] = {1: _from_1}
