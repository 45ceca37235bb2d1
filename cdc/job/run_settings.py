"""The settings of one run: its mode, its locked state directory, and its outputs. Driver."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from cdc.job.json_log import JsonLog
from cdc.job.lock import RunLock
from cdc.job.long_steps import LongSteps
from cdc.job.report import Reporter
from cdc.spec.model import PipelineSpec
from cdc.state.directory import StateDir
from cdc.status.recording import Recording


@dataclass(frozen=True, slots=True)
class Mode:
    """The mode of a run, from the command line."""

    master: str
    until_caught_up: bool
    background: bool

    def parallelism(self, spec: PipelineSpec, spark: SparkSession) -> int:
        """The maximum number of tasks per batch."""
        cores = int(spark.sparkContext.defaultParallelism)
        return spec.pipeline.parallelism or (max(1, cores // 2) if self.background else cores)


@dataclass(frozen=True, slots=True)
class LockedState:
    """The locked state directory of a run; `pipeline` is the pipeline's id in it."""

    pipeline: str
    state: StateDir
    lock: RunLock


@dataclass(frozen=True, slots=True)
class Output:
    """The outputs of a run: log lines, output of child processes, and status documents."""

    reporter: Reporter
    json_log: JsonLog
    recording: Recording

    def line(self, text: str, level: str = "info", **fields: Any) -> None:
        """Write a log line."""
        self.reporter.line(text, level=level, **fields)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Context manager: one step of the run, which is logged if it takes long."""
        return LongSteps(self.reporter).step(name)

    def warn(self, text: str) -> None:
        """Write a warning to the log."""
        self.reporter.line(text, level="warning")
