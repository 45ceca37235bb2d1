"""Runs the tasks of a batch one after another in this process."""

from __future__ import annotations

import time
from datetime import datetime

from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.flow.task_result import TaskResult
from cdc.offsets import source_offset
from cdc.sink import Sink
from cdc.source import Offset, Source
from cdc.state.directory import StateDir
from cdc.state.splits import SplitLog


class LocalTasks:
    """Runs tasks of a pipeline. `now` is the time of every batch, None for the clock."""

    def __init__(self, source: Source, sink: Sink, middle: Middle, state: StateDir, now: datetime | None) -> None:
        self._source, self._task = source, PrepareTask.of(source, sink, middle, state)
        self._splits = SplitLog(state.splits, time.time if now is None else now.timestamp)

    def results(self, batch: int, start: Offset, end: Offset, parallelism: int) -> list[TaskResult]:
        """Return the results of a batch between two offsets, as executors return them."""
        if source_offset(start) == source_offset(end):
            return []
        splits = self._splits.splits(self._source, start, end, parallelism)
        return [TaskResult.from_row(*self._task(batch, split).to_row()) for split in splits]
