"""The structured-streaming query of a run, and the workers that get ready beside its first batch. Driver."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdc.flow.batch import BatchRunner
from cdc.job.error_transport import briefly
from cdc.job.foreach_batch import ForeachBatch
from cdc.job.log_records import same_run
from cdc.job.spark.session import warm_workers
from cdc.job.stream import FORMAT, StreamParts, data_source
from cdc.job.watch import QueryStart
from cdc.repeating import repeatedly

_COMPILING = (
    "the workers have been getting ready for {seconds:.0f} s: kernels that are new to this processor are compiled once "
    "on this machine, by this process or by another one that is waited for; a busy machine takes longer, too"
)
_SAY_EVERY_S = 5.0
"""Longer than workers take to load what is compiled, unless the machine is busy."""


def query_of(
    spark: SparkSession,
    parts: StreamParts,
    runner: BatchRunner,
    reads: Callable[[], None],
    say: Callable[[str], None],
    *,
    bounded: bool,
) -> QueryStart:
    """The query over these parts, not started yet. `reads` is called once Spark reads the stream; `say` logs a line."""
    start = partial(_start, spark, parts, runner, bounded=bounded)
    drained = None if bounded else partial(_start, spark, parts, runner, bounded=True)
    workers = partial(warm_workers, spark, parts.side.task.warm, parts.parallelism)
    return QueryStart(start, partial(_warm, workers, reads, say), drained)


def _warm(workers: Callable[[], None], reads: Callable[[], None], say: Callable[[str], None]) -> None:
    """Work beside the first batch, once the stream reader is up; `say` is called again and again when it takes long."""
    try:
        with repeatedly(lambda seconds: say(_COMPILING.format(seconds=seconds)), _SAY_EVERY_S):
            workers()
    finally:
        reads()


def _start(spark: SparkSession, parts: StreamParts, runner: BatchRunner, *, bounded: bool) -> StreamingQuery:
    spark.dataSource.register(data_source(parts))
    writer = (
        spark.readStream.format(FORMAT)
        .load()
        .writeStream.foreachBatch(same_run(briefly(ForeachBatch(runner, parts.state))))
        .option("checkpointLocation", str(parts.state.checkpoint))
    )
    return writer.trigger(availableNow=True).start() if bounded else writer.start()
