"""Spark's side of a batch: its log of offsets, and the frame whose collection runs the prepare tasks. Driver."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import DataFrame

from cdc.errors import CdcError, StateError, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.flow.task_result import TaskResult
from cdc.job.checkpoint import sync_offsets
from cdc.job.error_transport import recover
from cdc.offsets import BATCH_KEY
from cdc.source import Offset
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


class OffsetLog:
    """Begin and end of each batch, from Spark's log of offsets and the stored start. Driver."""

    def __init__(self, state: StateDir) -> None:
        self._state = state

    def __call__(self, batch: int) -> tuple[Offset, Offset]:
        """Start and end of a planned batch. Raises StateError when the log does not have it."""
        end = logged_offset(self._state.checkpoint, batch)
        start = logged_offset(self._state.checkpoint, batch - 1) if batch > 0 else self._state.initial_offset()
        if start is None or end is None or end.get(BATCH_KEY) != batch + 1:
            raise StateError(
                f"the offsets of batch {batch} are missing or of another batch",
                where=str(self._state.checkpoint),
                hint="the folder was changed by hand; restore it, or start over with another --state-dir",
            )
        return start, end


def logged_offset(checkpoint: Path, batch: int) -> Offset | None:
    """The end offset of a batch from Spark's offset log, None when it has none.

    Format (Spark's OffsetSeqLog, version v1): a version line, a metadata line, then one line per source.
    """
    path = checkpoint / "offsets" / str(batch)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if len(lines) < 3 or lines[0] != "v1":
        raise StateError("is not an offset log of version v1", where=str(path), hint="it was written by another Spark")
    return dict(json.loads(lines[2]))
