"""One Spark session for many runs of this process. Driver.

Each run gets a session of its own of the one context: settings, data sources and views of one are not seen by another.
What the runs share is Java, its heap, and the places for tasks; `Forks` lets their stream readers share memory.
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
"""How often it is looked at whether a run that waits is to stop."""
_FACTORY = "org$apache$spark$api$python$PythonWorkerFactory$MonitorThread$$$outer"


class SharedSpark:
    """Spark for many runs, from `start` to `stop`. `master`, `java` are what it runs with.

    Args:
        root: a folder of the process that starts it. Its lock names the Java process: the next one waits for its end.
        master: the Spark master; None for all cores of this machine.
        secret_variables: environment variables that Java and Spark's workers do not get.
        line: where log lines go.
        settings: of Spark, by name.
        say_every_s: how often it is said what is waited for.
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
        """A folder for temporary files, which goes with Spark. Raises EngineError before the start."""
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
        """Start Java and Spark. Raises EngineError, unless `stop` is set by then, and StateError when another process
        has the folder."""
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
        """End Spark and Java. Runs that go on fail with what may pass."""
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
        """Let the fork server load what pipelines with this source and sink need, the first time there is one, and wait
        until it has, or until `stop`: kernels that are new to the machine take it half a minute to compile."""
        if self._forks is None:
            return
        kinds = (type(task.source), type(task.sink))
        with self._turn:
            done = self._loads.get(kinds)
            if done is None:
                done, what = threading.Event(), partial(_load, task.source, task.sink)
                busy = bool(self._loads)  # pipelines of another kind begin, or run
                threading.Thread(target=self._let_load, args=(self._forks, what, busy, done), daemon=True).start()
                self._loads[kinds] = done
        while not (done.wait(_LOOK_S) or stop.is_set()):
            continue

    def report_waiting(self, text: str) -> None:
        """A line about what all runs wait for, unless one was written a moment ago, or all is to end. Any thread."""
        now_s = time.monotonic()
        with self._turn:
            due = not self._ended.is_set() and now_s - self._written_s >= self._say_every_s
            self._written_s = now_s if due else self._written_s
        if due:
            self._line(text, "info")

    def _let_load(self, forks: Forks, what: Callable[[], None], busy: bool, done: threading.Event) -> None:
        text = "runs have waited {:.0f} s for kernels new to this machine, compiled here or by another process"
        ended = self._ended
        try:
            with self._loading, repeatedly(lambda seconds: self.report_waiting(text.format(seconds)), SAY_EVERY_S):
                wrong = forks.load(what, busy=busy) if forks.alive() else "it has ended"
        except Exception as error:  # noqa: BLE001 - told; runs wait for this thread
            wrong = f"{type(error).__name__}: {error}"
        try:
            if wrong and not ended.is_set():  # else nobody waits for it any more
                self._line(f"what stream readers share is not loaded, each loads it by itself: {wrong}", "warning")
        finally:
            done.set()

    @contextlib.contextmanager
    def open_session(self) -> Iterator[SparkSession]:
        """A session for one run. Raises WorkerLost when Spark has ended: it may be started again.

        Java holds what PySpark has of a run until it collects its old objects, and PySpark's session a megabyte of
        Java's: a session that has ended is emptied, or they hold each other for long.
        """
        spark = self._spark
        if spark is None or not self.alive():
            raise WorkerLost("Spark has ended", hint="it is started again; see the log of the server")
        session = spark.newSession()
        try:
            yield session
        finally:
            vars(session).clear()
            for clean in (_end_monitors, _close_connections):
                with contextlib.suppress(*JAVA_GONE):
                    clean(spark)


def _end_monitors(spark: SparkSession) -> None:
    """End the threads that Spark leaves behind for each stream reader that has ended: they look after idle processes,
    of which a reader has none, and keep the session of its run."""
    jvm: Any = spark.sparkContext._jvm
    if jvm is None:
        return
    quiet = jvm.org.apache.spark.util.SparkUncaughtExceptionHandler(False)
    for thread in jvm.java.lang.Thread.getAllStackTraces().keySet().toArray():
        if thread.getName().startswith("Idle Worker Monitor"):
            factory = getattr(thread, _FACTORY)()
            if not factory.useDaemonEnabled():  # else it is that of the tasks' processes
                thread.setUncaughtExceptionHandler(quiet)
                thread.interrupt()


def _close_connections(spark: SparkSession) -> None:
    """Close connections to this process that no thread of Java's uses at this moment: each query has one for its
    batches, which py4j leaves open at both ends, with a thread at this one. A query that goes on gets another."""
    gateway: Any = spark.sparkContext._gateway
    if gateway is not None:
        JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient().periodicCleanup()


def _idle_workers(master: str) -> dict[str, str]:
    """Let go of Python processes that nothing needs at once. Spark keeps as many as were ever busy at the same time,
    for each kind of work, until all of a kind have had nothing to do for a minute; 20 pipelines that start leave 40,
    1.6 GB. Elsewhere an executor has as many at most as it has cores."""
    if not master.startswith("local"):
        return {}
    return {"spark.python.factory.idleWorkerMaxPoolSize": str(len(os.sched_getaffinity(0)))}


def _load(source: Any, sink: Any) -> None:
    """Fork server: what executors load, stream readers need most of, too."""
    source.warm()
    sink.warm()
