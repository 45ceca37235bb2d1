"""Paimon's Java library as a reader: what it finds in a table is what users of the lake find.

It is found in the cache folder (`python -m cdc_services install paimon`); else the tests that need it are skipped, or
fail when `CDC_REQUIRE_SERVICES` names paimon.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from servers import missing

from cdc_services.paimon import install as paimon


class Judge:
    """A process of Java over one catalog; one command after another."""

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            found = paimon.find()
        except LookupError as error:
            found = None
            reason = str(error)
        else:
            reason = "Paimon's Java library is not installed: python -m cdc_services install paimon"
        if found is None:
            missing("paimon", reason)
        self._process = subprocess.Popen(
            found.command(options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            encoding="utf-8",
        )  # fmt: skip

    def rows(self, database: str, table: str) -> list[dict[str, Any]]:
        """All rows, values as text; None for NULL. Raises AssertionError with Java's words."""
        return [json.loads(line) for line in self._asked("read", database, table)]

    def compact(self, database: str, table: str) -> None:
        """A full compaction."""
        self._asked("compact", database, table)

    def _asked(self, *words: str) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        lines = []
        for line in self._process.stdout:
            if line == "done\n":
                return lines
            assert not line.startswith("error "), line
            lines.append(line)
        raise AssertionError("Java has ended")

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(300)
        assert self._process.stdout is not None
        self._process.stdout.close()
