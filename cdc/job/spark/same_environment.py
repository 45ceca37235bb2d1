"""Checks that executors have the same Python packages as the driver: other versions may decode rows differently."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from functools import cache

from cdc.errors import EngineError

CODE = "the code of cdc"
_COMPARED = ("pyspark", "pyarrow", "numpy", "numba", "duckdb", "sqlglot", "confluent-kafka", "pymysql")
"""Packages that read, compute and write rows."""

Installed = Mapping[str, str]
"""Versions by package name, with Python's version and a digest of the code of cdc; empty for a missing package."""


def _looker() -> Callable[[], dict[str, str]]:
    """A function that returns what is installed where it runs.

    It is a local function, so that Spark sends its code instead of its name: it runs where `cdc` is missing or differs.
    """
    names, code = _COMPARED, CODE

    def look() -> dict[str, str]:
        import hashlib
        import importlib.metadata
        import importlib.util
        import pathlib
        import sys

        found = {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        for name in names:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = ""
        digest = hashlib.sha256()
        for package in ("cdc", "connectors"):
            spec = importlib.util.find_spec(package)
            for folder in () if spec is None else spec.submodule_search_locations or ():
                root = pathlib.Path(folder)
                for path in sorted(root.rglob("*.py")):
                    digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
        has_cdc = importlib.util.find_spec("cdc") is not None
        found[code] = digest.hexdigest()[:12] if has_cdc else ""
        return found

    return look


look = _looker()


@cache
def installed() -> Installed:
    """The packages of this process. Any process."""
    return look()


@cache
def _check_installed(expected: tuple[tuple[str, str], ...]) -> None:
    check(dict(expected), installed(), socket.gethostname(), sys.executable)


def check_same_environment(expected: Installed) -> None:
    """Raise EngineError if this process has other packages than the driver. Executor; checked once per process."""
    _check_installed(tuple(sorted(expected.items())))


def check(expected: Installed, found: Installed, machine: str, python: str) -> None:
    """Raise EngineError if an executor's packages differ from the driver's. Any process. Pure."""
    others = [_difference(name, version, found.get(name, "")) for name, version in expected.items()
              if found.get(name, "") != version]  # fmt: skip
    if others:
        raise EngineError(
            f"the Python of an executor differs from the driver's: {'; '.join(others)}",
            where=f"{machine}: {python}",
            hint="install the same version of cdc with the same pinned requirements there (docs/cluster.md)",
        )


def _difference(name: str, expected: str, found: str) -> str:
    if not found:
        return f"{name} is missing there" if name != CODE else "the package cdc is missing there"
    if name == CODE:
        return "cdc is of another version there"
    return f"{name} is {found} there and {expected or 'missing'} here"
