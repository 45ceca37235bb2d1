"""One batch: apply -> prepare -> decide -> commit -> finish. Driver.

    apply    `cdc.flow.apply`      applies the batch's schema changes to the sink
    prepare  `cdc.flow.task`       each task reads a split of the batch and prepares its rows in the sink
    decide   `cdc.state.decisions` writes the decision file; from here on the batch counts as done
    commit   `cdc.flow.commits`    makes the rows visible, in a thread; schema changes of the next batch wait for it
    finish   `cdc.flow.finish`     removes state that is no longer needed and reports the batch

The caller (Spark's foreachBatch, or a loop in one process) provides a function that runs the prepare tasks of a batch,
and the offsets at which a batch begins and ends.

| crash | on restart |
|---|---|
| before the decision file | prepared rows are aborted, the batch runs again |
| after the decision file | its handles are committed before anything is read; the batch is not read again |
| after the batch is marked as committed | nothing to do |

Rows of a decided batch are read again only if the sink has lost them before the commit (`cdc.flow.lost`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from cdc.errors import CdcError, StateError, WorkerLost
from cdc.flow.apply import ApplyStep
from cdc.flow.commits import Commits, as_cdc_error
from cdc.flow.finish import BatchAccount, FinishStep
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.flow.task_result import TaskResult
from cdc.process.faults import crash_point
from cdc.progress import Progress
from cdc.retry import Backoff, RetryPolicy
from cdc.sink import Prepared, Sink
from cdc.source import Offset, Source
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir

BatchOffsets = Callable[[int], tuple[Offset, Offset]]
"""Returns the start and end offset of a batch, with batch numbers (`cdc.offsets`). Raises StateError if unknown."""
RunTasks = Callable[[], Sequence[TaskResult]]
"""Runs the prepare tasks of the current batch. Raises the CdcError that stopped them."""


class BatchRunner:
    """Runs batches, one after the other. Driver; one object for the whole run.

    `error` holds what stopped the run, for callers that do not see the exception.
    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        middle: Middle,
        state: StateDir,
        offsets: BatchOffsets,
        progress: Progress,
        retry: RetryPolicy,
    ) -> None:
        self._source, self._state, self._offsets, self._progress = source, state, offsets, progress
        self._log = CommitLog(state.commits)
        self._finish = FinishStep(sink, state, progress)
        task = PrepareTask.of(source, sink, middle, state)
        self._commits = Commits(sink, state, retry, task, self._finish.explain)
        self._apply = ApplyStep(source, sink, middle, state, retry, self._commits.finish)
        self._tasks = TaskRunner(sink, state, retry, self._commits.wait)
        self._begun = False
        self._error: CdcError | None = None

    @property
    def error(self) -> CdcError | None:
        """The error of a failed commit, else that of a batch: a failed commit interrupts the next batch."""
        return self._commits.error or self._error

    @property
    def commit_failed(self) -> bool:
        """Whether a commit has failed. Its batch is decided."""
        return self._commits.error is not None

    def finish(self) -> None:
        """Wait for the commit in flight; its failure is in `error`. Driver, at the end of the run."""
        self._commits.wait()

    def restart(self) -> None:
        """Clear the error of a batch that is to run again, as the first batch of a run. The error of a commit stays.

        Driver, when no batch is running.
        """
        self._commits.wait()
        self._error, self._begun = None, False

    def recover(self) -> None:
        """Commit what an earlier run decided but did not commit. Driver, before the query starts; repeatable.

        Raises StateError if a decision has other offsets than the log of batches.
        """
        for decision in self._log.uncommitted():
            self._check(decision)
            self._state.notes.forget_decided(decision.batch, decision.noted)
            self._state.notes.reports.forget_decided(decision.batch, decision.reports)
            account = BatchAccount(time.monotonic())
            self._source.store_reports(decision.reports)
            named = self._finish.under_user_names(decision)
            counts = self._commits.commit(decision)
            self._finish.run(decision, named, account, counts, self._commits.took_s)

    def __call__(self, batch: int, run_tasks: RunTasks) -> None:
        """Run one batch, which is decided when this returns. Raises CdcError; then the batch is not decided."""
        try:
            self._run(batch, run_tasks)
        except Exception as error:
            self._error = self._finish.explain(as_cdc_error(error))
            if self._error is error:
                raise
            raise self._error from error

    def _run(self, batch: int, run_tasks: RunTasks) -> None:
        decided = self._log.get(batch)
        if decided is not None:  # a replay: `recover` has committed everything that was decided before the run
            self._check(decided)
            return
        started = time.monotonic()
        self._progress.begin(batch)
        self._progress.step = "begins"
        if not self._begun:
            self._begin(batch)
        start, end = self._offsets(batch)
        began = time.monotonic()
        self._progress.step = "prepares the tables of the sink"
        derived = self._apply.run(batch, start, end)
        crash_point("before-prepare", batch)
        applied = time.monotonic()
        self._progress.step = "reads and writes rows"
        results = self._tasks.results(batch, run_tasks)
        crash_point("after-prepare", batch)
        prepared = time.monotonic()
        decision = self._decide(batch, start, end, results)
        self._apply.derivation.note_decided(derived)
        phases = {"schema": applied - began, "tasks": prepared - applied, "decide": time.monotonic() - prepared}
        crash_point("after-decide", batch)
        self._source.store_reports(decision.reports)
        results.append(TaskResult(counts=dict(derived.counts)))
        account = BatchAccount(started, derived.operations, results, phases)
        self._progress.step = "is committed"
        finish = partial(self._finish.run, decision, self._finish.under_user_names(decision), account)
        self._commits.start(decision, finish)

    def _begin(self, batch: int) -> None:
        """Before the first batch of a run: abort what an earlier run prepared for it, load the tables and schemas."""
        self._tasks.abort(batch)
        before = self._log.get(batch - 1)
        self._apply.derivation.begin(batch, 0 if before is None else before.tables)
        self._begun = True

    def _decide(self, batch: int, start: Offset, end: Offset, results: list[TaskResult]) -> Decision:
        """Write and return the decision on a batch."""
        handles = (handle for result in results for handle in result.prepared)
        reports = tuple(report for result in results for report in result.reports)
        noted = tuple(result.noted for result in results if result.noted)
        prepared = tuple(sorted(handles, key=_by_partition))
        tables = self._apply.derivation.entries
        decision = Decision(batch, start, end, prepared, reports, tables=tables, noted=noted)
        self._log.decide(decision)
        self._state.notes.forget_decided(batch, noted)
        self._state.notes.reports.forget_decided(batch, reports)
        return decision

    def _check(self, decision: Decision) -> None:
        if (decision.start, decision.end) != self._offsets(decision.batch):
            raise StateError(
                f"the decision on batch {decision.batch} is about other offsets than were logged for it",
                where=str(self._state.root),
                hint="a part of the folder was removed by hand; restore it, or start over with another --state-dir",
            )


