"""Pipelines on a real Spark standalone cluster, whose workers see nothing of the driver's folders."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import yaml
from cdc_process import TIMEOUT_S, wait_for
from standalone import ONE_EXECUTOR, SETTINGS, SPARK_HOME, Cluster, can_hide, standalone

from cdc.job.spark.java import choose_java

if TYPE_CHECKING:
    from s3_server import S3Server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not can_hide(), reason="no process here may mount a file system of its own (unshare --mount)"),
]

ROOT = Path(__file__).resolve().parent.parent.parent
EXPECTED = json.loads((ROOT / "tests" / "golden" / "demo.json").read_text(encoding="utf-8"))
digest = runpy.run_path(str(ROOT / "scripts" / "record_demo.py"))["digest"]

MAIN = "from cdc.cli import main; main()"

HELD = """
import json, os, pathlib, time

FOLDER = pathlib.Path({folder!r})

def eval(number: int) -> int:
    if not (FOLDER / "go").exists():
        seen = {{"pid": os.getpid(), "folder": os.getcwd(), "temporary": os.environ["TMPDIR"]}}
        seen["of_driver"] = os.listdir({hidden!r})
        (FOLDER / f"{{os.getpid()}}.part").write_text(json.dumps(seen))
        os.replace(FOLDER / f"{{os.getpid()}}.part", FOLDER / f"{{os.getpid()}}.task")
    while not (FOLDER / "go").exists():
        time.sleep(0.05)
    return number
"""
"""A function for rules that waits for the file `go`, and tells before that in which process it is."""


class Here:
    """The folders of a test: `driver` is the driver's own, `seen` is seen by the workers, too."""

    def __init__(self, hidden: Path, seen: Path) -> None:
        self.hidden, self.driver, self.seen = hidden, hidden / seen.name, seen
        self.driver.mkdir()

    def write_demo(self, database: str) -> None:
        """The demo; what reads orders there waits in the first batch."""
        shutil.copytree(ROOT / "pipelines" / "demo", self.seen / "demo")
        document = yaml.safe_load((ROOT / "pipelines" / "demo.yaml").read_text(encoding="utf-8"))
        document["source"]["path"] = str(self.seen / document["source"]["path"])
        document["sink"]["path"] = database
        document["transform"] = [{"source-table": "shop.orders", "projection": r"\*, held(CAST(id AS BIGINT)) AS held"}]
        code = HELD.format(folder=str(self.seen), hidden=str(self.hidden))
        document["pipeline"]["user-defined-function"] = [{"name": "held", "python-code": code}]
        (self.driver / "demo.yaml").write_text(yaml.safe_dump(document))

    def tasks(self) -> dict[int, dict[str, Any]]:
        """What tasks that wait have told, by process."""
        found = [json.loads(path.read_text()) for path in self.seen.glob("*.task")]
        return {task["pid"]: task for task in found}

    def go(self) -> None:
        (self.seen / "go").touch()

    def check_rows(self, database: Path) -> None:
        with duckdb.connect(str(database), read_only=True) as connection:
            for table, expected in EXPECTED.items():
                columns = ", ".join(f'"{column}"' for column in expected["columns"])
                rows = connection.execute(f"SELECT {columns} FROM shop.{table}").fetchall()
                assert (table, len(rows), digest(rows)) == (table, expected["rows"], expected["sha256"])


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this machine alone."""
    return tmp_path_factory.mktemp("hidden")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, hidden: Path) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster"), hidden=hidden) as made:
        yield made


@pytest.fixture
def here(tmp_path: Path, hidden: Path) -> Here:
    return Here(hidden, tmp_path)


@contextmanager
def running(folder: Path, master: str, *, state: str = "state", **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """`cdc run` in a folder that no worker sees."""
    command = [sys.executable, "-c", MAIN, "run", "demo.yaml", "--state-dir", state, "--master", master]
    with started(command, folder, **env) as process:
        yield process


@contextmanager
def submitted(folder: Path, master: str, machine: str, *, state: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """The same with spark-submit, on a machine of that name."""
    (folder / "cdc-run.py").write_text(MAIN)
    named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', machine]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "cdc-run.py"]
    python = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(choose_java(os.environ).home)}
    with started([*named, *command, "run", "demo.yaml", "--state-dir", state], folder, **python, **env) as process:
        yield process


@contextmanager
def started(command: list[str], folder: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process and all that it starts, gone after the block."""
    given = {**os.environ, "CDC_SPARK_CONF": SETTINGS, "SPARK_LOCAL_IP": "127.0.0.1", **env}
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=given, stdout=log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_workers_are_killed_in_a_batch_and_a_driver_on_another_machine_goes_on_with_nothing_but_the_store(
    cluster: Cluster, here: Here, s3: S3Server, tmp_path: Path
) -> None:
    here.write_demo(str(tmp_path / "demo.duckdb"))
    state = f"{s3.new_bucket()}/demo"
    other = here.driver / "other"
    (other / "tmp").mkdir(parents=True)
    shutil.copy(here.driver / "demo.yaml", other)
    env = {**s3.environment, "CDC_STATE_LEASE_S": "2"}
    first = {"CDC_STATE_CACHE": str(here.driver / "cache"), "CDC_SPARK_CONF": ONE_EXECUTOR}
    log = here.driver / "run.log"
    with running(here.driver, cluster.url, state=state, **env, **first) as process:

        def another_task(known: set[int]) -> dict[str, Any]:
            wait_for("a task", lambda: here.tasks().keys() - known or process.poll() is not None)
            assert here.tasks().keys() - known, log.read_text()[-4000:]
            return next(task for pid, task in here.tasks().items() if pid not in known)

        task = another_task(set())
        worker = next(worker for worker in cluster.workers if worker.runs(task["pid"]))
        assert task["folder"].startswith(str(worker.folder))
        assert task["temporary"] == str(worker.temporary)
        assert task["of_driver"] == []
        worker.kill9()
        another_task({task["pid"]})
        for each in cluster.workers:
            each.kill9()
        known = set(here.tasks())
        cluster.add_workers(2)
        another_task(known)
    here.go()
    there = {"CDC_STATE_CACHE": str(other / "cache"), "TMPDIR": str(other / "tmp")}
    with submitted(other, cluster.url, "localhost", state=state, **env, **there) as process:
        assert process.wait(TIMEOUT_S) == 0, (other / "run.log").read_text()[-4000:]
    here.check_rows(tmp_path / "demo.duckdb")


