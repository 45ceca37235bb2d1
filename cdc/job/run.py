"""`cdc run`: compile a checked pipeline into one structured-streaming query. Driver."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from cdc.job.log_records import log_records, same_run
from cdc.job.refresh import refresh
from cdc.job.report import Reporter
from cdc.job.spark.own import OwnSpark, chosen_java, own_settings
from cdc.job.spark.session import chosen_master, warm_workers
from cdc.job.spark.without_executors import told_without_executors
from cdc.job.state_location import state_location
from cdc.job.stream import FORMAT, StreamPlan, data_source
from cdc.job.watch import Signals, Watch
from cdc.planning import check_merges, check_patterns, check_rules
from cdc.retry import RetryPolicy
from cdc.schema import TableId, TableSchema
from cdc.source import Context, Limits, Source
from cdc.spec.compiled import compiled
from cdc.spec.model import PipelineSpec
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.durable import NO_ROOM, state_error
from cdc.status.events import EventFile
from cdc.status.model import Status
from cdc.status.recording import Recording, first_status
from cdc.tables.held import Held
from cdc.tables.log import TableLog
from cdc.without_pandas import keep_pandas_out

if TYPE_CHECKING:
    from cdc.status.traces import Traces


_STOPPED_EARLY = "stopped before anything was read"
_COMPILING = (
    "the workers are still getting ready: where no compiled kernels fit this processor they are compiled now, once on "
    "this machine, which takes up to a minute"
)
_LONG_S = 8.0
"""As long as workers take to load what is compiled on a busy machine."""


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


def run(
    spec: PipelineSpec,
    *,
    until_caught_up: bool = False,
    master: str | None = None,
    state_dir: Path | None = None,
    log_format: str = "text",
    background: bool = False,
    control: Control | None = None,
    events: Path | None = None,
    seen: Callable[[Status], None] | None = None,
) -> int:
    """Run a pipeline until it is stopped, caught up (when asked, or when the source is bounded), or failed.

    `background` reads with half the cores when the pipeline does not say how many: what a server on this machine does
    for us is at no lower priority than what it does for others. The rest of it is `cdc.background`.
    `control` is for a run in a thread of somebody else's process: `cdc.api`. `events` is a file that gets a line for
    each event; `seen` is told of each new status document, in the thread of the run (`cdc.status`).

    Returns 0. Raises CdcError with the exit code of what failed; everything committed until then stays committed, and
    the next run with the same state directory continues there.
    """
    control = control or Control()
    if control.shared is not None and spec.pipeline.spark != control.shared.settings:
        raise own_settings(spec)
    reporter = Reporter(log_format, out=control.log, err=control.log, sink=spec.sink_name)
    json_log = JsonLog(reporter.line, wanted=log_format == "json" and control.shared is None)
    found = state_location(state_dir, spec)
    lock = RunLock(found.root)
    lock.acquire()
    retry = RetryPolicy(spec.pipeline.retry_timeout_s, stopping=control.stop.is_set, waiting=control.progress.waiting)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(log_records(reporter.line, only_here=control.shared is not None))
            stack.enter_context(json_log.of_python())
            state = stack.enter_context(found.held(retry, reporter.line))
            pipeline = state.open(name=spec.label, source=spec.source.type)
            state.clear_control()
            master = chosen_master(master) if control.shared is None else control.shared.master
            mode = Mode(master, until_caught_up or spec.pipeline.bounded, background)
            if spec.pipeline.schedule is not None and spec.pipeline.schedule_copy == "refresh" and not control.again:
                refresh(spec, state)
            middle = compiled(spec, pipeline)
            recorded = _recording(spec, middle, pipeline, state, reporter, mode, control, events, seen)
            recording = stack.enter_context(recorded)
            try:
                _run_locked(spec, middle, pipeline, state, lock, reporter, json_log, mode, control, recording)
            except CdcError as error:
                control.words(error)
                raise
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise state_error(found.root, error) from error
    finally:
        lock.release()
    return 0


def _recording(
    spec: PipelineSpec,
    middle: Middle,
    pipeline: str,
    state: StateDir,
    reporter: Reporter,
    mode: Mode,
    control: Control,
    events: Path | None,
    seen: Callable[[Status], None] | None,
) -> Recording:
    first = first_status(
        state.root, pipeline, name=spec.label, source=spec.source.type, sink=spec.sink.type, file=spec.file,
        behavior=str(middle.policy), bounded=mode.until_caught_up,
    )  # fmt: skip
    file = None if events is None else EventFile(events, spec.label)
    warn, held = partial(reporter.line, level="warning"), Held(state).tables
    return Recording(first, state.root, control.progress, warn, file, seen, held, _traces(spec, warn, control))


def _traces(spec: PipelineSpec, warn: Callable[[str], None], control: Control) -> Traces | None:
    if spec.pipeline.traces == "none":
        return None
    from cdc.status.traces import Traces

    options = spec.pipeline
    return Traces(spec.label, spec.source.type, spec.sink.type, options.traces_endpoint, warn, guest=control.guest)


def _run_locked(
    spec: PipelineSpec,
    middle: Middle,
    pipeline: str,
    state: StateDir,
    lock: RunLock,
    reporter: Reporter,
    json_log: JsonLog,
    mode: Mode,
    control: Control,
    recording: Recording,
) -> None:
    if not control.guest:
        keep_pandas_out()
    source = spec.source.build(Context(pipeline, state.source, state.stop_file, spec.metadata()))
    sink = spec.sink.build(Context(pipeline, state.sink, state.stop_file))
    shared = control.shared
    java = chosen_java(spec) if shared is None else shared.java
    reporter.line(
        f"pipeline {pipeline}: {spec.source.type} -> {spec.sink.type}, schema changes: {middle.policy}",
        state=state.store.where().rstrip("/"),
        java=str(java),
    )
    other_defaults = spec.other_defaults()
    if other_defaults:
        reporter.line(f"defaults that are not Flink CDC's (its own in brackets): {other_defaults}")
    progress = control.progress
    signals = Signals(control.stop, control.drain)
    if state.initial_offset() is None:  # a pipeline that goes on may be far behind the tables of today
        tables = _first_tables(source)
        middle.routes.check(tables)
        check_merges(middle, check_rules(middle.rules, tables))
        if source.lists_all_tables or not source.bounded:  # else those that it begins with are not all
            for problem in check_patterns(spec, middle.routes, tables, complete=source.lists_all_tables):
                reporter.line(str(problem), level="warning")
    retry = RetryPolicy(spec.pipeline.retry_timeout_s, stopping=signals.stop.is_set, waiting=progress.waiting)
    runner = BatchRunner(source, sink, middle, state, OffsetLog(state), progress, retry)
    edits = Edits(spec, middle, state)
    edits.check_sink(sink)
    sink.check()
    for sentence in mend(state.checkpoint, lambda batch: CommitLog(state.commits).get(batch) is not None):
        reporter.line(sentence, level="warning")
    own = OwnSpark(spec, pipeline, mode.master, java, lock, json_log, control.guest, control.stop)
    with contextlib.ExitStack() as stack:
        stack.enter_context(signals.installed())
        look = partial(retry.call, partial(edits.check_tables, source, sink), "a look at the sink's tables")
        named = partial(retry.call, partial(edits.check_patterns, source), "a look at the source's tables")
        if not finished_earlier((named, look, runner.recover), signals, reporter):
            return
        spark = stack.enter_context((own if shared is None else shared).opened())
        if spark is None:
            reporter.line(_STOPPED_EARLY)
            return
        parallelism = mode.parallelism(spec, spark)
        if shared is None:
            reporter.line("Spark is up, the first batch is prepared", tasks=parallelism)
        task = PrepareTask(source, sink, middle, TableLog(state.store), state.answers, state.notes)
        if shared is not None:
            shared.prepare(task, signals.stop)
            if signals.stop.is_set():
                reporter.line(_STOPPED_EARLY)
                return
        warn = partial(reporter.line, level="warning")
        stack.enter_context(told_without_executors(spark, signals.stop, warn, progress.waiting, alone=shared is None))
        try:
            side = stack.enter_context(executors_side(spec, pipeline, state, spark, task, parallelism, warn))
        except WorkerLost:
            if not signals.stop.is_set():
                raise
            reporter.line(_STOPPED_EARLY)
            return
        plan = StreamPlan(source, state, _limits(spec), parallelism, side)
        bounded = mode.until_caught_up or source.bounded
        start = partial(_start, spark, plan, runner, bounded=bounded)
        drained = None if bounded else partial(_start, spark, plan, runner, bounded=True)
        workers = partial(warm_workers, spark, side.task.warm, plan.parallelism)
        warm = partial(_warm, workers, control.reads, partial(reporter.line, _COMPILING))
        copying = Copying(source.progress, state.store, reporter.line)
        watch = Watch(start, warm, runner, progress, reporter, state, signals, retry, copying, recording, drained)
        try:
            watch.until_end()
        finally:
            watch.report()
            reporter.summary(progress.snapshot(), str(middle.policy), copying.anew())


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


def _warm(workers: Callable[[], None], reads: Callable[[], None], say: Callable[[], None]) -> None:
    """Work beside the first batch, once the stream reader is up; `say` is called when it takes long."""
    slow = threading.Timer(_LONG_S, say)
    slow.daemon = True
    slow.start()
    try:
        workers()
    finally:
        slow.cancel()
        reads()


def _limits(spec: PipelineSpec) -> Limits:
    options: Any = spec.source
    return Limits(max_bytes=options.max_batch_bytes, max_rows=options.max_batch_rows)


def _start(spark: SparkSession, plan: StreamPlan, runner: BatchRunner, *, bounded: bool) -> StreamingQuery:
    spark.dataSource.register(data_source(plan))
    writer = (
        spark.readStream.format(FORMAT)
        .load()
        .writeStream.foreachBatch(same_run(briefly(ForeachBatch(runner, plan.state))))
        .option("checkpointLocation", str(plan.state.checkpoint))
    )
    return writer.trigger(availableNow=True).start() if bounded else writer.start()
