"""A program that reads tables in a process of its own, one question after another: readers of Iceberg tables."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self


class ReadingProcess:
    """The process. It reads lines `place TAB condition`, and answers each with a pickled list of rows, or a text."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] = os.environ, *, quiet: bool = False) -> None:
        """`quiet`: what it writes to stderr is dropped."""
        self._process = subprocess.Popen(
            command, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
        )  # fmt: skip

    def rows(self, place: str, where: str = "") -> list[dict[str, Any]]:
        """The rows of the table at a place, all or those that fit. Raises AssertionError with the program's words."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{place}\t{where}\n".encode())
        self._process.stdin.flush()
        found: list[dict[str, Any]] | str = pickle.load(self._process.stdout)
        assert not isinstance(found, str), found
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(300)
