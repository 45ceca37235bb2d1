"""Install the reader into the cache folder with pip: packages are pinned by hash, and nothing else is resolved.

The extension is for another DuckDB than this environment's, so it has a folder of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from cdc_services.bringing import bring_packages, whole
from cdc_services.installation import services_dir

HERE = Path(__file__).resolve().parent
NAME = "iceberg"
_PINS = "requirements.txt"


def installed(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder with the packages, None when there is none, or one of other pins."""
    folder = services_dir(environ) / f"{NAME}-reader"
    pins = folder / _PINS
    return folder if pins.is_file() and pins.read_bytes() == (HERE / _PINS).read_bytes() else None


def install(cache: Path, say: Callable[[str], None]) -> Path:
    """Bring and check; the folder appears whole or not at all. Raises OSError with pip's words."""
    target = cache / f"{NAME}-reader"
    with whole(target) as part:
        say(f"{NAME}: pip brings DuckDB and its extension, 60 MB")
        bring_packages(HERE / _PINS, part, os.environ)
    say(f"{NAME}: the reader is in {target}")
    return target
