"""One micro-batch: apply -> prepare -> decide -> commit. Driver, called by Spark's foreachBatch.

Collecting the batch's frame is what runs the prepare tasks: see `cdc.job.stream`.

| crash | on restart |
|---|---|
| before the decision file | what was prepared is aborted, the batch runs again |
| after it | the handles in it are committed again before anything is read, the batch is not read again |
| after the note that it is committed | nothing to do |

The commit goes on while the next batch is prepared (`cdc.job.commits`); schema changes wait for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from cdc.errors import CdcError, StateError
from cdc.faults import reached
from cdc.job.commits import Commits
from cdc.job.progress import BatchReport, Progress
from cdc.job.routing import RouteGuard
from cdc.job.stream import BATCH_KEY, source_offset
from cdc.job.task import Route, TaskResult
from cdc.job.wire import recover
from cdc.schema import RenameTable, SchemaChange
from cdc.sink import Prepared, Sink
from cdc.source import Offset, Source
from cdc.state import CommitLog, Decision, StateDir


class BatchRunner:
    """The callable given to foreachBatch. `error` holds what stopped the run, as Spark only passes on its text."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        route: Route,
        guard: RouteGuard,
        state: StateDir,
        progress: Progress,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._source, self._sink, self._route, self._guard, self._state = source, sink, route, guard, state
        self._log, self._progress = CommitLog(state.root), progress
        self._commits = Commits(sink, self._log, sleep)
        self._recovered = False
        self._error: CdcError | None = None

    @property
    def error(self) -> CdcError | None:
        """What stopped a batch or its commit."""
        return self._error or self._commits.error

    def finish(self) -> None:
        """Wait for the commit under way. Driver, at the end of the run; what it failed with is in `error`."""
        self._commits.wait()

    def recover(self) -> None:
        """Commit what an earlier run decided and did not get to. Driver, before the query starts; repeatable.

        Raises StateError when a decision is about other offsets than Spark's log.
        """
        for decision in self._log.uncommitted():
            self._check(decision)
            started = time.monotonic()
            self._source.decided(decision.reports)
            self._committed(decision, (), (), started, self._commits.commit(decision))

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Run one batch; Spark logs it as done when this returns, and stops the query when it raises."""
        try:
            self._run(frame, batch)
        except CdcError as error:
            self._error = error
            raise
        except Exception as error:
            self._error = recover(error)
            raise self._error from error

    def _run(self, frame: DataFrame, batch: int) -> None:
        started = time.monotonic()
        decision = self._log.get(batch)
        if decision is not None:  # a replay: what was decided when the run started is committed
            self._check(decision)
            return
        self._progress.begin(batch)
        decision, changes, results = self._prepare(frame, batch)
        reached("after-decide", batch)
        self._source.decided(decision.reports)
        self._commits.start(decision, partial(self._committed, decision, changes, results, started))

    def _committed(
        self,
        decision: Decision,
        changes: Sequence[SchemaChange],
        results: Sequence[TaskResult],
        started: float,
        counts: Mapping[str, int],
    ) -> None:
        """In the thread that commits."""
        self._log.prune(decision.batch)
        duration_s = time.monotonic() - started
        self._progress.end(BatchReport.of(decision.batch, decision.prepared, changes, results, duration_s, counts))

    def _check(self, decision: Decision) -> None:
        if (decision.start, decision.end) != self._offsets(decision.batch):
            raise StateError(
                f"the decision on batch {decision.batch} is about other offsets than Spark's log",
                where=str(self._state.root),
                hint="a part of the folder was removed by hand; restore it, or start anew with another --state-dir",
            )

    def _prepare(self, frame: DataFrame, batch: int) -> tuple[Decision, Sequence[SchemaChange], list[TaskResult]]:
        if not self._recovered:
            self._recover(batch)
        start, end = self._offsets(batch)
        changes = self._changes(start, end)
        reached("before-apply", batch)
        if changes:
            self._commits.settle()
            self._sink.apply(changes)
        reached("before-prepare", batch)
        results = [TaskResult.from_json(row[0]) for row in frame.collect()]
        for result in results:
            result.raise_error()
        reached("after-prepare", batch)
        handles = [handle for result in results for handle in result.prepared]
        reports = tuple(report for result in results for report in result.reports)
        decision = Decision(batch, start, end, tuple(sorted(handles, key=_by_partition)), reports)
        self._log.decide(decision)
        return decision, changes, results

    def _recover(self, batch: int) -> None:
        """First batch of a run: remove what an earlier run prepared for it, learn which tables there are already."""
        self._sink.abort(batch)
        first = self._state.initial_offset()
        if first is not None:
            start, _ = self._offsets(batch)
            self._guard.check(self._source.schema_changes(source_offset(first), source_offset(start)))
        self._recovered = True

    def _changes(self, start: Offset, end: Offset) -> list[SchemaChange]:
        changes = self._source.schema_changes(source_offset(start), source_offset(end))
        self._guard.check(changes)
        return [routed(change, self._route) for change in changes]

    def _offsets(self, batch: int) -> tuple[Offset, Offset]:
        end = logged_offset(self._state.checkpoint, batch)
        start = logged_offset(self._state.checkpoint, batch - 1) if batch > 0 else self._state.initial_offset()
        if start is None or end is None or end.get(BATCH_KEY) != batch + 1:
            raise StateError(
                f"the offsets of batch {batch} are missing or of another batch",
                where=str(self._state.checkpoint),
                hint="the folder was changed by hand; restore it, or start anew with another --state-dir",
            )
        return start, end


def _by_partition(handle: Prepared) -> int:
    return handle.partition


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


def routed(change: SchemaChange, route: Route) -> SchemaChange:
    """The change as the sink sees it: with the sink's table names."""
    if isinstance(change, RenameTable):
        return RenameTable(route(change.table), route(change.new_table))
    return replace(change, table=route(change.table))
