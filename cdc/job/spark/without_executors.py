"""Warns about Spark jobs that wait for executors, and cancels them when the run is to stop. Driver.

Spark waits forever for a cluster without free resources, or whose executors fail as soon as they start, and reports it
in its own log only. A stop would wait as long.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from cdc.job.spark.session import JAVA_GONE
from cdc.process.repeated import repeatedly

WARNED_AFTER_S = 15.0
"""Seconds with work and without executors until the warning, the same as for Spark's own warning."""

NO_EXECUTORS = (
    "Spark has work, and no executor for it: the cluster has no cores or memory left for this run, or its executors "
    "end as soon as they begin (the cluster's own page shows them and their logs; less than 460m is too little for "
    "spark.executor.memory)"
)
WAITING = "waiting for executors"
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class SparkWork:
    """Spark's pending work: whether there are jobs, and the number of executors."""

    waits: bool
    executors: int


class WithoutExecutors:
    """Measures the time without executors. One per run; `look` is called once per second.

    Args:
        warn: logs a warning, once per period without executors.
        waiting: sets what the run waits for in its status; empty once there are executors.
        cancel: cancels the waiting jobs. Called repeatedly while there are some.
    """

    def __init__(self, warn: Callable[[str], None], waiting: Callable[[str], None], cancel: Callable[[], None]) -> None:
        self._warn, self._waiting, self._cancel = warn, waiting, cancel
        self._waited_s, self._warned = 0.0, False

    def look(self, work: SparkWork, passed_s: float, *, stopping: bool) -> None:
        """Update the state; `passed_s` seconds have passed since the last call."""
        if not work.waits or work.executors:
            if self._warned:
                self._waiting("")
            self._waited_s, self._warned = 0.0, False
            return
        if stopping:
            self._cancel()
        self._waited_s += passed_s
        if self._waited_s >= WARNED_AFTER_S and not self._warned:
            self._warn(NO_EXECUTORS)
            self._waiting(WAITING)
            self._warned = True


@contextlib.contextmanager
def warn_without_executors(
    spark: SparkSession,
    stop: threading.Event,
    warn: Callable[[str], None],
    waiting: Callable[[str], None],
    *,
    alone: bool,
) -> Iterator[None]:
    """Watch for missing executors in a thread while the block runs; no effect with a local master.

    `alone`: the session belongs to this run, and a stop cancels its jobs.
    """
    if str(spark.sparkContext.master).startswith("local"):
        yield
        return
    looking = WithoutExecutors(warn, waiting, spark.sparkContext.cancelAllJobs if alone else lambda: None)

    def look(_: float) -> bool:
        try:
            looking.look(_work(spark), _LOOK_S, stopping=stop.is_set())
        except (Py4JError, *JAVA_GONE):
            return False  # Java has ended; the run reports that
        return True

    with repeatedly(look, _LOOK_S, "without-executors"):
        yield


def _work(spark: SparkSession) -> SparkWork:
    context: Any = spark.sparkContext._jsc.sc()
    waits = bool(spark.sparkContext.statusTracker().getActiveJobsIds())
    return SparkWork(waits, int(context.getExecutorMemoryStatus().size()) - 1)  # the driver is one of them
