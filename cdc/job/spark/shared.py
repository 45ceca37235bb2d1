"""One Spark context for many runs of this process. Driver.

Each run gets its own session of the context, so that settings, data sources and views are isolated. The runs share
Java, its heap, and the task slots; `Forks` lets their stream readers share memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from cdc.errors import EngineError, WorkerLost
from cdc.flow.task import PrepareTask
from cdc.job.lock import RunLock
from cdc.job.spark.forks import Forks, forked_session
from cdc.job.spark.java import Java, choose_java
from cdc.job.spark.session import (
    JAVA_GONE,
    as_guest,
    chosen_master,
    end_spark,
    errors_ignored_after_stop,
    java_errors_named,
    java_pid,
    without_variables,
)
from cdc.process.repeated import SAY_EVERY_S, repeatedly

_LOOK_S = 0.2
"""Seconds between checks of the stop event while a run waits."""
_FACTORY = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


class SharedSpark:
    """Spark for many runs, from `start` to `stop`. `master` and `java` are those in use.

    Args:
        root: a folder of this process. Its lock names the Java process: the next process waits for its end.
        master: the Spark master; None for all cores of this machine.
        secret_variables: environment variables that are hidden from Java and Spark's workers.
        line: writes a log line.
        settings: Spark settings by name.
        say_every_s: shortest time between log lines about what runs wait for.
    """

    def __init__(
        self,
        root: Path,
        master: str | None,
        secret_variables: Sequence[str],
        line: Callable[[str, str], None],
        *,
        settings: Mapping[str, str] | None = None,
        say_every_s: float = SAY_EVERY_S,
    ) -> None:
        self.master, self.settings = chosen_master(master), dict(settings or {})
        self._lock, self._secrets, self._line = RunLock(root), secret_variables, line
        self._stack = contextlib.ExitStack()
        self._say_every_s, self._written_s = say_every_s, -math.inf
        self._turn, self._loading, self._ended = threading.Lock(), threading.Lock(), threading.Event()
        self._loads: dict[tuple[type, type], threading.Event] = {}
        self._spark: SparkSession | None = None
        self._forks: Forks | None = None
        self._java: Java | None = None
        self._scratch: Path | None = None

    @property
    def scratch(self) -> Path:
        """The folder for temporary files, removed on `stop`. Raises EngineError before the start."""
        if self._scratch is None:
            raise EngineError("Spark is not started")
        return self._scratch

    @property
    def java(self) -> Java:
        """The Java in use. Raises EngineError before the start."""
        if self._java is None:
            raise EngineError("Spark is not started")
        return self._java

    def start(self, stop: threading.Event | None = None) -> None:
        """Start Java and Spark. Raises EngineError, unless `stop` is set by then; StateError if another process uses
        the folder."""
        self._lock.acquire()
        self._stack.callback(self._lock.release)
        with errors_ignored_after_stop(stop or threading.Event()):
            try:
                self._begin()
            except BaseException:
                self._stack.close()
                raise

    def _begin(self) -> None:
        self._ended = threading.Event()
        scratch = self._scratch = self._lock.create_scratch_folder()
        self._stack.enter_context(as_guest())
        with without_variables(self._secrets):
            self._java = choose_java(os.environ)
            settings = {**_idle_workers(self.master), **self.settings}
            self._spark, self._forks = forked_session(self._stack, "cdc", self.master, self._java, scratch, settings)
        self._stack.callback(self._end)
        with java_errors_named():
            self._lock.name_java(java_pid(self._spark))

    def _end(self) -> None:
        spark, self._spark = self._spark, None
        if spark is not None:
            end_spark(spark)

    def stop(self) -> None:
        """Stop Spark and Java. Runs in progress fail with a retryable error."""
        self._ended.set()
        self._stack.close()
        self._loads.clear()

    def alive(self) -> bool:
        """Whether Spark answers."""
        try:
            return self._spark is not None and not self._spark.sparkContext._jsc.sc().isStopped()
        except JAVA_GONE:
            return False

    def prepare(self, task: PrepareTask, stop: threading.Event) -> None:
        """Let the fork server load a source and sink type on its first use; wait until it has, or until `stop`.

        Compiling kernels that are new to this machine takes half a minute.
        """
        if self._forks is None:
            return
        kinds = (type(task.source), type(task.sink))
        with self._turn:
            done = self._loads.get(kinds)
            if done is None:
                done, load = threading.Event(), partial(_load, task.source, task.sink)
                busy = bool(self._loads)  # pipelines with other connectors start or run
                threading.Thread(target=self._let_load, args=(self._forks, load, busy, done), daemon=True).start()
                self._loads[kinds] = done
        while not (done.wait(_LOOK_S) or stop.is_set()):
            continue

    def report_waiting(self, text: str) -> None:
        """Log what the runs wait for, unless such a line was just written, or Spark is stopped. Any thread."""
        now_s = time.monotonic()
        with self._turn:
            due = not self._ended.is_set() and now_s - self._written_s >= self._say_every_s
            self._written_s = now_s if due else self._written_s
        if due:
            self._line(text, "info")

    def _let_load(self, forks: Forks, load: Callable[[], None], busy: bool, done: threading.Event) -> None:
        text = "runs have waited {:.0f} s for kernels new to this machine, compiled here or by another process"
        ended = self._ended
        try:
            with self._loading, repeatedly(lambda seconds: self.report_waiting(text.format(seconds)), SAY_EVERY_S):
                problem = forks.load(load, busy=busy) if forks.alive() else "it has ended"
        except Exception as error:  # noqa: BLE001 - logged; runs wait for this thread
            problem = f"{type(error).__name__}: {error}"
        try:
            if problem and not ended.is_set():
                self._line(
                    f"the fork server cannot preload connectors, each stream reader loads them: {problem}", "warning"
                )
        finally:
            done.set()

    @contextlib.contextmanager
    def open_session(self) -> Iterator[SparkSession]:
        """Context manager: a session for one run. Raises WorkerLost if Spark has ended; it may be started again.

        Java and PySpark hold references to each other's objects of a session until Java collects its old generation, so
        a session is cleared when its run ends.
        """
        spark = self._spark
        if spark is None or not self.alive():
            raise WorkerLost("Spark has ended", hint="it is restarted; see the log of the server")
        session = spark.newSession()
        try:
            yield session
        finally:
            vars(session).clear()
            for clean in (_end_monitors, _close_connections):
                with contextlib.suppress(*JAVA_GONE):
                    clean(spark)


def _end_monitors(spark: SparkSession) -> None:
    """End the monitor threads that Spark leaves behind for each stream reader that has ended.

    They monitor idle processes, of which a reader has none, and hold the session of its run.
    """
    jvm: Any = spark.sparkContext._jvm
    if jvm is None:
        return
    quiet = jvm.org.apache.spark.util.SparkUncaughtExceptionHandler(False)
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet().toArray():
        if thread.getName().startswith("Idle Worker Monitor"):
            factory = getattr(thread, _FACTORY)()
            if not factory.useDaemonEnabled():  # otherwise it is the monitor of task processes
                thread.setUncaughtExceptionHandler(quiet)
                thread.interrupt()


def _close_connections(spark: SparkSession) -> None:
    """Close connections from Java to this process that are idle now.

    Each query has a connection for its batches, which Py4J leaves open together with a thread in this process. A query
    in progress opens a new one.
    """
    gateway: Any = spark.sparkContext._gateway
    if gateway is not None:
        JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient().periodicCleanup()


def _idle_workers(master: str) -> dict[str, str]:
    """Settings that end idle Python workers at once, for local masters.

    Spark keeps as many workers per kind as were ever busy at the same time, until all of a kind have been idle for a
    minute: 20 pipelines that start leave 40 workers, 1.6 GB. On a cluster an executor has at most one per core.
    """
    if not master.startswith("local"):
        return {}
    return {"spark.python.factory.idleWorkerMaxPoolSize": str(len(os.sched_getaffinity(0)))}


def _load(source: Any, sink: Any) -> None:
    """Load what tasks need, which includes most of what stream readers need. Fork server."""
    source.warm()
    sink.warm()
