"""A stand-in as its user sees it: a process that is started, killed, started again, and asked things."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

PORTS = ("http_port", "be_http_port", "sql_port", "control_port")
START_S = 60.0


class StandInError(Exception):
    """The stand-in did not start, or refused a command."""


@dataclass(slots=True)
class StandIn:
    """A running stand-in. Ports and folder stay the same over `kill` and `restart`.

    The process ends by itself when the one that started it does.
    """

    kind: str
    folder: Path
    options: dict[str, Any]
    http_port: int = 0
    be_http_port: int = 0
    sql_port: int = 0
    control_port: int = 0
    host: str = "127.0.0.1"
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)
    _log: IO[bytes] | None = field(default=None, repr=False)

    @property
    def fe(self) -> str:
        """`host:port` of the front end's HTTP."""
        return f"{self.host}:{self.http_port}"

    @property
    def be(self) -> str:
        """`host:port` of the back end's HTTP."""
        return f"{self.host}:{self.be_http_port}"

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def query(
        self, sql: str, *, database: str | None = None, user: str = "root", password: str | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement over the MySQL protocol, as root unless told; pymysql's errors come as they are."""
        import pymysql

        if password is None:
            password = str(self.options.get("root_password", "")) if user == "root" else ""
        connection = pymysql.connect(
            host=self.host, port=self.sql_port, user=user, password=password, database=database,
            autocommit=True, connect_timeout=60, charset="utf8mb4", ssl_disabled=True,
        )  # fmt: skip
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def fault(self, point: str, times: int = 1, *, action: str = "cut", **args: Any) -> None:
        """Arm a fault (see `faults`): `fault("be.load.done", match={"label": "a"})`, `fault("sql", action="slow")`."""
        self.command("fault", point=point, times=times, action=action, **args)

    def clear(self) -> None:
        """Disarm every fault and release what is held."""
        self.command("clear")

    def release(self, point: str) -> None:
        """Let go what a fault with the action `hold` holds at this point."""
        self.command("release", point=point)

    def advance(self, seconds: float) -> None:
        """Move the stand-in's time forward: prepared transactions and labels age."""
        self.command("advance", seconds=seconds)

    def be_down(self) -> None:
        """Close the back end's port and its connections."""
        self.command("be_down")

    def be_up(self) -> None:
        """Open the back end's port again."""
        self.command("be_up")

    def transactions(self) -> list[dict[str, Any]]:
        """Every transaction the stand-in knows, oldest first: at least id, db, label, table, state, rows, reason."""
        result: list[dict[str, Any]] = self.command("transactions")
        return result

    def command(self, name: str, **arguments: Any) -> Any:
        """Ask the control port; `StandInError` when it refuses."""
        connection = http.client.HTTPConnection(self.host, self.control_port, timeout=60)
        try:
            connection.request("POST", f"/{name}", json.dumps(arguments).encode())
            answer = json.load(connection.getresponse())
        except http.client.HTTPException as error:
            raise ConnectionError(f"{name}: {error!r}") from error
        finally:
            connection.close()
        if "error" in answer:
            raise StandInError(f"{name}: {answer['error']}")
        return answer["result"]

    def kill(self) -> None:
        """SIGKILL, as a crash; returns when the process is gone."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        self._forget(process)

    def wait_killed(self, timeout_s: float = 30.0) -> None:
        """Wait for a process that a fault with the action `kill` ends."""
        process = self._running()
        process.wait(timeout_s)
        self._forget(process)

    def revive(self) -> None:
        """Let it run with its back end and without faults, whatever one did to it or is about to do.

        A process that a fault ends is waited for and started again.
        """
        try:
            self.clear()
            self.be_up()
        except OSError:
            self.wait_killed()
            self.restart()

    def stop(self) -> None:
        """End the process in order; nothing happens when it is gone."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
        self._forget(process)

    def restart(self) -> None:
        """Start again on the same folder and ports; a process still running is killed first."""
        if self._process is not None:
            self.kill()
        self._start()

    def __enter__(self) -> StandIn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = self.options | {name: getattr(self, name) for name in PORTS}
        command = [sys.executable, "-P", "-m", "cdc_standins", self.kind, str(self.folder), json.dumps(options)]
        self._log = (self.folder / "standin.log").open("ab")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": _same_packages()},
        )  # fmt: skip
        assert self._process.stdout is not None
        begun = time.monotonic()
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait(START_S)
            self._forget(self._process)
            text = (self.folder / "standin.log").read_text(errors="replace").strip()
            waited = time.monotonic() - begun
            raise StandInError(f"{self.kind}: ended with {code} after {waited:.1f} s: {text[-2000:]}")
        for name, port in json.loads(line).items():
            setattr(self, name, port)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise StandInError(f"the {self.kind} stand-in is not running: call restart()")
        return self._process

    def _forget(self, process: subprocess.Popen[str]) -> None:
        process.wait()
        for pipe in (process.stdin, process.stdout, self._log):
            if pipe is not None:
                pipe.close()
        self._process = self._log = None


def _same_packages() -> str:
    """A `PYTHONPATH` with which the process finds this very package, wherever this one did."""
    home = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))


def start(kind: str, folder: Path, **options: Any) -> StandIn:
    """Start a stand-in of this kind on `folder`, which may hold what an earlier one left there."""
    http, be_http, sql, control = (int(options.pop(name, 0)) for name in PORTS)
    standin = StandIn(kind, Path(folder), options, http, be_http, sql, control)
    standin._start()
    return standin
