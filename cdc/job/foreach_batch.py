"""The foreachBatch function: collecting its frame runs the prepare tasks of a batch. Driver."""

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
