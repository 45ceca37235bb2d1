"""`cdc run` as a process of its own, as users start it: for tests that stop, kill and restart it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import yaml
from servers import source_of

from cdc_services.server import MySqlServer

TIMEOUT_S = 550.0
"""How long a test waits for something that takes seconds on an idle machine."""

TWO_TRIES = ("--master", "local[1,2]")
"""Arguments of a run in which a task is tried twice: each try of one whose worker kills itself starts a new worker."""

TWO_CORES = ("--master", "local[2,4]")
"""Arguments of a run in which tasks go on side by side; others start one worker, which is half of the work."""


def wait_for(what: str, condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Poll until the condition holds, and return what it gave. Fails with `what` when it does not."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}")
        time.sleep(0.05)


@dataclass
class Pipeline:
    """A pipeline file with its state directory and DuckDB file in one folder, and the runs of it."""

    folder: Path
    source: dict[str, Any]
    password: str = ""
    starts: int = 0
    runs: list[CdcRun] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    """More keys of the file's `pipeline`."""
    _reading: duckdb.DuckDBPyConnection | None = field(default=None, repr=False)
    _seen: object = field(default=None, repr=False)
    """The query that was no last, and the file as it was then."""

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.yaml"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def database(self) -> Path:
        return self.folder / "sink.duckdb"

    def write(self) -> None:
        document = {
            "source": self.source,
            "sink": {"type": "duckdb", "path": str(self.database), "lock-timeout": "60 s"},
            "pipeline": {"name": "proof", "schema.change.behavior": "evolve", **self.settings},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> CdcRun:
        """Start `cdc run` and return at once."""
        self.write()
        self.starts += 1
        run = CdcRun(self, arguments, {**os.environ, "MYSQL_PASSWORD": self.password, **(env or {})}, self.starts)
        self.runs.append(run)
        return run

    def catch_up(self, *, env: Mapping[str, str] | None = None, expect: int = 0) -> CdcRun:
        """Run to the present end of the log and check the exit code."""
        run = self.start("--until-caught-up", env=env)
        run.ends(expect)
        return run

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows from the DuckDB file, read between two commits."""
        return wait_for(f"a moment to read {self.database}", lambda: [self._try(sql)])[0]

    def _try(self, sql: str) -> list[tuple[Any, ...]] | None:
        if self._reading is not None:
            return list(self._reading.execute(sql).fetchall())
        with suppress(duckdb.IOException), self._connected() as connection:
            return list(connection.execute(sql).fetchall())
        return None

    def _connected(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(str(self.database), read_only=True)
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Queries in the block share one connection: opening one takes longer than most queries. No run is alive."""
        with self._connected() as connection:
            self._reading = connection
            try:
                yield
            finally:
                self._reading = None

    def holds(self, sql: str) -> bool:
        """Whether the file exists and a query on it gives a first value that is true; a missing table is no.

        The same query is not asked again before the file has changed: to open it takes 20 ms of processor time.
        """
        if not self.database.exists() or (seen := (sql, self._written())) == self._seen:
            return False
        with suppress(duckdb.IOException), duckdb.connect(str(self.database), read_only=True) as connection:
            row = None
            with suppress(duckdb.CatalogException):
                row = connection.execute(sql).fetchone()
            if row and row[0]:
                return True
            self._seen = seen
        return False

    def _written(self) -> list[tuple[int, int]]:
        """Size and time of the file and of its log."""
        found = []
        for path in (self.database, Path(f"{self.database}.wal")):
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append((status.st_size, status.st_mtime_ns))
        return found


class CdcRun:
    """One process of `cdc run`. All its processes carry a mark, so that nothing of it outlives the test."""

    def __init__(self, pipeline: Pipeline, arguments: tuple[str, ...], env: Mapping[str, str], number: int) -> None:
        self._pipeline = pipeline
        self._mark = f"CDC_TEST_RUN={uuid.uuid4()}"
        self.log = pipeline.folder / f"run-{number}.log"
        command = [sys.executable, "-c", "from cdc.cli import main; main()", "run", str(pipeline.file)]
        command += ["--state-dir", str(pipeline.state), "--master", "local[1,4]", *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env={**env, **dict([self._mark.split("=")])}, cwd=pipeline.folder, stdout=log,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ends(self, *codes: int) -> str:
        """Wait for the end and check the exit code, one of these; the output."""
        try:
            found = self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill_all()
            raise AssertionError(f"the run does not end:\n{self.output[-4000:]}") from None
        assert found in codes, f"exit code {found}, not {codes}:\n{self.output[-6000:]}"
        return self.output

    def stop(self) -> str:
        """SIGTERM: the running batch is finished, and the run ends well."""
        self.process.send_signal(signal.SIGTERM)
        return self.ends(0)

    def kill9(self) -> None:
        """SIGKILL of the driver alone, as a crash would; its Java and Python processes are left to find out."""
        self.process.kill()
        self.process.wait(TIMEOUT_S)

    def kill_all(self) -> None:
        """End everything this run has started."""
        while found := self.processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
        self.process.wait(TIMEOUT_S)

    def processes(self, word: str = "") -> dict[int, str]:
        """Process ids and command lines of what runs still: driver, Java, stream reader, workers. By their mark, as a
        number alone may have gone to a process of somebody else."""
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                    found[int(path.name)] = (
                        (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
        return {pid: command for pid, command in found.items() if word in command}

    def says(self, text: str) -> None:
        """Wait until the output holds a text."""
        wait_for(f"{text!r} in the output", lambda: text in self.output or not self.alive)
        assert text in self.output, self.output[-6000:]

    def shows(self, sql: str, what: str) -> None:
        """Wait until a query on the sink gives something true; fails at once when the run ends before."""

        def outcome() -> str:
            alive = self.alive
            return "shown" if self._pipeline.holds(sql) else "" if alive else "ended"

        assert wait_for(what, outcome) == "shown", f"ended without {what}:\n{self.output[-6000:]}"


@contextmanager
def ended(pipeline: Pipeline) -> Iterator[Pipeline]:
    """The pipeline; at the end nothing of its runs is left."""
    try:
        yield pipeline
    finally:
        for run in pipeline.runs:
            run.kill_all()


def mysql_pipeline(folder: Path, server: MySqlServer, tables: str, **options: Any) -> Pipeline:
    """A pipeline from a live server; `options` are the source's, with `_` for `-` and `__` for `.`."""
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    source = source_of(server, tables, **{"password": "${MYSQL_PASSWORD}", **given})
    return Pipeline(folder, source, server.password)


def present_end(server: MySqlServer) -> dict[str, object]:
    """Options of a source that starts where the log ends now, however much later it does."""
    variable = "@@gtid_executed" if server.flavor == "mysql" else "@@gtid_binlog_pos"
    done = str(server.execute(f"SELECT {variable}")[0][0]).replace("\n", "")
    return {"scan__startup__mode": "specific-offset", "scan__startup__specific_offset__gtid_set": done}
