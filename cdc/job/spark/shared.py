"""One Spark session for many runs of this process. Driver.

Each run gets a session of its own of the one context: settings, data sources and views of one are not seen by another.
What the runs share is Java, its heap, and the places for tasks; `Forks` lets their stream readers share memory.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc.errors import EngineError, WorkerLost
from cdc.flow.task import PrepareTask
from cdc.job.lock import RunLock
from cdc.job.spark.forks import Forks
from cdc.job.spark.java import Java, choose_java
from cdc.job.spark.session import (
    JAVA_GONE,
    as_guest,
    chosen_master,
    end_spark,
    no_error_once_stopped,
    start_session,
    without_variables,
)
from cdc.repeating import repeatedly

_LOOK_S = 0.2
"""How often it is looked at whether a run that waits is to stop."""
_SAY_EVERY_S = 5.0
"""How often it is said what is waited for."""


class SharedSpark:
    """Spark for many runs, from `start` to `stop`. `master`, `java` are what it runs with.

    Args:
        root: a folder of the process that starts it. Its lock names the Java process: the next one waits for its end.
        master: the Spark master; None for all cores of this machine.
        secret_variables: environment variables that Java and Spark's workers do not get.
        line: where log lines go.
        settings: of Spark, by name.
    """

    def __init__(
        self,
        root: Path,
        master: str | None,
        secret_variables: Sequence[str],
        line: Callable[[str, str], None],
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.master, self.settings = chosen_master(master), dict(settings or {})
        self._lock, self._secrets, self._line = RunLock(root), secret_variables, line
        self._stack = contextlib.ExitStack()
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
        with no_error_once_stopped(stop or threading.Event()):
            try:
                self._begin()
            except BaseException:
                self._stack.close()
                raise

    def _begin(self) -> None:
        self._ended = threading.Event()
        scratch = self._scratch = self._lock.make_scratch()
        self._stack.enter_context(as_guest())
        with without_variables(self._secrets):
            self._java = choose_java(os.environ)
            if self.master.startswith("local"):
                self._forks = Forks(scratch)
                self._stack.callback(self._forks.stop)
                self._forks.start()
            self._spark = start_session(
                "cdc", self.master, self._java, scratch, {**_idle_workers(self.master), **self.settings}
            )
        self._stack.callback(self._end)
        jvm: Any = self._spark.sparkContext._jvm
        self._lock.name_java(int(jvm.java.lang.ProcessHandle.current().pid()))
        if self._forks is not None:
            self._spark.sparkContext.pythonExec = str(self._forks.launcher)

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

    def _let_load(self, forks: Forks, what: Callable[[], None], busy: bool, done: threading.Event) -> None:
        text = "runs have waited {:.0f} s for kernels new to this machine, compiled here or by another process"
        ended = self._ended

        def say(message: str, level: str) -> None:
            if not ended.is_set():  # else nobody waits for it any more
                self._line(message, level)

        try:
            with self._loading, repeatedly(lambda seconds: say(text.format(seconds), "info"), _SAY_EVERY_S):
                wrong = forks.load(what, busy=busy) if forks.alive() else "it has ended"
        except Exception as error:  # noqa: BLE001 - told; runs wait for this thread
            wrong = f"{type(error).__name__}: {error}"
        try:
            if wrong:
                say(f"what stream readers share is not loaded, each loads it by itself: {wrong}", "warning")
        finally:
            done.set()

    @contextlib.contextmanager
    def opened(self) -> Iterator[SparkSession]:
        """A session for one run. Raises WorkerLost when Spark has ended: it may be started again."""
        spark = self._spark
        if spark is None or not self.alive():
            raise WorkerLost("Spark has ended", hint="it is started again; see the log of the server")
        yield spark.newSession()


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
