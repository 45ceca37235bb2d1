"""The prepare tasks of a batch, run until all of one try are through; what a try leaves behind is aborted. Driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cdc.errors import CdcError, WorkerLost
from cdc.flow.task_result import TaskResult
from cdc.retry import Backoff, RetryPolicy
from cdc.sink import Sink
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir

RunTasks = Callable[[], Sequence[TaskResult]]
"""Runs the prepare tasks of the batch at hand. Raises what stopped them, as a CdcError."""


class TaskRunner:
    """Runs the tasks of undecided batches. `wait_for_commit`: no clean-up meets a commit that is under way."""

    def __init__(self, sink: Sink, state: StateDir, retry: RetryPolicy, wait_for_commit: Callable[[], None]) -> None:
        self._sink, self._state, self._retry, self._wait_for_commit = sink, state, retry, wait_for_commit
        self._log = CommitLog(state.commits)

    def results(self, batch: int, run_tasks: RunTasks) -> list[TaskResult]:
        """The tasks' results, all of them run again after errors that may pass, for `retry-timeout` from the beginning.

        A task has tried again itself by then, and the engine has tried the task; so it may have taken longer already.
        Raises the error that stopped a task.
        """
        began, backoff = self._retry.clock(), Backoff(self._retry, f"batch {batch}")
        while True:
            try:
                results = list(run_tasks())
                break
            except WorkerLost:
                raise  # the query has to be started again
            except CdcError as error:
                late = self._retry.clock() - began >= self._retry.timeout_s
                if not error.retryable or late or not backoff.pause(str(error)):
                    raise
            self._wait_for_commit()
            self.abort(batch)
        for result in results:
            result.raise_error()
        return results

    def abort(self, batch: int) -> None:
        """Remove what earlier tries have prepared for a batch that is not decided."""
        self._retry.call(partial(self._abort, batch), f"clean-up of batch {batch}")

    def _abort(self, batch: int) -> None:
        self._state.store.check_held()
        undecided = self._state.notes.undecided(batch, self._log.committed())
        self._sink.abort(batch, undecided.values)
        self._state.notes.forget(undecided.names)
