"""What DuckDB prints by itself: nothing, as the output is the run's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ASK = "SELECT current_setting('enable_progress_bar')"
_PROGRAM = f"""
from cdc.transform.engine import Engine
from cdc.verify.hashing import open_engine
from connectors.duckdb.database import Database
from connectors.duckdb.options import DuckDbSinkOptions
with Database(DuckDbSinkOptions.model_validate({{"type": "duckdb", "path": "a.duckdb"}})).open() as session:
    assert session.rows("{_ASK}") == [(False,)]
assert Engine()._connection.execute("{_ASK}").fetchall() == [(False,)]
assert open_engine().execute("{_ASK}").fetchall() == [(False,)]
"""


def test_no_progress_bar_is_printed_by_a_process_that_looks_like_a_prompt(tmp_path: Path) -> None:
    """A process without a main file is a prompt to DuckDB, and a worker of Spark has none."""
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=tmp_path, env={**os.environ, **path}, timeout=120)
    assert found.returncode == 0
