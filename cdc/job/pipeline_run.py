"""One run of a pipeline, step by step, while its state directory is locked. Driver.

announce --> check the first tables --> check sink, edits and state --> commit what earlier runs decided
         --> Spark --> executors' side --> batches, until the end
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import CdcError, CommitUnknown, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.job.checkpoint import mend
from cdc.job.control import Control
from cdc.job.copying import Copying
from cdc.job.edits import Edits
from cdc.job.error_transport import briefly
from cdc.job.executors import executors_side
from cdc.job.foreach_batch import ForeachBatch, OffsetLog
from cdc.job.json_log import JsonLog
from cdc.job.lock import RunLock
from cdc.job.log_records import same_run
from cdc.job.monitor import Monitor
from cdc.job.report import Reporter
from cdc.job.spark.own import OwnSpark, chosen_java
from cdc.job.spark.session import warm_workers
from cdc.job.spark.without_executors import told_without_executors
from cdc.job.stream import FORMAT, Side, StreamParts, data_source
from cdc.job.telling import repeatedly
from cdc.job.watch import Query, Signals, Watch
from cdc.planning import check_merges, check_patterns, check_rules
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.source import Context, Limits, Source
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.status.recording import Recording
from cdc.tables.log import TableLog
from cdc.without_pandas import keep_pandas_out

_STOPPED_EARLY = "stopped before anything was read"
_COMPILING = (
    "the workers are getting ready since {seconds:.0f} s: kernels that are new to this processor are being compiled, "
    "once on this machine, or another process is waited for that compiles them"
)
_SAY_EVERY_S = 5.0
"""Longer than workers take to load what is compiled, unless the machine is busy."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How this run was asked to go about it."""

    master: str
    until_caught_up: bool
    background: bool

    def parallelism(self, spec: PipelineSpec, spark: SparkSession) -> int:
        """Most tasks of a batch."""
        cores = int(spark.sparkContext.defaultParallelism)
        return spec.pipeline.parallelism or (max(1, cores // 2) if self.background else cores)


@dataclass(frozen=True, slots=True)
class Place:
    """The locked state directory of a run; `pipeline` is the id that it gives the pipeline."""

    pipeline: str
    state: StateDir
    lock: RunLock


@dataclass(frozen=True, slots=True)
class Output:
    """Where a run tells what it does: log lines, what others print, and status documents."""

    reporter: Reporter
    json_log: JsonLog
    recording: Recording

    def line(self, text: str, level: str = "info", **fields: Any) -> None:
        """A log line."""
        self.reporter.line(text, level=level, **fields)

    def warn(self, text: str) -> None:
        """A log line that is a warning."""
        self.reporter.line(text, level="warning")


class PipelineRun:
    """One run. `middle` is the pipeline file, compiled."""

    def __init__(
        self, spec: PipelineSpec, middle: Middle, place: Place, mode: Mode, control: Control, output: Output
    ) -> None:
        self._spec, self._middle, self._place, self._mode = spec, middle, place, mode
        self._control, self._output = control, output
        self._state, self._shared = place.state, control.shared
        if not control.guest:
            keep_pandas_out()
        context = partial(Context, place.pipeline, stop_file=self._state.stop_file)
        self._source = spec.source.build(
            context(self._state.source, metadata=spec.metadata(), siblings=control.siblings)
        )
        self._sink = spec.sink.build(context(self._state.sink))
        self._java = chosen_java(spec) if self._shared is None else self._shared.java
        self._signals = Signals(control.stop, control.drain)
        self._retry = RetryPolicy(
            spec.pipeline.retry_timeout_s, stopping=control.stop.is_set, waiting=control.progress.waiting
        )
        self._runner = BatchRunner(
            self._source, self._sink, middle, self._state, OffsetLog(self._state), control.progress, self._retry
        )
        self._edits = Edits(spec, middle, self._state)

    def go(self) -> None:
        """All steps. Returns early when a signal comes before anything is read. Raises CdcError."""
        self._announce()
        self._check_first_tables()
        self._check_state()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._signals.installed())
            if not self._finish_earlier():
                return
            parts = self._parts(stack)
            if parts is None:
                self._output.line(_STOPPED_EARLY)
                return
            self._follow(*parts)

    def _announce(self) -> None:
        kinds = f"{self._spec.source.type} -> {self._spec.sink.type}"
        self._output.line(
            f"pipeline {self._place.pipeline}: {kinds}, schema changes: {self._middle.policy}",
            state=self._state.store.where().rstrip("/"),
            java=str(self._java),
        )
        if other_defaults := self._spec.other_defaults():
            self._output.line(f"defaults that are not Flink CDC's (its own in brackets): {other_defaults}")

    def _check_first_tables(self) -> None:
        """A new pipeline fits the tables of today; one that goes on may be far behind them. Raises SpecError."""
        if self._state.initial_offset() is not None:
            return
        source, middle = self._source, self._middle
        tables = _first_tables(source)
        middle.routes.check(tables)
        check_merges(middle, check_rules(middle.rules, tables))
        if source.lists_all_tables or not source.bounded:  # else those that it begins with are not all
            for problem in check_patterns(self._spec, middle.routes, tables, complete=source.lists_all_tables):
                self._output.warn(str(problem))

    def _check_state(self) -> None:
        """Sink, file and state directory belong together. Raises EditRefused, SinkError, StateError."""
        self._edits.check_sink(self._sink)
        self._sink.check()
        commits = CommitLog(self._state.commits)
        for sentence in mend(self._state.checkpoint, lambda batch: commits.get(batch) is not None):
            self._output.warn(sentence)

    def _finish_earlier(self) -> bool:
        """Look at edits and the sink's tables, and commit what earlier runs decided; False when a signal ended that."""
        call = self._retry.call
        named = partial(call, partial(self._edits.check_patterns, self._source), "a look at the source's tables")
        look = partial(call, partial(self._edits.check_tables, self._source, self._sink), "a look at the sink's tables")
        return finished_earlier((named, look, self._runner.recover), self._signals, self._output.reporter)

    def _parts(self, stack: contextlib.ExitStack) -> tuple[SparkSession, StreamParts] | None:
        """Spark with what stream reader and executors need; None when the run was asked to stop meanwhile."""
        spark = stack.enter_context((self._own_spark() if self._shared is None else self._shared).opened())
        if spark is None:
            return None
        state, source, stop = self._state, self._source, self._signals.stop
        parallelism = self._mode.parallelism(self._spec, spark)
        task = PrepareTask(source, self._sink, self._middle, TableLog(state.store), state.answers, state.notes)
        if self._shared is None:
            self._output.line("Spark is up, the first batch is prepared", tasks=parallelism)
        else:
            self._shared.prepare(task, stop)
            if stop.is_set():
                return None
        waiting, warn = self._control.progress.waiting, self._output.warn
        stack.enter_context(told_without_executors(spark, stop, warn, waiting, alone=self._shared is None))
        side = self._executors_side(stack, spark, task, parallelism)
        return None if side is None else (spark, StreamParts(source, state, _limits(self._spec), parallelism, side))

    def _own_spark(self) -> OwnSpark:
        place, control = self._place, self._control
        return OwnSpark(
            self._spec, place.pipeline, self._mode.master, self._java, place.lock, self._output.json_log, control.guest,
            control.stop,
        )  # fmt: skip

    def _executors_side(
        self, stack: contextlib.ExitStack, spark: SparkSession, task: PrepareTask, parallelism: int
    ) -> Side | None:
        """The executors' parts; None when they went away after the run was asked to stop."""
        pipeline, warn = self._place.pipeline, self._output.warn
        try:
            made = executors_side(self._spec, pipeline, self._state, spark, task, parallelism, warn)
            return stack.enter_context(made)
        except WorkerLost:
            if not self._signals.stop.is_set():
                raise
            return None

    def _follow(self, spark: SparkSession, parts: StreamParts) -> None:
        """Batch after batch, until the end."""
        bounded, runner = self._mode.until_caught_up or self._source.bounded, self._runner
        reporter = self._output.reporter
        start = partial(_start, spark, parts, runner, bounded=bounded)
        drained = None if bounded else partial(_start, spark, parts, runner, bounded=True)
        workers = partial(warm_workers, spark, parts.side.task.warm, parts.parallelism)
        warm = partial(_warm, workers, self._control.reads, self._output.line)
        copying = Copying(self._source.progress, self._state.store, reporter.line)
        progress = self._control.progress
        monitor = Monitor(progress, reporter, self._output.recording, self._state, copying)
        query = Query(start, warm, drained)
        watch = Watch(query, runner, progress, monitor, self._state, self._signals, self._retry)
        try:
            watch.until_end()
        finally:
            watch.report()
            reporter.summary(progress.snapshot(), str(self._middle.policy), copying.anew())


def finished_earlier(steps: Iterable[Callable[[], None]], signals: Signals, reporter: Reporter) -> bool:
    """Commit what earlier runs decided; False when a signal ended the wait for a sink that is away.

    Raises what `steps` raise otherwise.
    """
    try:
        for step in steps:
            step()
    except CdcError as error:
        passing = error.retryable or isinstance(error, CommitUnknown)
        if not (signals.stop.is_set() and passing):
            raise
        said = "stopped while what the runs before had decided was being committed; the next run finishes it"
        reporter.line(f"{said}: {error}", level="warning")
        return False
    return True


def _first_tables(source: Source) -> Mapping[TableId, TableSchema]:
    """The tables that a pipeline begins with, as far as they are known before anything is read."""
    if not source.bounded or source.lists_all_tables:
        return source.tables()
    return source.first_tables()


def _warm(workers: Callable[[], None], reads: Callable[[], None], say: Callable[[str], None]) -> None:
    """Work beside the first batch, once the stream reader is up; `say` is called again and again when it takes long."""
    try:
        with repeatedly(lambda seconds: say(_COMPILING.format(seconds=seconds)), _SAY_EVERY_S):
            workers()
    finally:
        reads()


def _limits(spec: PipelineSpec) -> Limits:
    options: Any = spec.source
    return Limits(max_bytes=options.max_batch_bytes, max_rows=options.max_batch_rows)


def _start(spark: SparkSession, parts: StreamParts, runner: BatchRunner, *, bounded: bool) -> StreamingQuery:
    spark.dataSource.register(data_source(parts))
    writer = (
        spark.readStream.format(FORMAT)
        .load()
        .writeStream.foreachBatch(same_run(briefly(ForeachBatch(runner, parts.state))))
        .option("checkpointLocation", str(parts.state.checkpoint))
    )
    return writer.trigger(availableNow=True).start() if bounded else writer.start()
