"""The needs of a pipeline on this machine: Java, Python packages, room for its state."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from cdc.errors import EngineError
from cdc.finding import Finding, error, ok
from cdc.process.disk import examine_folder

_DISTRIBUTION = "cdc-pipelines"
_SHOWN = ("pyspark", "pyarrow", "duckdb")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def examine_machine(state_root: Path) -> Iterator[Finding]:
    """Java, packages, the disk of the state directory."""
    yield _java()
    yield _packages()
    yield from examine_folder("state directory", state_root)


def _java() -> Finding:
    from cdc.job.spark.java import choose_java

    try:
        return ok("Java", str(choose_java(os.environ)))
    except EngineError as failed:
        return error("Java", failed.message, failed.hint)


def _packages() -> Finding:
    """The packages that this program declares to need; a source tree that is not installed declares none."""
    try:
        declared = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        declared = []
    names = {found[0] for each in declared if "extra ==" not in each and (found := _NAME.match(each)) is not None}
    missing = sorted(name for name in names | {*_SHOWN} if _version(name) is None)
    if missing:
        return error("Python packages", f"not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    shown = ", ".join(f"{name} {_version(name)}" for name in _SHOWN)
    return ok("Python packages", f"Python {platform.python_version()}, {shown}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