def _by_partition(handle: Prepared) -> int:
    return handle.partition


class TaskRunner:
    """Runs the tasks of undecided batches.

    Args:
        wait_for_commit: waits for the commit in flight; called before each clean-up.
    """

    def __init__(self, sink: Sink, state: StateDir, retry: RetryPolicy, wait_for_commit: Callable[[], None]) -> None:
        self._sink, self._state, self._retry, self._wait_for_commit = sink, state, retry, wait_for_commit
        self._log = CommitLog(state.commits)

    def results(self, batch: int, run_tasks: RunTasks) -> list[TaskResult]:
        """Run the tasks and return their results; on a retryable error run all of them again, up to `retry-timeout`.

        The tasks or Spark have retried on their own by then, so the timeout may have passed already. Raises the error
        that stopped a task.
        """
        began, backoff = self._retry.clock(), Backoff(self._retry, f"batch {batch}")
        while True:
            try:
                results = list(run_tasks())
                for result in results:
                    result.raise_error()
                return results
            except WorkerLost:
                raise  # the query has to be started again
            except CdcError as error:
                late = self._retry.clock() - began >= self._retry.timeout_s
                if not error.retryable or late or not backoff.pause(str(error)):
                    raise
            self._wait_for_commit()
            self.abort(batch)

    def abort(self, batch: int) -> None:
        """Remove what earlier attempts have prepared for an undecided batch."""
        self._retry.call(partial(self._abort, batch), f"clean-up of batch {batch}")

    def _abort(self, batch: int) -> None:
        self._state.store.check_lease()
        undecided = self._state.notes.undecided(batch, self._log.committed())
        self._sink.abort(batch, undecided.values)
        self._state.notes.forget(undecided.names)
