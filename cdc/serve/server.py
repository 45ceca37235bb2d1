"""The process of `cdc serve`: one Spark session, one supervisor per pipeline, and a periodic scan of the folder."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.errors import CdcError
from cdc.printable import printable
from cdc.serve.control import LogLine
from cdc.serve.notifying import Notifying
from cdc.serve.pipelines import Pipelines
from cdc.serve.turns import RunTurns
from cdc.spec.model import PipelineSpec

if TYPE_CHECKING:
    from cdc.job.spark.shared import SharedSpark
    from cdc.source import Siblings
    from cdc.status.notify import NotificationTarget
    from cdc.web.settings import WebSettings

LOOK_S = 2.0
"""How often the folder is scanned and Spark is checked."""
_SPARK_AGAIN_S = 5.0
_WAITING_S = 60.0
"""How often the log shows what runs wait for."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server. `state_root` has a folder for each pipeline, with its name.

    `web` is where the page and the API are served; None for nowhere. `state_store` is a URL below which each pipeline
    stores its state: the folders then have logs, histories and working copies. `notify` gets notifications of all
    pipelines. At most `starts_at_once` runs are set up at a time.
    """

    folder: Path
    state_root: Path
    master: str | None = None
    web: WebSettings | None = None
    state_store: str = ""
    starts_at_once: int = 4
    notify: NotificationTarget | None = None


class Server:
    """Runs the pipelines of a folder, which `pipelines` controls. Implements `Host` for their supervisors."""

    def __init__(self, settings: ServerSettings, line: Callable[[str], None] | None = None) -> None:
        self._settings, self._print = settings, line or _to_stderr
        self.pipelines = Pipelines(settings.folder, settings.state_root, settings.state_store, self, self.say)
        self._spark: SharedSpark | None = None
        self._spark_up = threading.Event()
        self._closing = threading.Event()
        self._turns = RunTurns(settings.starts_at_once)

    def run(self) -> None:
        """Serve until `close` is called. Raises CdcError when Spark or the web page does not start, StateError when
        another server uses the state root."""
        with ExitStack() as stack:
            self._lock(stack)
            self._serve_web(stack)
            notifying = Notifying(self.pipelines, self._settings.notify, lambda text: self.say(text, "warning"))
            notifying.start()
            stack.callback(notifying.close)
            self._serve()

    def _serve(self) -> None:
        self.pipelines.scan()
        try:
            self._start_first()
            while not self._closing.wait(LOOK_S):
                self.pipelines.scan()
                if not self.spark_alive():
                    self._restart_spark()
        finally:
            self._end()

    def close(self) -> None:
        """Request the end of the server; every running batch is finished first."""
        self._closing.set()
        self._spark_up.set()

    def _lock(self, stack: ExitStack) -> None:
        """Lock the state root: pipelines of a second server would be blocked by their locks."""
        from cdc.job.lock import RunLock

        root = self._settings.state_root
        lock = RunLock(
            root, held="another server uses this state root", hint="stop that one, or name another --state-root"
        )
        lock.acquire()
        stack.callback(lock.release)

    def _serve_web(self, stack: ExitStack) -> None:
        from cdc.serve.client import announced
        from cdc.web.server import WebServer

        settings = self._settings.web
        if settings is None:
            return
        web = WebServer(self.pipelines, settings)
        url = web.start()
        stack.callback(web.stop)
        stack.enter_context(announced(url, settings.token, self._settings.state_root))
        self.say(f"web page and API: {url}")

    def _start_first(self) -> None:
        """Start Spark; ignore errors when the server is already stopping, with everything that it has started."""
        try:
            self._start_spark()
        except CdcError as error:
            if not self._closing.is_set():
                raise
            self.say(f"ended while Spark was being started: {error}", "warning")

    def _start_spark(self) -> None:
        from cdc.job.spark.shared import SharedSpark

        secrets = sorted({name for supervisor in self.pipelines.by_name() for name in supervisor.spec.secret_variables})
        self._spark = SharedSpark(
            self._settings.state_root / ".spark",
            self._settings.master,
            secrets,
            lambda text, level: self.say(text, level),
            say_every_s=_WAITING_S,
        )
        self._spark.start()
        self._spark_up.set()
        self.say(f"Spark is up: {self._spark.master}, {self._spark.java}")

    def _restart_spark(self) -> None:
        self._spark_up.clear()
        self.say("Spark has ended; it is restarted with the pipelines", "error")
        if self._spark is not None:
            self._spark.stop()
        try:
            self._start_spark()
        except CdcError as error:
            self.say(f"Spark does not start; retrying: {error}", "error")
            self._closing.wait(_SPARK_AGAIN_S)

    def _end(self) -> None:
        supervisors = self.pipelines.by_name()
        self.say("ends, once every running batch is finished")
        for supervisor in supervisors:
            supervisor.close()
        for supervisor in supervisors:
            supervisor.join()
        if self._spark is not None:
            self._spark.stop()

    def siblings(self, spec: PipelineSpec) -> Siblings | None:
        """Return the runs into the other sinks of a pipeline's file; None for a single sink. For supervisors."""
        return None if self._spark is None else self.pipelines.siblings(spec, self._spark.scratch)

    def session(self) -> SharedSpark | None:
        """Wait until Spark is up and return it; None when the server ends. For supervisors."""
        self._spark_up.wait()
        return None if self._closing.is_set() else self._spark

    def spark_alive(self) -> bool:
        """Whether Spark is up. For supervisors."""
        return self._spark is not None and self._spark_up.is_set() and self._spark.alive()

    def turn(self, wanted: Callable[[], bool], *, first: bool) -> Callable[[], None]:
        """Wait for the turn to start, and return the function that ends it. For supervisors."""
        return self._turns.wait_turn(wanted, first=first)

    def expect(self) -> Callable[[], None]:
        """Announce a supervisor that will start first. For supervisors."""
        return self._turns.expect()

    def log_line(self, name: str, line: LogLine) -> None:
        """Write an important line of a pipeline's log. For supervisors."""
        fields = "".join(f" {key}={value}" for key, value in line.fields.items())
        self.say(f"{name}: {line.message}{fields}", line.level)

    def say(self, text: str, level: str = "info") -> None:
        """Write a line of the server's own log."""
        mark = "" if level == "info" else f"{level}: "
        self._print(f"{datetime.now(UTC).strftime('%H:%M:%S')} {mark}{printable(text, longest=2_000)}")


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
