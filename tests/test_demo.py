"""The demo ends with the tables that the recorded server held when its binlog ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = json.loads((ROOT / "tests" / "golden" / "demo.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that `cdc run pipelines/demo.yaml` made, in a folder of its own."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(ROOT / "pipelines", folder / "pipelines")
    (folder / ".cdc").mkdir()
    command = [sys.executable, "-c", "from cdc.cli import main; main()", "run", "pipelines/demo.yaml"]
    done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder / ".cdc" / "demo.duckdb"


def as_mysql_prints(value: object) -> str | None:
    """Text of a value without what DuckDB and MySQL print differently: trailing zeros of fractions, the UTC offset."""
    if value is None:
        return None
    text = str(value).removesuffix("+00").removesuffix("+00:00")
    return text.rstrip("0").rstrip(".") if "." in text else text


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("table", EXPECTED)
def test_the_demo_ends_with_the_rows_of_the_recorded_server(demo: Path, table: str) -> None:
    checks = EXPECTED[table]
    with duckdb.connect(str(demo), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        select = ", ".join(f"CAST({check.replace('char_length', 'length')} AS VARCHAR)" for check in checks)
        found = connection.execute(f"SELECT {select} FROM shop.{table}").fetchall()[0]
    assert {check: as_mysql_prints(value) for check, value in zip(checks, found, strict=True)} == {
        check: as_mysql_prints(value) for check, value in checks.items()
    }
