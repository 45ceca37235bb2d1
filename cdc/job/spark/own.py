"""The Spark session of one run: started for it, ended with it. Driver."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from cdc.errors import EngineError
from cdc.job.json_log import JsonLog
from cdc.job.lock import RunLock
from cdc.job.spark.forks import local_forks
from cdc.job.spark.java import Java, choose_java
from cdc.job.spark.session import as_guest, end_spark, no_error_once_stopped, start_session, without_variables
from cdc.spec.model import PipelineSpec


def chosen_java(spec: PipelineSpec) -> Java:
    """The Java for a session of its own. Raises EngineError when there is none."""
    with without_variables(spec.secret_variables):
        return choose_java(os.environ)


def own_settings(spec: PipelineSpec) -> EngineError:
    """The error for a pipeline with settings of Spark that is to share a session."""
    return EngineError(
        f"this pipeline shares one Spark with others, which cannot have its {', '.join(sorted(spec.pipeline.spark))}",
        where=f"{spec.file}: pipeline",
        hint="remove the keys and start `cdc serve` with CDC_SPARK_CONF, for all of its pipelines; or use `cdc run`",
    )


@dataclass(frozen=True, slots=True)
class OwnSpark:
    """The start of a run's own session. `guest` and `stop` are those of the run's `Control`; `modules` are loaded
    before Spark's Python processes are forked on this machine."""

    spec: PipelineSpec
    pipeline: str
    master: str
    java: Java
    lock: RunLock
    json_log: JsonLog
    guest: bool
    stop: threading.Event
    modules: tuple[str, ...] = ()

    @contextlib.contextmanager
    def open_session(self) -> Iterator[SparkSession | None]:
        """The session; None when the run was asked to stop while it started."""
        with contextlib.ExitStack() as stack:
            if self.guest:
                stack.enter_context(as_guest())
            with self.json_log.of_children(), without_variables(self.spec.secret_variables):
                scratch, given = self.lock.make_scratch(), self.spec.pipeline.spark
                spark, forks = None, local_forks(self.master, scratch)
                with no_error_once_stopped(self.stop):
                    if forks is not None:
                        stack.callback(forks.stop)
                        forks.begin(*self.modules)
                    spark = start_session(self.pipeline, self.master, self.java, scratch, given)
                    if forks is not None:
                        forks.start()
                        spark.sparkContext.pythonExec = str(forks.launcher)
            if spark is None:
                yield None
                return
            try:
                jvm: Any = spark.sparkContext._jvm
                self.lock.name_java(int(jvm.java.lang.ProcessHandle.current().pid()))
                yield None if self.stop.is_set() else spark
            finally:
                end_spark(spark)
