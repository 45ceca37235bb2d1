"""One batch: apply -> prepare -> decide -> commit. Driver.

Who drives it (Spark's foreachBatch, or a loop in one process) hands in what runs the batch's prepare tasks, and where a
batch begins and ends.

| crash | on restart |
|---|---|
| before the decision file | what was prepared is aborted, the batch runs again |
| after it | the handles in it are committed again before anything is read, the batch is not read again |
| after the note that it is committed | nothing to do |

Of a decided batch only rows that the sink gave up meanwhile are read again (`cdc.flow.lost`).

The commit goes on while the next batch is prepared (`cdc.flow.commits`); schema changes wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from cdc.errors import CdcError, StateError, WorkerLost
from cdc.faults import reached
from cdc.flow.apply import ApplyStep
from cdc.flow.commits import Commits, known
from cdc.flow.copying import shadow_tables
from cdc.flow.derive import Derived
from cdc.flow.lost import LostLoads
from cdc.flow.middle import Middle
from cdc.flow.offsets import source_offset
from cdc.flow.progress import BatchReport, Progress
from cdc.flow.splits import SplitLog
from cdc.flow.task import PrepareTask, TaskResult
from cdc.retry import Backoff, RetryPolicy
from cdc.schema import SchemaChange
from cdc.sink import Prepared, Sink
from cdc.source import Offset, Source
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.transform import answers, at_work

RunTasks = Callable[[], Sequence[TaskResult]]
"""Runs the prepare tasks of the batch at hand. Raises what stopped them, as a CdcError."""

BatchOffsets = Callable[[int], tuple[Offset, Offset]]
"""Where a batch begins and ends, with the batch numbers (`cdc.flow.offsets`). Raises StateError when nobody knows."""


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
        self._source, self._sink, self._state = source, sink, state
        self._log, self._offsets, self._progress = CommitLog(state.commits), offsets, progress
        task = PrepareTask(source, sink, middle, TableLog(state.store), state.answers, state.notes)
        self._commits = Commits(sink, self._log, retry, LostLoads(task, state, retry))
        self._splits, self._tables, self._retry = SplitLog(state.splits), TableLog(state.store), retry
        self._notes = state.notes
        self._step = ApplyStep(source, sink, middle, state, retry, self._commits.finish)
        self._recovered = False
        self._error: CdcError | None = None

    @property
    def error(self) -> CdcError | None:
        """The error that stopped a batch or its commit."""
        return self._error or self._commits.error

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
        self._error, self._recovered = None, False

    def recover(self) -> None:
        """Commit what an earlier run decided and did not get to. Driver, before the query starts; repeatable.

        Raises StateError when a decision is about other offsets than were logged.
        """
        for decision in self._log.uncommitted():
            self._check(decision)
            self._notes.decided(decision.batch, decision.noted)
            started = time.monotonic()
            self._tell_source(decision)
            prepared = self._named(decision)
            self._committed(decision, prepared, (), (), started, {}, self._commits.commit(decision))

    def __call__(self, batch: int, run_tasks: RunTasks) -> None:
        """Run one batch: it is decided when this returns. Raises CdcError; then nothing of it is decided."""
        try:
            self._run(batch, run_tasks)
        except Exception as error:
            self._error = known(error)
            if self._error is error:
                raise
            raise self._error from error

    def _run(self, batch: int, run_tasks: RunTasks) -> None:
        started = time.monotonic()
        decision = self._log.get(batch)
        if decision is not None:  # a replay: what was decided when the run started is committed
            self._check(decision)
            return
        self._progress.begin(batch)
        phases: dict[str, float] = {}
        decision, derived, results = self._prepare(batch, run_tasks, phases)
        reached("after-decide", batch)
        self._tell_source(decision)
        results.append(TaskResult(counts=dict(derived.counts)))
        changes = derived.operations
        self._commits.start(
            decision, partial(self._committed, decision, self._named(decision), changes, results, started, phases)
        )

    def _tell_source(self, decision: Decision) -> None:
        self._source.decided(decision.reports)

    def _named(self, decision: Decision) -> Sequence[Prepared]:
        """The handles under the names that users know: those of a shadow table under its table's."""
        tables = {handle.table for handle in decision.prepared}
        shadows = shadow_tables(self._sink, tables, self._tables.at(decision.batch).sink)
        return [replace(handle, table=shadows.get(handle.table, handle.table)) for handle in decision.prepared]

    def _committed(
        self,
        decision: Decision,
        prepared: Sequence[Prepared],
        changes: Sequence[SchemaChange],
        results: Sequence[TaskResult],
        started: float,
        phases: Mapping[str, float],
        counts: Mapping[str, int],
    ) -> None:
        """In the thread that commits."""
        self._log.prune(decision.batch)
        self._splits.prune(decision.batch)
        answers.prune(self._state.answers, decision.batch)
        at_work.prune(self._state.answers, decision.batch)
        duration_s = time.monotonic() - started
        spent = {**phases, "commit": self._commits.took_s}
        position = source_offset(decision.end)
        self._progress.end(
            BatchReport.of(decision.batch, prepared, changes, results, duration_s, counts, spent, position)
        )

    def _check(self, decision: Decision) -> None:
        if (decision.start, decision.end) != self._offsets(decision.batch):
            raise StateError(
                f"the decision on batch {decision.batch} is about other offsets than were logged for it",
                where=str(self._state.root),
                hint="a part of the folder was removed by hand; restore it, or start anew with another --state-dir",
            )

    def _prepare(
        self, batch: int, run_tasks: RunTasks, phases: dict[str, float]
    ) -> tuple[Decision, Derived, list[TaskResult]]:
        """Decide a batch; `phases` gets the seconds of its steps."""
        if not self._recovered:
            self._recover(batch)
        start, end = self._offsets(batch)
        began = time.monotonic()
        derived = self._step.run(batch, start, end)
        reached("before-prepare", batch)
        planned = time.monotonic()
        results = self._results(batch, run_tasks)
        ran = time.monotonic()
        for result in results:
            result.raise_error()
        reached("after-prepare", batch)
        handles = [handle for result in results for handle in result.prepared]
        reports = tuple(report for result in results for report in result.reports)
        noted, tables = tuple(result.noted for result in results if result.noted), self._step.entries
        decision = Decision(
            batch, start, end, tuple(sorted(handles, key=_by_partition)), reports, tables=tables, noted=noted
        )
        self._log.decide(decision)
        self._notes.decided(batch, decision.noted)
        self._step.decided(derived)
        phases.update(schema=planned - began, tasks=ran - planned, decide=time.monotonic() - ran)
        return decision, derived, results

    def _results(self, batch: int, run_tasks: RunTasks) -> list[TaskResult]:
        """The tasks' results, all of them run again after errors that may pass, for `retry-timeout` from the beginning.

        A task has tried again itself by then, and the engine has tried the task; so it may have taken longer already.
        """
        began, backoff = self._retry.clock(), Backoff(self._retry, f"batch {batch}")
        while True:
            try:
                return list(run_tasks())
            except WorkerLost:
                raise  # the query has to be started again
            except CdcError as error:
                late = self._retry.clock() - began >= self._retry.timeout_s
                if not error.retryable or late or not backoff.pause(str(error)):
                    raise
            self._commits.wait()
            self._retry.call(partial(self._abort, batch), f"clean-up of batch {batch}")

    def _abort(self, batch: int) -> None:
        self._state.store.check_held()
        undecided = self._notes.undecided(batch, self._log.committed())
        self._sink.abort(batch, undecided.values)
        self._notes.forget(undecided.names)

    def _recover(self, batch: int) -> None:
        """First batch of a run: remove what an earlier run prepared for it, learn the tables and schemas there are."""
        self._retry.call(partial(self._abort, batch), f"clean-up of batch {batch}")
        before = self._log.get(batch - 1)
        self._step.begin(batch, 0 if before is None else before.tables)
        self._recovered = True


def _by_partition(handle: Prepared) -> int:
    return handle.partition
