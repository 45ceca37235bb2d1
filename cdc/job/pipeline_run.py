"""One run of a pipeline, step by step, while its state directory is locked. Driver.

announce --> check the first tables --> check sink, edits and state --> commit what earlier runs decided
         --> start Spark --> set up the executors' side --> run batches until the end
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from cdc.flow.batch import BatchRunner
from cdc.job.checkpoint import OffsetLog
from cdc.job.control import RunControl
from cdc.job.first_checks import FirstChecks
from cdc.job.monitor import Monitor
from cdc.job.query import query_of
from cdc.job.run_settings import LockedState, Mode, Output
from cdc.job.snapshot_monitor import SnapshotMonitor
from cdc.job.spark.session import errors_ignored_after_stop
from cdc.job.spark_side import SparkSide
from cdc.job.stream_parts import StreamParts
from cdc.job.watch import Watch
from cdc.process.signals import STOPPED_EARLY, Signals
from cdc.retry import RetryPolicy
from cdc.source import Context

if TYPE_CHECKING:
    from cdc.flow.middle import Middle
    from cdc.spec.model import PipelineSpec


class PipelineRun:
    """One run. `middle` is the compiled pipeline file."""

    def __init__(
        self, spec: PipelineSpec, middle: Middle, locked: LockedState, mode: Mode, control: RunControl, output: Output
    ) -> None:
        self._spec, self._middle, self._locked, self._mode = spec, middle, locked, mode
        self._control, self._output, self._state = control, output, locked.state
        self._spark = SparkSide(spec, locked, mode, control, output)
        context = partial(Context, locked.pipeline, stop_file=self._state.stop_file)
        self._source = spec.source.build(
            context(self._state.source, metadata=spec.metadata(), siblings=control.siblings)
        )
        self._sink = spec.sink.build(context(self._state.sink))
        self._signals = Signals(control.stop, control.drain)
        self._retry = RetryPolicy(
            spec.pipeline.retry_timeout_s, stopping=control.stop.is_set, waiting=control.progress.note_wait
        )
        self._runner = BatchRunner(
            self._source, self._sink, middle, self._state, OffsetLog(self._state), control.progress, self._retry
        )

    def go(self) -> None:
        """Run all steps; return early if a signal arrives before anything is read. Raises CdcError."""
        self._announce()
        with contextlib.ExitStack() as stack:
            with self._output.recording.ticking():
                parts = self._begin(stack)
            if parts is not None:
                self._follow(*parts)

    def _begin(self, stack: contextlib.ExitStack) -> tuple[SparkSession, StreamParts] | None:
        """Run all steps before the first batch; None if a signal arrives meanwhile."""
        checks = FirstChecks(self._spec, self._middle, self._state, self._source, self._sink, self._output)
        step = self._output.step
        with step("tables of source and sink are checked"):
            checks.check_first_tables()
            checks.check_state()
        stack.enter_context(self._signals.installed())
        with step("batches that earlier runs decided are committed"):
            if not checks.finish_earlier(self._runner.recover, self._retry, self._signals):
                return None
        parts = None
        with step("Spark starts"), errors_ignored_after_stop(self._signals.stop):
            parts = self._spark.open_session(stack, self._source, self._sink, self._middle)
        if parts is None:
            self._output.line(STOPPED_EARLY)
        return parts

    def _announce(self) -> None:
        kinds = f"{self._spec.source.type} -> {self._spec.sink.type}"
        self._output.line(
            f"pipeline {self._locked.pipeline}: {kinds}, schema changes: {self._middle.policy}",
            state=self._state.store.where().rstrip("/"),
            java=str(self._spark.java),
        )
        if other_defaults := self._spec.other_defaults():
            self._output.line(f"defaults that are not Flink CDC's (its own in brackets): {other_defaults}")

    def _follow(self, spark: SparkSession, parts: StreamParts) -> None:
        """Run batches until the end."""
        bounded, runner = self._mode.until_caught_up or self._source.bounded, self._runner
        reporter = self._output.reporter
        say = self._output.line if self._control.shared is None else self._control.shared.report_waiting
        query = query_of(spark, parts, runner, self._control.reads, say, bounded=bounded)
        snapshots = SnapshotMonitor(self._source.progress, self._state.store, reporter.line)
        progress = self._control.progress
        monitor = Monitor(progress, reporter, self._output.recording, self._state, snapshots)
        watch = None
        with self._output.step("the query starts"), errors_ignored_after_stop(self._signals.stop):
            watch = Watch(query, runner, progress, monitor, self._state, self._signals, self._retry)
        if watch is None:
            self._output.line(STOPPED_EARLY)
            return
        failed = True
        try:
            watch.until_end()
            failed = False
        finally:
            watch.report()
            reporter.summary(progress.totals(), str(self._middle.policy), snapshots.re_snapshots(), failed=failed)
