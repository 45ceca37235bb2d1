"""The structured-streaming query of a run, and the warm-up of workers while the first batch is planned. Driver."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import CdcError, EngineError, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.flow.task_result import TaskResult
from cdc.job.checkpoint import sync_offsets
from cdc.job.error_transport import briefly, recover
from cdc.job.log_records import same_run
from cdc.job.spark.session import is_running, java_errors_named, warm_workers
from cdc.job.stream import FORMAT, data_source
from cdc.job.stream_parts import StreamParts
from cdc.job.watch import QueryStart
from cdc.process.repeated import SAY_EVERY_S, repeatedly
from cdc.state.directory import StateDir
from cdc.state.store import Store
from cdc.transform.open_functions import name_functions

_COMPILING = (
    "the workers have been getting ready for {seconds:.0f} s: kernels that are new to this processor are compiled once "
    "on this machine, by this process or by another one that is waited for; a busy machine takes longer, too"
)


class ForeachBatch:
    """The function given to foreachBatch: Spark logs a batch as done when it returns, and stops the query if it raises.

    Each row of the frame is the result of one task (`cdc.job.stream`); collecting the frame runs the tasks.
    """

    def __init__(self, runner: BatchRunner, state: StateDir) -> None:
        self._runner, self._state = runner, state

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Sync the batch's offsets to disk, then run the batch."""
        sync_offsets(self._state.checkpoint, batch)
        self._state.adopt_plan(batch)
        self._runner(batch, lambda: _collect_results(frame, self._state.answers, batch))


def _collect_results(frame: DataFrame, functions: Store, batch: int) -> list[TaskResult]:
    try:
        return [TaskResult.from_row(row[0], row[1]) for row in frame.collect()]
    except CdcError:
        raise
    except Exception as error:  # Spark's exceptions contain our error in their text, if there was one
        known = recover(error)
        raise (name_functions(known, functions, batch) if isinstance(known, WorkerLost) else known) from error


def query_of(
    spark: SparkSession,
    parts: StreamParts,
    runner: BatchRunner,
    reads: Callable[[], None],
    say: Callable[[str], None],
    *,
    bounded: bool,
) -> QueryStart:
    """The query of these parts, not started yet. `reads` is called once Spark reads the stream; `say` logs a line."""
    batch = same_run(briefly(ForeachBatch(runner, parts.state)))
    start = partial(_start, spark, parts, batch, bounded=bounded)
    drained = None if bounded else partial(_start, spark, parts, batch, bounded=True)
    group = f"warm-up for {parts.state.checkpoint}"
    workers = partial(warm_workers, spark, parts.side.task.warm, parts.parallelism, group)
    return QueryStart(start, partial(_warm, workers, partial(is_running, spark, group), reads, say), drained)


def _warm(
    workers: Callable[[], None], running: Callable[[], bool], reads: Callable[[], None], say: Callable[[str], None]
) -> None:
    """Warm the workers up during the first batch, once the stream reader is up; `say` logs it if it takes long.

    Not while none is `running`: the batch, which may wait for its sink, has all slots.
    """

    def note(seconds: float) -> None:
        if running():
            say(_COMPILING.format(seconds=seconds))

    try:
        with repeatedly(note, SAY_EVERY_S):
            workers()
    finally:
        reads()


def _start(
    spark: SparkSession, parts: StreamParts, batch: Callable[[DataFrame, int], None], *, bounded: bool
) -> StreamingQuery:
    with java_errors_named():
        spark.dataSource.register(data_source(parts))
        writer = (
            spark.readStream.format(FORMAT)
            .load()
            .writeStream.foreachBatch(_weakly(batch))
            .option("checkpointLocation", str(parts.state.checkpoint))
        )
        if parts.label:
            writer = writer.queryName(parts.label)  # in all that Java says of the query
        return writer.trigger(availableNow=True).start() if bounded else writer.start()


def _weakly(batch: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """Wrap the callable for Java with a weak reference.

    Java keeps callbacks until it collects its old generation, which may be a hundred runs later in a process with many
    runs; each would keep its source and sink alive.
    """
    reference = weakref.ref(batch)

    def call(frame: DataFrame, number: int) -> None:
        found = reference()
        if found is None:
            raise EngineError("the run of this query has ended")
        found(frame, number)

    return call
