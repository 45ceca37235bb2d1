"""Work that waits for executors that never come: warned of, and ended once the run is to stop. Driver.

Spark waits for ever for a cluster that has no room, or whose executors end as soon as they have begun, and says so in a
log of its own. A stop would wait as long.
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
"""How long there is work and no executor before that is warned of; as long as Spark takes for its own warning."""

NO_EXECUTORS = (
    "Spark has work, and no executor for it: the cluster has no cores or memory left for this run, or its executors "
    "end as soon as they begin (the cluster's own page shows them and their logs; less than 460m is too little for "
    "spark.executor.memory)"
)
WAITING = "waiting for executors"
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class SparkWork:
    """Spark's work: whether there is any, and how many executors there are for it."""

    waits: bool
    executors: int


class WithoutExecutors:
    """Counts the time without executors. One per run; `look` is called once in a second.

    Args:
        warn: gets the text for the log, once for each time without executors.
        waiting: gets what is waited for, for the status; the empty text once there are executors.
        cancel: ends the work that waits. Called again as long as there is some.
    """

    def __init__(self, warn: Callable[[str], None], waiting: Callable[[str], None], cancel: Callable[[], None]) -> None:
        self._warn, self._waiting, self._cancel = warn, waiting, cancel
        self._waited_s, self._warned = 0.0, False

    def look(self, work: SparkWork, passed_s: float, *, stopping: bool) -> None:
        """`passed_s` seconds after the last look."""
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
    """While the block runs a thread looks; nothing is done where the master is this machine. With `alone` the session
    is this run's, and a stop ends its jobs."""
    if str(spark.sparkContext.master).startswith("local"):
        yield
        return
    looking = WithoutExecutors(warn, waiting, spark.sparkContext.cancelAllJobs if alone else lambda: None)

    def look(_: float) -> bool:
        try:
            looking.look(_work(spark), _LOOK_S, stopping=stop.is_set())
        except (Py4JError, *JAVA_GONE):
            return False  # the run ends with Java, and says so
        return True

    with repeatedly(look, _LOOK_S, "without-executors"):
        yield


def _work(spark: SparkSession) -> SparkWork:
    context: Any = spark.sparkContext._jsc.sc()
    waits = bool(spark.sparkContext.statusTracker().getActiveJobsIds())
    return SparkWork(waits, int(context.getExecutorMemoryStatus().size()) - 1)  # the driver is one of them
