"""The settings of one run: how it was asked to go about it, where its state is, and where it tells what it does."""

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
    """The mode of a run, as it was asked for."""

    master: str
    until_caught_up: bool
    background: bool

    def parallelism(self, spec: PipelineSpec, spark: SparkSession) -> int:
        """Most tasks of a batch."""
        cores = int(spark.sparkContext.defaultParallelism)
        return spec.pipeline.parallelism or (max(1, cores // 2) if self.background else cores)


@dataclass(frozen=True, slots=True)
class LockedState:
    """The locked state directory of a run; `pipeline` is the id that it gives the pipeline."""

    pipeline: str
    state: StateDir
    lock: RunLock


@dataclass(frozen=True, slots=True)
class Output:
    """The outputs of a run: log lines, what others print, and status documents."""

    reporter: Reporter
    json_log: JsonLog
    recording: Recording

    def line(self, text: str, level: str = "info", **fields: Any) -> None:
        """A log line."""
        self.reporter.line(text, level=level, **fields)

    def step(self, what: str) -> AbstractContextManager[None]:
        """A block that is one step of the run: it is told of when it takes long."""
        return LongSteps(self.reporter).step(what)

    def warn(self, text: str) -> None:
        """A log line that is a warning."""
        self.reporter.line(text, level="warning")
