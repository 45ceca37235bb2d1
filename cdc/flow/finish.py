"""The last step of a committed batch: remove state that is no longer needed and report the batch. Driver."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.errors import CdcError, StateError
from cdc.evolution.behavior import described
from cdc.flow.shadow_tables import explained, shadow_tables
from cdc.flow.task_result import TaskResult
from cdc.offsets import source_offset
from cdc.progress import BatchReport, Progress, TableTotals
from cdc.schema import SchemaChange, TableId
from cdc.sink import Prepared, Sink
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.splits import SplitLog
from cdc.tables.log import TableLog
from cdc.transform import answers


@dataclass(frozen=True, slots=True)
class BatchAccount:
    """The figures of a batch up to its decision.

    Attributes:
        started: when it began, by `time.monotonic`.
        changes: schema changes applied to the sink.
        results: of its tasks.
        phases: seconds per step of the driver.
    """

    started: float
    changes: Sequence[SchemaChange] = ()
    results: Sequence[TaskResult] = ()
    phases: Mapping[str, float] = field(default_factory=dict)


class FinishStep:
    """Finishes batches in order, in the thread that has committed them."""

    def __init__(self, sink: Sink, state: StateDir, progress: Progress) -> None:
        self._sink, self._state, self._progress = sink, state, progress
        self._log, self._splits, self._tables = CommitLog(state.commits), SplitLog(state.splits), TableLog(state.store)

    def under_user_names(self, decision: Decision) -> Sequence[Prepared]:
        """The handles with shadow tables replaced by their live tables, for reports. Driver."""
        tables = {handle.table for handle in decision.prepared}
        shadows = shadow_tables(self._sink, tables, self._tables.at(decision.batch).sink)
        return [replace(handle, table=shadows.get(handle.table, handle.table)) for handle in decision.prepared]

    def explain(self, error: CdcError) -> CdcError:
        """The error with an explanation of each shadow table that it names. Driver, any thread, once per error.

        Returned unchanged if the table log cannot be read.
        """
        try:
            known = TableLog(self._state.store).at(sys.maxsize).sink
        except StateError:
            return error
        return explained(error, self._sink, known)

    def run(
        self,
        decision: Decision,
        named: Sequence[Prepared],
        account: BatchAccount,
        counts: Mapping[str, int],
        commit_s: float,
    ) -> None:
        """Finish a batch; `counts` are those of its commit, `commit_s` the duration of the commit."""
        batch = decision.batch
        self._log.prune(batch)
        self._splits.prune(batch)
        answers.prune(self._state.answers, batch)
        duration_s, phases = time.monotonic() - account.started, {**account.phases, "commit": commit_s}
        position = source_offset(decision.end)
        self._progress.end(
            batch_report(batch, named, account.changes, account.results, duration_s, counts, phases, position)
        )


def batch_report(
    batch: int,
    prepared: Sequence[Prepared],
    changes: Sequence[SchemaChange],
    results: Sequence[TaskResult],
    duration_s: float,
    counted: Mapping[str, int] | None = None,
    phases: Mapping[str, float] | None = None,
    position: dict[str, Any] | None = None,
) -> BatchReport:
    """Sum up what the tasks prepared and the driver applied; `counted` are the counts of the commit.

    `phases` are the seconds per step of the driver; `tasks` is the time of all tasks.
    """
    tables: dict[TableId, TableTotals] = {}
    for handle in prepared:
        delta = TableTotals(handle.inserts, handle.updates, handle.deletes)
        tables[handle.table] = tables.get(handle.table, TableTotals()) + delta
    for change in changes:
        tables[change.table] = tables.get(change.table, TableTotals()) + TableTotals(schema_changes=1)
    counts: Counter[str] = Counter(counted or {})
    for reasons in (*(result.counts for result in results), *(handle.counts for handle in prepared)):
        counts.update(reasons)
    newest_ms, now = max((result.newest_ms for result in results), default=0), time.time()
    # The clock of this machine may be behind the server's.
    lag_s = max(0.0, now - newest_ms / 1000) if newest_ms else None
    read: Counter[str] = Counter()
    for result in results:
        read.update(result.read)
    return BatchReport(
        batch, tables, dict(counts), duration_s, now, lag_s, dict(read), _phases(phases or {}, results),
        tuple((str(change.table), described(change)) for change in changes), position,
        sum(result.bytes_read for result in results),
    )  # fmt: skip


def _phases(driver: Mapping[str, float], results: Sequence[TaskResult]) -> dict[str, float]:
    """The driver's phases, with those of the slowest task and `dispatch`, the time around it, instead of `tasks`."""
    slowest = max(results, key=lambda result: result.read_s, default=TaskResult())
    found = {name: seconds for name, seconds in driver.items() if name != "tasks"}
    if slowest.read_s:
        found |= {"dispatch": max(0.0, driver.get("tasks", 0.0) - slowest.read_s), **slowest.phases}
    return found
