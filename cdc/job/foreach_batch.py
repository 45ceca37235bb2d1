"""Spark's side of a batch: the frame whose collection runs the prepare tasks. Driver."""

from __future__ import annotations

from pyspark.sql import DataFrame

from cdc.errors import CdcError, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.flow.task_result import TaskResult
from cdc.job.checkpoint import sync_offsets
from cdc.job.error_transport import recover
from cdc.state.directory import StateDir
from cdc.state.store import Store
from cdc.transform.at_work import name_functions


class ForeachBatch:
    """The callable given to foreachBatch: Spark logs a batch as done when it returns, stops the query when it raises.

    Each row of the frame is what one task came to (`cdc.job.stream`); collecting it is what runs the tasks.
    """

    def __init__(self, runner: BatchRunner, state: StateDir) -> None:
        self._runner, self._state = runner, state

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run one batch, once its offsets are on disk."""
        sync_offsets(self._state.checkpoint, batch)
        self._state.adopt_plan(batch)
        self._runner(batch, lambda: _collect_results(frame, self._state.answers, batch))


def _collect_results(frame: DataFrame, functions: Store, batch: int) -> list[TaskResult]:
    try:
        return [TaskResult.from_row(row[0], row[1]) for row in frame.collect()]
    except CdcError:
        raise
    except Exception as error:  # whatever Spark raises has our error in its text, if there was one
        known = recover(error)
        raise (name_functions(known, functions, batch) if isinstance(known, WorkerLost) else known) from error
