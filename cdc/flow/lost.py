"""Decided rows that the sink gave up before they were committed: read again under the same decision, or let go.

| a table of the batch | what is done |
|---|---|
| nothing of it is in since some partition | those partitions are read again for it alone, prepared under new names |
| a copy of all that go there was asked for since (`cdc resync`) | its rows of the batch are let go: the copy is later |
| whether it is in is not known, or the log has lost it | the run stops, names the table and the copy as the way out |

What is committed is not prepared a second time: the handles of other tables and of earlier partitions stay as they
are. The new handles replace the lost ones in the decision at once, before any of them is committed. A crash before
that leaves the old decision, and the same is done again under the same names. Driver.
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
    """Makes a decision whole again. `task` is copied for each use, as its source may be at work elsewhere."""

    def __init__(self, task: PrepareTask, state: StateDir, retry: RetryPolicy) -> None:
        self._task, self._state, self._retry = task, state, retry
        self._splits, self._log = SplitLog(state.splits), CommitLog(state.commits)
        self._mailbox = Mailbox(state.store)

    def decide_without(self, decision: Decision, error: LoadsLost) -> Decision:
        """The decision to go on with, on disk already. In the thread that commits; repeatable after a crash.

        Raises LoadsLost with the way out when that cannot be, what the sink raises, and retryable errors of the source.
        """
        ordered = self._ordered_again(decision)
        freed = ordered & {*error.tables, *error.uncertain}
        again = {table: first for table, first in error.tables.items() if table not in freed}
        if not again and not freed:
            raise self._final_error(decision, error, error.uncertain, "whether they are in it is not known")
        task = pickle.loads(pickle.dumps(self._task))
        try:
            results = self._read(task, decision, again, error)
        finally:
            task.source.stop()
        made = [handle for result in results for handle in result.prepared]
        noted = (*decision.noted, *(result.noted for result in results if result.noted))
        first = {**again, **{table: error.tables.get(table, 0) for table in freed}}
        kept = [item for item in decision.prepared if item.partition < first.get(str(item.table), item.partition + 1)]
        handles = sorted([*kept, *made], key=lambda item: item.partition)
        new = replace(decision, prepared=tuple(handles), generation=decision.generation + 1, noted=noted)
        self._log.decide(new)
        self._state.notes.forget_decided(new.batch, new.noted)
        for table in sorted(freed):
            log.warning("batch %d: rows of %s are let go, it is re-snapshotted", decision.batch, table)
        return new

    def _ordered_again(self, decision: Decision) -> set[str]:
        """The sink's tables whose rows of a decision a later snapshot brings, of all source tables that go there."""
        requested = snapshots_requested(self._mailbox)
        tables, found = TableLog(self._state.store).at(self._log.last()).tables, set[str]()
        for table in tables.sinks:
            members = self._members(table)
            later = {source for source in members if source in requested}
            later |= {
                source for source in members if _is_later(tables.pairs.get((source, table), ABSENT), decision.batch)
            }
            if later and (later == {*members} or self._task.middle.snapshots_all_again(self._task.source, members)):
                found.update(names_of(self._task.sink, table))
        return found

    def _members(self, sink_table: TableId) -> Sequence[TableId]:
        """The source tables that go to a sink table, as far as batches were decided."""
        routes = self._task.middle.routes
        there = TableLog(self._state.store).at(self._log.last()).rules
        return sorted(source for source in there if sink_table in routes(source))

    def _read(
        self, task: PrepareTask, decision: Decision, again: dict[str, int], error: LoadsLost
    ) -> Sequence[TaskResult]:
        """Results with new handles for the tables that are read again."""
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
        """The splits with lost rows, and whose rows of each are lost. Raises StateError when they are not there."""
        wanted: dict[int, set[str]] = {}
        for item in decision.prepared:
            if item.partition >= again.get(str(item.table), item.partition + 1):
                wanted.setdefault(item.partition, set()).add(str(item.table))
        stored = {split.index: split for split in self._splits.load(decision.batch, decision.start, decision.end)}
        if not wanted.keys() <= stored.keys():
            raise StateError("how the batch was cut is not there any more", where=self._state.splits.where())
        return [(stored[index], frozenset(tables)) for index, tables in sorted(wanted.items())]

    def _prepared(self, task: PrepareTask, decision: Decision, split: Split, tables: Collection[str]) -> TaskResult:
        only = partial(task, decision.batch, split, generation=decision.generation + 1, only=tables)
        result = self._retry.call(only, f"batch {decision.batch}: reading lost rows again")
        result.raise_error()
        if result.reports:  # the source has been told of the first reading, and goes by that
            raise StateError("they are of a copy, which reads other rows now", where=", ".join(sorted(tables)))
        return result

    def _final_error(self, decision: Decision, error: LoadsLost, tables: Sequence[str], why: str) -> LoadsLost:
        """The error of a run that cannot help itself; it names the source's tables, as `cdc resync` does."""
        names = self._source_tables(decision)
        sources = [source for table in sorted(tables) for source in names.get(table, [TableId.parse(table)])]
        commands = ", ".join(f"`cdc resync FILE {source}`" for source in sources)
        way = f"ask for a copy of each: {commands}; then start again, which lets go of these rows"
        if all(self._task.source.snapshots(source) is Snapshots.NEVER for source in sources):
            way = "start over with an empty --state-dir: this source cannot copy single tables"
        return LoadsLost(
            f"{error.message}; {why}",
            where=error.where,
            hint=f"{way}; {error.hint}" if error.hint else way,
            tables=error.tables,
            uncertain=error.uncertain,
        )

    def _source_tables(self, decision: Decision) -> dict[str, list[TableId]]:
        """The source's tables of each sink table, by names."""
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
    """Whether a snapshot of the pair begins behind a batch, or has begun there."""
    return pair.ordered or pair.state in OPEN_ORDERS or (pair.state in SNAPSHOTTED and pair.since > batch)
