"""Install the reader into the cache folder with pip: packages are pinned by hash, and nothing else is resolved.

The extension is for another DuckDB than this environment's, so it has a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

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
    cache.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=cache))
    try:
        say(f"{NAME}: pip brings DuckDB and its extension, 60 MB")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        words = [*pip, "--require-hashes", "--target", str(part), "-r", str(HERE / _PINS)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(f"pip fails: {(done.stdout + done.stderr).strip()[-1500:]}")
        shutil.copy(HERE / _PINS, part)
        target = cache / f"{NAME}-reader"
        shutil.rmtree(target, ignore_errors=True)
        part.replace(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    say(f"{NAME}: the reader is in {target}")
    return target
