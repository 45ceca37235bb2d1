"""A Spark standalone cluster on the loopback interface, started from the installed PySpark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from cdc_process import wait_for

from cdc.job.spark.java import choose_java

SPARK_HOME = Path(pyspark.__file__).parent
SETTINGS = "spark.executor.memory=460m;spark.cores.max=2"
"""For CDC_SPARK_CONF: executors that fit the workers; 450 MB is the least that Spark starts one with."""
ONE_EXECUTOR = "spark.executor.memory=460m;spark.cores.max=1"
"""The same for a run that ends in its first task: each executor is a Java and Python workers of its own."""
_OPTIONS = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dspark.master.rest.enabled=false"]
UNSHARED = ["unshare", *([] if os.getuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-c"]
"""Begins a command that has file systems of its own mounted."""
_WITHOUT = 'mount -t tmpfs none "$0" && exec "$@"'
_DEPLOY = "org.apache.spark.deploy"


@dataclass
class Worker:
    """One worker: its process leads a process group, in which its executors are too."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    def runs(self, pid: int) -> bool:
        """Whether a process was started by this worker, or by what it started."""
        while pid > 1 and pid != self.process.pid:
            pid = _parent(pid)
        return pid == self.process.pid

    def kill9(self) -> None:
        """SIGKILL of the worker and its executors, as when the machine is gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Cluster:
    """A master and its workers, each in a folder of its own with its own place for temporary files."""

    folder: Path
    hidden: Path | None = None
    """A folder that the workers do not see: it is empty there, as on another machine."""
    url: str = ""
    workers: list[Worker] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self, count: int) -> None:
        """Start all of it."""
        log = self._start("master", f"{_DEPLOY}.master.Master", "--port", "0").folder / "log"
        started = re.compile(r"Starting Spark master at (spark://\S+)")
        wait_for("the master", lambda: started.search(log.read_text()))
        found = started.search(log.read_text())
        assert found is not None
        self.url = found[1]
        self.add_workers(count)

    def add_workers(self, count: int) -> None:
        """Start more workers, and wait until the master knows them."""
        size = ("--cores", "1", "--memory", "512m")
        for number in range(len(self.workers), len(self.workers) + count):
            place = self.folder / f"worker-{number}"
            arguments = (*size, "--work-dir", str(place / "work"), self.url)
            self.workers.append(self._start(place.name, f"{_DEPLOY}.worker.Worker", *arguments, elsewhere=True))
        log = self.folder / "master" / "log"
        wait_for("the workers", lambda: log.read_text().count("Registering worker") == len(self.workers))

    def stop(self) -> None:
        """End all of it."""
        self._stack.close()

    def _start(self, name: str, main: str, *arguments: str, elsewhere: bool = False) -> Worker:
        folder = self.folder / name
        (folder / "tmp").mkdir(parents=True)
        java = choose_java(os.environ).runtime / "bin" / "java"
        environment = {
            **os.environ, "TMPDIR": str(folder / "tmp"), "SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13",
        }  # fmt: skip
        command = [str(java), *_OPTIONS, "-cp", f"{SPARK_HOME}/jars/*", main, "--host", "127.0.0.1"]
        if elsewhere and self.hidden is not None:
            command = [*UNSHARED, _WITHOUT, str(self.hidden), *command]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *arguments], cwd=folder, env=environment, stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        worker = Worker(folder, process)
        self._stack.callback(worker.kill9)
        return worker


@contextmanager
def standalone(folder: Path, workers: int = 2, hidden: Path | None = None) -> Iterator[Cluster]:
    """A cluster, which has ended after the block."""
    cluster = Cluster(folder, hidden)
    try:
        cluster.start(workers)
        yield cluster
    finally:
        cluster.stop()


def can_hide() -> bool:
    """Whether processes can be started here that see another disk."""
    return subprocess.run([*UNSHARED, _WITHOUT, "/mnt", "true"], capture_output=True, check=False).returncode == 0


def _parent(pid: int) -> int:
    """0 for a process that is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
