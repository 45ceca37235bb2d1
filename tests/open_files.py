"""DuckDB files that stay open: for tests that are about something else than opening them.

To make an instance of DuckDB for a file takes 20 ms of processor time, its first look at the columns as much again.
Here one instance of the process has all files, each from its first use to the end of its test.
"""

from __future__ import annotations

import atexit
import re
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb

_really = duckdb.connect
_PLAIN = re.compile(r"[a-z][a-z0-9_]*")
_TAKEN = frozenset({"memory", "system", "temp", "main"})


@cache
def _instance() -> Any:
    atexit.register(_instance.cache_clear)  # DuckDB's binding counts what is left at the very end
    return _really(":memory:")


@cache
def _empty_file(block_bytes: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.duckdb"
        _really(str(path), config={"default_block_size": block_bytes}).close()
        return path.read_bytes()


class OpenFiles:
    """Takes the place of `duckdb.connect` for a test."""

    def __init__(self) -> None:
        self._attached: dict[str, str] = {}
        self._own: dict[str, Any] = {}

    def connect(self, path: str, *, read_only: bool = False, config: dict[str, Any] | None = None) -> Any:
        """A connection to the file, which is open, writable, from its first use on."""
        settings = config or {}
        if path.startswith(":memory:"):
            return _really(path, config=settings)
        if path.endswith(".new") and settings.keys() == {"default_block_size"}:  # before it has its name
            Path(path).write_bytes(_empty_file(settings["default_block_size"]))
            return SimpleNamespace(close=lambda: None)
        if path in self._own:
            return self._own[path].cursor()
        if path not in self._attached:
            if read_only and not Path(path).exists():
                return _really(path, read_only=True)  # as it would be refused
            name = Path(path).name.partition(".")[0]
            if not _PLAIN.fullmatch(name) or name in {*_TAKEN, *self._attached.values()}:
                self._own[path] = _really(path, config=settings)
                return self._own[path].cursor()
            _instance().execute(f"ATTACH '{path}' AS {name}")
            self._attached[path] = name
        cursor = _instance().cursor()
        cursor.execute(f"USE {self._attached[path]}")
        return cursor

    def close(self) -> None:
        """Close all files."""
        while self._attached:
            _instance().execute(f"DETACH {self._attached.popitem()[1]}")
        while self._own:
            self._own.popitem()[1].close()
