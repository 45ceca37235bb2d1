"""The Spark session of one run, and the parts that its stream reader and executors need. Driver."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from cdc.errors import EngineError
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.job.control import RunControl
from cdc.job.executors import executors_side
from cdc.job.run_settings import LockedState, Mode, Output
from cdc.job.spark.forks import forked_session
from cdc.job.spark.java import choose_java
from cdc.job.spark.session import (
    as_guest,
    chosen_master,
    end_spark,
    java_errors_named,
    java_pid,
    without_variables,
)
from cdc.job.spark.without_executors import warn_without_executors
from cdc.job.stream_parts import StreamParts
from cdc.process.without_pandas import hide_pandas
from cdc.sink import Sink
from cdc.source import Limits, Source
from cdc.spec.model import PipelineSpec


class SparkSide:
    """Opens the session of a run: its own, or one shared with other pipelines. `java` is the Java in use."""

    def __init__(
        self, spec: PipelineSpec, locked: LockedState, mode: Mode, control: RunControl, output: Output
    ) -> None:
        self._spec, self._locked, self._mode, self._control, self._output = spec, locked, mode, control, output
        if not control.guest:
            hide_pandas()
        self._shared = control.shared
        if self._shared is not None:
            self.java = self._shared.java
        else:
            with without_variables(spec.secret_variables):
                self.java = choose_java(os.environ)

    def open_session(
        self, stack: contextlib.ExitStack, source: Source, sink: Sink, middle: Middle
    ) -> tuple[SparkSession, StreamParts] | None:
        """Open the session and build the parts for stream reader and executors; None if a stop was requested meanwhile.

        `stack` closes them. Raises EngineError, StateError, WorkerLost, also if the stop signal has ended Java.
        """
        spark = stack.enter_context(
            self._private_session(source, sink) if self._shared is None else self._shared.open_session()
        )
        if spark is None:
            return None
        state, stop = self._locked.state, self._control.stop
        with java_errors_named():
            parallelism = self._mode.parallelism(self._spec, spark)
        task = PrepareTask.of(source, sink, middle, state)
        if self._shared is None:
            self._output.line("Spark is up, the first batch is prepared", tasks=parallelism)
        else:
            self._shared.prepare(task, stop)
            if stop.is_set():
                return None
        waiting, warn = self._control.progress.note_wait, self._output.warn
        stack.enter_context(warn_without_executors(spark, stop, warn, waiting, alone=self._shared is None))
        with java_errors_named():
            executors = executors_side(self._spec, self._locked.pipeline, state, spark, task, parallelism, warn)
            side = stack.enter_context(executors)
        label = "" if self._shared is None else self._spec.label
        return spark, StreamParts(source, state, _limits(self._spec), parallelism, side, label)

    @contextlib.contextmanager
    def _private_session(self, source: Source, sink: Sink) -> Iterator[SparkSession | None]:
        """A session that ends with the run; None if a stop was requested while it started."""
        locked, control, modules = self._locked, self._control, (type(source).__module__, type(sink).__module__)
        with contextlib.ExitStack() as stack:
            if control.guest:
                stack.enter_context(as_guest())
            with self._output.json_log.of_children(), without_variables(self._spec.secret_variables):
                scratch, settings = locked.lock.create_scratch_folder(), self._spec.pipeline.spark
                spark, _ = forked_session(
                    stack, locked.pipeline, self._mode.master, self.java, scratch, settings, modules
                )
            try:
                with java_errors_named():
                    locked.lock.name_java(java_pid(spark))
                yield None if control.stop.is_set() else spark
            finally:
                end_spark(spark)


def check_spark_settings(spec: PipelineSpec, control: RunControl) -> None:
    """Raise EngineError for a pipeline with Spark settings that its shared session does not have."""
    if control.shared is not None and spec.pipeline.spark != control.shared.settings:
        own = ", ".join(sorted(spec.pipeline.spark))
        raise EngineError(
            f"this pipeline shares a Spark session with others, which cannot have its own {own}",
            where=f"{spec.file}: pipeline",
            hint="remove the keys and start `cdc serve` with CDC_SPARK_CONF, for all of its pipelines; "
            "or use `cdc run`",
        )


def master_of(control: RunControl, given: str | None) -> str:
    """The master of a run: that of its shared session, else `chosen_master`."""
    return chosen_master(given) if control.shared is None else control.shared.master


def _limits(spec: PipelineSpec) -> Limits:
    options: Any = spec.source
    return Limits(max_bytes=options.max_batch_bytes, max_rows=options.max_batch_rows)
