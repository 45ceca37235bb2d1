"""One batch: apply -> prepare -> decide -> commit -> finish. Driver.

    apply    `cdc.flow.apply`      what the source's events make of the tables is carried out in the sink
    prepare  `cdc.flow.batch`  each task reads a part of the batch and prepares its rows in the sink
    decide   `cdc.state.decisions` from here on the batch counts as done
    commit   `cdc.flow.commits`    rows become visible, in a thread; schema changes of the next batch wait for it
    finish   `cdc.flow.finish`     documents go that nobody needs any more, the batch is reported

Who drives it (Spark's foreachBatch, or a loop in one process) hands in what runs the batch's prepare tasks, and where a
batch begins and ends.

| crash | on restart |
|---|---|
| before the decision file | what was prepared is aborted, the batch runs again |
| after it | the handles in it are committed again before anything is read, the batch is not read again |
| after the note that it is committed | nothing to do |

Of a decided batch only rows that the sink gave up meanwhile are read again (`cdc.flow.lost`).
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
"""Where a batch begins and ends, with the batch numbers (`cdc.offsets`). Raises StateError when nobody knows."""
RunTasks = Callable[[], Sequence[TaskResult]]
"""Runs the prepare tasks of the batch at hand. Raises what stopped them, as a CdcError."""


class BatchRunner:
    """Runs batches, one after the other. `error` holds what stopped the run, also where a caller cannot see it raised.

    Driver; the same object for the whole run.
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
        """The error that stopped a commit, else a batch: the batch behind a commit that failed is interrupted."""
        return self._commits.error or self._error

    @property
    def commit_failed(self) -> bool:
        """Whether it is a commit that has failed: its batch is decided."""
        return self._commits.error is not None

    def finish(self) -> None:
        """Wait for the commit under way. Driver, at the end of the run; what it failed with is in `error`."""
        self._commits.wait()

    def restart(self) -> None:
        """Forget what stopped a batch, which is to run again: it begins as the first batch of a run does.

        Driver, when no batch is running. What a commit failed with stays.
        """
        self._commits.wait()
        self._error, self._begun = None, False

    def recover(self) -> None:
        """Commit what an earlier run decided and did not get to. Driver, before the query starts; repeatable.

        Raises StateError when a decision is about other offsets than were logged.
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
        """Run one batch: it is decided when this returns. Raises CdcError; then nothing of it is decided."""
        try:
            self._run(batch, run_tasks)
        except Exception as error:
            self._error = self._finish.explain(as_cdc_error(error))
            if self._error is error:
                raise
            raise self._error from error

    def _run(self, batch: int, run_tasks: RunTasks) -> None:
        decided = self._log.get(batch)
        if decided is not None:  # a replay: what was decided when the run started is committed
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
        self._apply.note_decided(derived)
        phases = {"schema": applied - began, "tasks": prepared - applied, "decide": time.monotonic() - prepared}
        crash_point("after-decide", batch)
        self._source.store_reports(decision.reports)
        results.append(TaskResult(counts=dict(derived.counts)))
        account = BatchAccount(started, derived.operations, results, phases)
        self._progress.step = "is committed"
        finish = partial(self._finish.run, decision, self._finish.under_user_names(decision), account)
        self._commits.start(decision, finish)

    def _begin(self, batch: int) -> None:
        """First batch of a run: remove what an earlier run prepared for it, learn the tables and schemas there are."""
        self._tasks.abort(batch)
        before = self._log.get(batch - 1)
        self._apply.begin(batch, 0 if before is None else before.tables)
        self._begun = True

    def _decide(self, batch: int, start: Offset, end: Offset, results: list[TaskResult]) -> Decision:
        """The decision on a batch, which is on disk."""
        handles = (handle for result in results for handle in result.prepared)
        reports = tuple(report for result in results for report in result.reports)
        noted = tuple(result.noted for result in results if result.noted)
        prepared = tuple(sorted(handles, key=_by_partition))
        decision = Decision(batch, start, end, prepared, reports, tables=self._apply.entries, noted=noted)
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
