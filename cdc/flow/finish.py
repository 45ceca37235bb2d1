"""The last step of a batch, once it is committed: documents that nobody needs any more go, and it is reported."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc.flow.copying import shadow_tables
from cdc.flow.offsets import source_offset
from cdc.flow.progress import BatchReport, Progress
from cdc.flow.splits import SplitLog
from cdc.flow.task import TaskResult
from cdc.schema import SchemaChange
from cdc.sink import Prepared, Sink
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.transform import answers, at_work


@dataclass(frozen=True, slots=True)
class BatchAccount:
    """The account of a batch up to its decision.

    Attributes:
        started: by `time.monotonic`.
        changes: carried out in the sink.
        results: of its tasks.
        phases: seconds of the driver's steps.
    """

    started: float
    changes: Sequence[SchemaChange] = ()
    results: Sequence[TaskResult] = ()
    phases: Mapping[str, float] = field(default_factory=dict)


class FinishStep:
    """Finishes batches in order, in the thread that commits them."""

    def __init__(self, sink: Sink, state: StateDir, progress: Progress) -> None:
        self._sink, self._state, self._progress = sink, state, progress
        self._log, self._splits, self._tables = CommitLog(state.commits), SplitLog(state.splits), TableLog(state.store)

    def named(self, decision: Decision) -> Sequence[Prepared]:
        """The handles under the names that users know: those of a shadow table under its table's. Driver."""
        tables = {handle.table for handle in decision.prepared}
        shadows = shadow_tables(self._sink, tables, self._tables.at(decision.batch).sink)
        return [replace(handle, table=shadows.get(handle.table, handle.table)) for handle in decision.prepared]

    def run(
        self,
        decision: Decision,
        named: Sequence[Prepared],
        account: BatchAccount,
        counts: Mapping[str, int],
        commit_s: float,
    ) -> None:
        """Finish a batch; `counts` is what its commit counted, `commit_s` how long that took."""
        batch = decision.batch
        self._log.prune(batch)
        self._splits.prune(batch)
        answers.prune(self._state.answers, batch)
        at_work.prune(self._state.answers, batch)
        duration_s, phases = time.monotonic() - account.started, {**account.phases, "commit": commit_s}
        position = source_offset(decision.end)
        self._progress.end(
            BatchReport.of(batch, named, account.changes, account.results, duration_s, counts, phases, position)
        )
