"""The demo ends with the very rows that the recorded server held when its binlog ended."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from without_java import without_java

ROOT = Path(__file__).resolve().parent.parent
EXPECTED = json.loads((ROOT / "tests" / "golden" / "demo.json").read_text(encoding="utf-8"))
digest = runpy.run_path(str(ROOT / "scripts" / "record_demo.py"))["digest"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database that `cdc run pipelines/demo.yaml` made, in a folder of its own, on a machine without Java."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(ROOT / "pipelines", folder / "pipelines")
    (folder / ".cdc").mkdir()
    command = [sys.executable, "-c", "from cdc.cli import main; main()", "run", "pipelines/demo.yaml"]
    done = subprocess.run(command, cwd=folder, env=without_java(folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder / ".cdc" / "demo.duckdb"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("table", EXPECTED)
def test_the_demo_ends_with_the_rows_of_the_recorded_server(demo: Path, table: str) -> None:
    expected = EXPECTED[table]
    columns = ", ".join(f'"{column}"' for column in expected["columns"])
    with duckdb.connect(str(demo), read_only=True) as connection:
        rows = connection.execute(f"SELECT {columns} FROM shop.{table}").fetchall()
    assert len(rows) == expected["rows"]
    assert digest(rows) == expected["sha256"]


@pytest.mark.spark
@pytest.mark.slow
def test_spark_writes_its_log_of_batches_without_checksum_files(demo: Path) -> None:
    state = next(demo.parent.parent.rglob("offsets")).parent
    assert {path.name for path in state.glob("offsets/*")} >= {"0", "1"}
    assert not list(state.rglob(".*.crc")), "each is written by a process of its own"


@pytest.mark.slow
def test_the_decoder_is_compiled_by_reading_the_whole_demo() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "warm.py"), "decoder"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^decoder ready: [\d,]{5,} row images in \d+ s$", done.stdout, re.MULTILINE)


def test_the_digest_depends_on_every_value_and_not_on_the_order() -> None:
    rows = [(1, "a", None), (2, "b", b"\x00")]
    assert digest(rows) == digest(rows[::-1])
    assert (
        len(
            {digest(rows), digest([(1, "a", ""), rows[1]]), digest([*rows, rows[0]]), digest([(1, "A", None), rows[1]])}
        )
        == 4
    )
