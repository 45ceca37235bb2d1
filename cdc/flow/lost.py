"""Recovery of decided rows that the sink lost before they were committed: read again, or dropped. Driver.

| a table of the batch | what is done |
|---|---|
| nothing is committed from some partition on | those partitions are read again for it, prepared under new names |
| all its source tables are re-snapshotted since (`cdc resync`) | its rows are dropped: the snapshot is newer |
| unknown if it is committed, it lacks batches, or the log is purged | the run stops; the error names the `cdc resync` |

Committed rows are never prepared twice: the handles of other tables and of earlier partitions stay. The new handles
replace the lost ones in the decision at once, before any of them is committed. After a crash before that, the same is
repeated under the same names.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from cdc.errors import CdcError, LoadsLost, SinkError, StateError
from cdc.flow.shadow_tables import names_of
from cdc.flow.task import PrepareTask
from cdc.flow.task_result import TaskResult
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from cdc.source import Snapshots, Split
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.splits import SplitLog
from cdc.tables.log import TableLog
from cdc.tables.requests import Mailbox, snapshots_requested
from cdc.tables.states import ABSENT, OPEN_ORDERS, SNAPSHOTTED, PairState

log = logging.getLogger(__name__)


class LostLoads:
    """Replaces lost rows in a decision. `task` is copied for each use: another thread may be using its source."""

    def __init__(self, task: PrepareTask, state: StateDir, retry: RetryPolicy) -> None:
        self._task, self._state, self._retry = task, state, retry
        self._splits, self._log = SplitLog(state.splits), CommitLog(state.commits)
        self._mailbox = Mailbox(state.store)

    def decide_without(self, decision: Decision, error: LoadsLost) -> Decision:
        """Write and return the decision to continue with. Runs in the commit thread; repeatable after a crash.

        Raises LoadsLost with the next step if the rows cannot be recovered, errors of the sink, and retryable errors of
        the source.
        """
        ordered = self._re_snapshotted(decision)
        freed = ordered & {*error.tables, *error.uncertain}
        again = {table: first for table, first in error.tables.items() if table not in freed}
        if not again and not freed:
            why = f"rows of batch {decision.batch} are not written again"
            raise self._final_error(decision, error, error.uncertain, why)
        task = pickle.loads(pickle.dumps(self._task))
        try:
            results = self._read(task, decision, again, error)
        finally:
            task.source.stop()
        prepared = [handle for result in results for handle in result.prepared]
        noted = (*decision.noted, *(result.noted for result in results if result.noted))
        first = {**again, **{table: error.tables.get(table, 0) for table in freed}}
        valid = [item for item in decision.prepared if item.partition < first.get(str(item.table), item.partition + 1)]
        handles = sorted([*valid, *prepared], key=lambda item: item.partition)
        new = replace(decision, prepared=tuple(handles), generation=decision.generation + 1, noted=noted)
        self._log.decide(new)
        self._state.notes.forget_decided(new.batch, new.noted)
        for table in sorted(freed):
            log.warning("batch %d: rows of %s are dropped, as it is re-snapshotted", decision.batch, table)
        return new

    def _re_snapshotted(self, decision: Decision) -> set[str]:
        """Names of the sink tables all of whose source tables have a snapshot after this decision."""
        requested = snapshots_requested(self._mailbox)
        tables, found = TableLog(self._state.store).at(self._log.last()).tables, set[str]()
        for table in tables.sinks:
            members = self._members(table)
            later = {source for source in members if source in requested}
            later |= {
                source for source in members if _is_later(tables.pairs.get((source, table), ABSENT), decision.batch)
            }
            if later and (later == {*members} or self._task.middle.re_snapshots_all(self._task.source, members)):
                found.update(names_of(self._task.sink, table))
        return found

    def _members(self, sink_table: TableId) -> Sequence[TableId]:
        """The source tables that are routed to a sink table, as of the last decision."""
        routes = self._task.middle.routes
        schemas = TableLog(self._state.store).at(self._log.last()).rules
        return sorted(source for source in schemas if sink_table in routes(source))

    def _read(
        self, task: PrepareTask, decision: Decision, again: dict[str, int], error: LoadsLost
    ) -> Sequence[TaskResult]:
        """Read tables again; return results with new handles."""
        if not again:
            return ()
        log.warning("batch %d: rows of %s are read again: %s", decision.batch, ", ".join(sorted(again)), error.message)
        try:
            return [self._prepared(task, decision, split, tables) for split, tables in self._parts(decision, again)]
        except CdcError as failed:
            if failed.retryable or isinstance(failed, SinkError):
                raise
            tables = [*again, *error.uncertain]
            raise self._final_error(decision, error, tables, f"they cannot be read again: {failed}") from failed

    def _parts(self, decision: Decision, again: dict[str, int]) -> list[tuple[Split, frozenset[str]]]:
        """The splits with lost rows, each with the tables concerned. Raises StateError if the splits are not stored."""
        splits: dict[int, set[str]] = {}
        for item in decision.prepared:
            if item.partition >= again.get(str(item.table), item.partition + 1):
                splits.setdefault(item.partition, set()).add(str(item.table))
        stored = {split.index: split for split in self._splits.load(decision.batch, decision.start, decision.end)}
        if not splits.keys() <= stored.keys():
            raise StateError("the splits of the batch are no longer stored", where=self._state.splits.where())
        return [(stored[index], frozenset(tables)) for index, tables in sorted(splits.items())]

    def _prepared(self, task: PrepareTask, decision: Decision, split: Split, tables: Collection[str]) -> TaskResult:
        only = partial(task, decision.batch, split, generation=decision.generation + 1, only=tables)
        result = self._retry.call(only, f"batch {decision.batch}: reading lost rows again")
        result.raise_error()
        if result.reports:  # the source has stored the reports of the first reading
            where = ", ".join(sorted(tables))
            raise StateError("they are from a snapshot, which would read other rows now", where=where)
        return result

    def _final_error(self, decision: Decision, error: LoadsLost, tables: Sequence[str], why: str) -> LoadsLost:
        """The error for rows that cannot be recovered; its hint names the source tables for `cdc resync`."""
        names = self._source_tables(decision)
        sources = [source for table in sorted(tables) for source in names.get(table, [TableId.parse(table)])]
        commands = ", ".join(f"`cdc resync FILE {source}`" for source in sources)
        remedy = f"re-snapshot each table: {commands}; then start again, which drops these rows"
        if all(self._task.source.snapshots(source) is Snapshots.NEVER for source in sources):
            remedy = "start over with an empty --state-dir: this source cannot snapshot single tables"
        return LoadsLost(
            f"{error.message}; {why}",
            where=error.where,
            hint=f"{remedy}; {error.hint}" if error.hint else remedy,
            tables=error.tables,
            uncertain=error.uncertain,
        )

    def _source_tables(self, decision: Decision) -> dict[str, list[TableId]]:
        """The source tables of each sink table, by the names of the sink table and its shadow table."""
        log = TableLog(self._state.store)
        tables = {*log.at(decision.batch - 1).source, *log.at(decision.batch).source}
        sink, routes = self._task.sink, self._task.middle.routes
        found: dict[str, list[TableId]] = {}
        for table in sorted(tables):
            for to in routes(table):
                sources = [*self._members(to)] or [table]
                found.update(dict.fromkeys(names_of(sink, to), sources))
        return found


def _is_later(pair: PairState, batch: int) -> bool:
    """Whether a snapshot of the pair is requested, or has begun after the batch."""
    return pair.ordered or pair.state in OPEN_ORDERS or (pair.state in SNAPSHOTTED and pair.since > batch)