@pytest.mark.exhaustive
def test_a_cluster_without_room_is_told_and_a_stop_does_not_wait_for_it(cluster: Cluster, here: Here) -> None:
    here.write_demo(str(here.seen / "lake.duckdb"))
    log = here.driver / "run.log"
    with running(here.driver, cluster.url, CDC_SPARK_CONF="spark.executor.memory=100g") as process:
        wait_for("a word about executors", lambda: "Spark has work, and no executor for it" in log.read_text())
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0
    assert "stopped before anything was read" in log.read_text()


@pytest.mark.exhaustive
def test_a_machine_without_the_python_of_the_driver_is_named_with_the_program(cluster: Cluster, here: Here) -> None:
    here.write_demo("demo.duckdb")
    python = here.driver / "python"
    python.symlink_to(sys.executable)
    command = [str(python), "-c", MAIN, "run", "demo.yaml", "--state-dir", "state", "--master", cluster.url]
    with started(command, here.driver, PYTHONPATH=os.pathsep.join(filter(None, sys.path))) as process:
        assert process.wait(TIMEOUT_S) == 5
    log = (here.driver / "run.log").read_text()
    assert re.search(rf"machine \S+: there is no Python {python} for its workers \(No such file or directory\)", log), (
        log
    )


@pytest.mark.exhaustive
def test_files_that_the_driver_alone_has_are_missed_before_the_first_batch_on_the_machine_that_lacks_them(
    cluster: Cluster, here: Here
) -> None:
    shutil.copy(ROOT / "tests" / "fixtures" / "binlog" / "mysql.binlog", here.driver / "binlog.000002")
    source = {"type": "binlog-files", "path": str(here.driver / "binlog.*"), "tables": r"\.*.\.*"}
    document = {"source": source, "sink": {"type": "duckdb", "path": "x.duckdb"}}
    (here.driver / "demo.yaml").write_text(yaml.safe_dump(document))
    with running(here.driver, cluster.url) as process:
        assert process.wait(TIMEOUT_S) == 3
    log = (here.driver / "run.log").read_text()
    machine = re.escape(socket.gethostname())
    assert re.search(rf"no file matches \S+binlog\.\* \(on the machine {machine}\)", log), log
    assert "on a cluster the files have to be on every machine" in log
