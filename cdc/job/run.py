"""`cdc run`: compile a checked pipeline into one structured-streaming query, watch it, stop it cleanly. Driver."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import CdcError
from cdc.job.batch import BatchRunner
from cdc.job.java import choose_java
from cdc.job.lock import RunLock
from cdc.job.progress import Progress
from cdc.job.report import Reporter, new_counts
from cdc.job.routing import RouteGuard, RouteTable
from cdc.job.session import DEFAULT_MASTER, start_session, warm_workers
from cdc.job.stream import FORMAT, StreamPlan, data_source
from cdc.job.task import PrepareTask
from cdc.job.wire import recover
from cdc.source import Context, Limits
from cdc.spec.model import PipelineSpec
from cdc.state import StateDir

_TICK_S = 0.2
ABORTED = 130


class _Signals:
    """First SIGINT or SIGTERM asks for a clean stop, the second one ends the process at once."""

    def __init__(self) -> None:
        self.stop = threading.Event()

    def handle(self, number: int, frame: FrameType | None) -> None:
        if self.stop.is_set():
            os._exit(ABORTED)
        self.stop.set()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def default_state_dir(spec: PipelineSpec) -> Path:
    """`.cdc/<pipeline name>` beside the pipeline file."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in spec.name)
    return Path(spec.file).absolute().parent / ".cdc" / (name.strip(".") or "pipeline")


def run(
    spec: PipelineSpec,
    *,
    until_caught_up: bool = False,
    master: str | None = None,
    state_dir: Path | None = None,
    log_format: str = "text",
) -> int:
    """Run a pipeline until it is stopped, caught up (when asked, or when the source is bounded), or failed.

    Returns 0. Raises CdcError with the exit code of what failed; everything committed until then stays committed, and
    the next run with the same state directory continues there.
    """
    reporter = Reporter(log_format)
    state = StateDir(state_dir or default_state_dir(spec))
    pipeline = state.open(name=spec.name, source=spec.source.type)
    lock = RunLock(state.root)
    lock.acquire()
    try:
        state.clear_control()
        _run_locked(spec, pipeline, state, lock, reporter, master or DEFAULT_MASTER, until_caught_up)
    finally:
        lock.release()
    return 0


def _run_locked(
    spec: PipelineSpec,
    pipeline: str,
    state: StateDir,
    lock: RunLock,
    reporter: Reporter,
    master: str,
    until_caught_up: bool,
) -> None:
    source = spec.source.build(Context(pipeline, state.source))
    sink = spec.sink.build(Context(pipeline, state.sink))
    java = choose_java(os.environ)
    reporter.line(f"pipeline {pipeline}: {spec.source.type} -> {spec.sink.type}", state=str(state.root), java=str(java))
    progress, signals = Progress(), _Signals()
    guard = RouteGuard(spec, () if source.bounded else source.tables())
    route = RouteTable(spec.route)
    runner = BatchRunner(source, sink, route, guard, state, progress)
    with signals.installed(), _session(pipeline, master, java, lock) as spark:
        plan = StreamPlan(PrepareTask(source, sink, route), state, _limits(spec), _parallelism(spec, spark))
        warming = threading.Thread(target=warm_workers, args=(spark, source.warm, plan.parallelism), daemon=True)
        warming.start()
        query = _start(spark, plan, runner, bounded=until_caught_up or source.bounded)
        watch = _Watch(query, runner, progress, reporter, state, signals)
        try:
            watch.until_end()
        finally:
            watch.report()
            reporter.summary(progress.snapshot())


def _limits(spec: PipelineSpec) -> Limits:
    options: Any = spec.source
    return Limits(max_bytes=options.max_batch_bytes, max_rows=options.max_batch_rows)


def _parallelism(spec: PipelineSpec, spark: SparkSession) -> int:
    return spec.pipeline.parallelism or int(spark.sparkContext.defaultParallelism)


@contextlib.contextmanager
def _session(pipeline: str, master: str, java: Any, lock: RunLock) -> Iterator[SparkSession]:
    spark = start_session(pipeline, master, java)
    try:
        jvm: Any = spark.sparkContext._jvm
        lock.name_java(int(jvm.java.lang.ProcessHandle.current().pid()))
        yield spark
    finally:
        spark.stop()


def _start(spark: SparkSession, plan: StreamPlan, runner: BatchRunner, *, bounded: bool) -> StreamingQuery:
    spark.dataSource.register(data_source(plan))
    writer = (
        spark.readStream.format(FORMAT)
        .load()
        .writeStream.foreachBatch(runner)
        .option("checkpointLocation", str(plan.state.checkpoint))
    )
    return writer.trigger(availableNow=True).start() if bounded else writer.start()


class _Watch:
    """The main thread of a run: shows progress, passes a stop request on, and turns failures into our errors."""

    def __init__(
        self,
        query: StreamingQuery,
        runner: BatchRunner,
        progress: Progress,
        reporter: Reporter,
        state: StateDir,
        signals: _Signals,
    ) -> None:
        self._query, self._runner, self._progress = query, runner, progress
        self._reporter, self._state, self._signals = reporter, state, signals
        self._counts: dict[str, int] = {}
        self._note = ""
        self._stopping = False

    def until_end(self) -> None:
        """Returns when the query ended by itself or was stopped; raises what it failed with."""
        while not self._ended():
            self.report()
            if self._signals.stop.is_set() and self._stop():
                return

    def _ended(self) -> bool:
        """Wait one tick for the end of the query."""
        try:
            if self._query.isActive:
                self._query.awaitTermination(_TICK_S)  # type: ignore[arg-type]  # documented as int, takes fractions
            return not self._query.isActive and self._raise_failure()
        except PySparkException as error:
            raise self._failure(error) from error

    def _raise_failure(self) -> bool:
        error = self._query.exception()
        if error is not None:
            raise self._failure(error) from error
        return True

    def _failure(self, error: BaseException) -> CdcError:
        return self._runner.error or recover(error)

    def _stop(self) -> bool:
        """Ask the stream reader to plan no more; once it says so no batch is running, and the query can end."""
        if not self._stopping:
            self._stopping = True
            self._reporter.line("stopping after the running batch; a second signal aborts it")
            self._state.request_stop()
        if not self._state.stop_confirmed():
            return False
        self._query.stop()
        return True

    def report(self) -> None:
        """Show what happened since the last call."""
        self._read_lag()
        now = self._progress.snapshot()
        for report in self._progress.reports():
            self._reporter.batch(report)
        for reason, number in new_counts(self._counts, now.counts):
            self._reporter.line(f"{reason}: {number:,}", level="warning")
        self._counts = dict(now.counts)
        if now.note and now.note != self._note:
            self._reporter.line(now.note, level="warning")
        self._note = now.note
        self._reporter.status(now, self._progress.running)

    def _read_lag(self) -> None:
        """The stream reader's lag comes with Spark's progress reports."""
        latest = self._query.lastProgress
        source = latest["sources"][0] if latest and latest["sources"] else None
        lag = source.get("latestOffset") if source else None
        if isinstance(lag, dict) and "bytes" in lag:
            self._progress.lag(lag["bytes"], lag.get("note", ""))
