"""Rows of an Iceberg table as DuckDB's extension reads them: another reader than the library that writes.

The extension is for another DuckDB than ours, so both are in a folder of their own (`make services`), and read in a
process of their own.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from types import TracebackType
from typing import Any

import pytest

from cdc_services.iceberg import install

_SCRIPT = """
import sys, pathlib, pickle, traceback
folder, = sys.argv[1:]
sys.path.insert(0, folder)
import duckdb
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):
    path, = pathlib.Path(folder).glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
    con.execute(f"LOAD '{path}'")
for line in sys.stdin:
    try:
        path, _, where = line.rstrip("\\n").partition("\\t")
        found = con.execute("SELECT * FROM iceberg_scan(?)" + (where and " WHERE ") + where, [path])
        names = [item[0] for item in found.description]
        answer = [dict(zip(names, row)) for row in found.fetchall()]
    except Exception:
        answer = traceback.format_exc()
    pickle.dump(answer, sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


class Judge:
    """A process of DuckDB; one table after another."""

    def __init__(self) -> None:
        folder = install.installed()
        if folder is None:
            reason = "DuckDB's Iceberg extension is not installed: make services"
            if "iceberg" in os.environ.get("CDC_REQUIRE_SERVICES", "").replace(" ", "").split(","):
                pytest.fail(f"{reason} (CDC_REQUIRE_SERVICES asks for it)", pytrace=False)
            pytest.skip(reason)
        command = [sys.executable, "-S", "-c", _SCRIPT, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def rows(self, metadata_location: str, where: str = "") -> list[dict[str, Any]]:
        """The rows of the table's newest snapshot, all or those that fit. Raises AssertionError with DuckDB's words."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{metadata_location.removeprefix('file://')}\t{where}\n".encode())
        self._process.stdin.flush()
        found: list[dict[str, Any]] | str = pickle.load(self._process.stdout)
        assert not isinstance(found, str), found
        return found

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


def duckdb_rows(metadata_location: str) -> list[dict[str, Any]]:
    """All rows of the table's newest snapshot, by a process for this question alone."""
    with Judge() as judge:
        return judge.rows(metadata_location)
