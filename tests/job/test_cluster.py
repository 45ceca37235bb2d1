"""A pipeline on a real Spark standalone cluster, whose workers run in other folders than the driver."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from cdc_process import TIMEOUT_S, wait_for
from standalone import SETTINGS, Cluster, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parent.parent.parent
EXPECTED = json.loads((ROOT / "tests" / "golden" / "demo.json").read_text(encoding="utf-8"))
digest = runpy.run_path(str(ROOT / "scripts" / "record_demo.py"))["digest"]

HELD = """
import json, os, pathlib, time

FOLDER = pathlib.Path({folder!r})

def eval(number: int) -> int:
    if not (FOLDER / "go").exists():
        seen = {{"pid": os.getpid(), "folder": os.getcwd(), "temporary": os.environ["TMPDIR"]}}
        (FOLDER / f"{{os.getpid()}}.part").write_text(json.dumps(seen))
        os.replace(FOLDER / f"{{os.getpid()}}.part", FOLDER / f"{{os.getpid()}}.task")
    while not (FOLDER / "go").exists():
        time.sleep(0.05)
    return number
"""
"""A function for rules that waits for the file `go`, and tells before that in which process it is."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone(tmp_path / "cluster") as made:
        yield made


def write_demo(folder: Path) -> None:
    """The demo in a folder of its own; what reads orders there waits in the first batch."""
    shutil.copytree(ROOT / "pipelines" / "demo", folder / "demo")
    document = yaml.safe_load((ROOT / "pipelines" / "demo.yaml").read_text(encoding="utf-8"))
    document["sink"]["path"] = "demo.duckdb"
    document["transform"] = [{"source-table": "shop.orders", "projection": r"\*, held(CAST(id AS BIGINT)) AS held"}]
    code = HELD.format(folder=str(folder))
    document["pipeline"]["user-defined-function"] = [{"name": "held", "python-code": code}]
    (folder / "demo.yaml").write_text(yaml.safe_dump(document))


@contextmanager
def running(folder: Path, master: str) -> Iterator[subprocess.Popen[bytes]]:
    """`cdc run` with relative paths, in a folder that no worker runs in."""
    command = [sys.executable, "-c", "from cdc.cli import main; main()", "run", "demo.yaml", "--state-dir", "state"]
    env = {**os.environ, "CDC_SPARK_CONF": SETTINGS, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--master", master], cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tasks(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("*.task")]


def test_a_worker_that_is_killed_in_the_middle_of_a_batch_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    write_demo(folder)
    log = folder / "run.log"
    with running(folder, cluster.url) as process:
        wait_for("a task", lambda: tasks(folder) or process.poll() is not None)
        assert tasks(folder), log.read_text()[-4000:]
        task = tasks(folder)[0]
        worker = next(worker for worker in cluster.workers if worker.runs(task["pid"]))
        assert task["folder"].startswith(str(worker.folder))
        assert task["temporary"] == str(worker.temporary)
        worker.kill9()
        (folder / "go").touch()
        assert process.wait(TIMEOUT_S) == 0, log.read_text()[-4000:]
    with duckdb.connect(str(folder / "demo.duckdb"), read_only=True) as connection:
        for table, expected in EXPECTED.items():
            columns = ", ".join(f'"{column}"' for column in expected["columns"])
            rows = connection.execute(f"SELECT {columns} FROM shop.{table}").fetchall()
            assert (table, len(rows), digest(rows)) == (table, expected["rows"], expected["sha256"])
