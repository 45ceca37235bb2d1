"""The first step of a batch: apply to the sink the schema changes that the source's events lead to. Driver.

    source events --> operations (`cdc.flow.derive`) --> checks --> sink.apply --> sink.announce

Every step is repeatable: a batch that runs again derives the same operations, and the sink knows which it has applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from cdc.events import SourceEvent
from cdc.evolution.apply import apply_changes
from cdc.flow.derive import Derivation, Derived
from cdc.flow.expected import check_existing_tables, check_expected
from cdc.flow.middle import Middle
from cdc.flow.refused import RefusedChanges
from cdc.flow.shadow_tables import changes_for
from cdc.offsets import source_offset
from cdc.process.faults import crash_point
from cdc.retry import RetryPolicy
from cdc.schema import RenameTable, SchemaChange, TableId
from cdc.sink import Announced, Sink
from cdc.source import Offset, Source
from cdc.state.directory import StateDir
from cdc.tables.states import Schemas


class ApplyStep:
    """Derives the schema changes of each batch and applies them to the sink, one batch after the other. Driver.

    Args:
        finish_commits: waits for the commit in flight; called before anything in the sink is changed.

    `derivation` has to begin before the first batch of a run.
    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        middle: Middle,
        state: StateDir,
        retry: RetryPolicy,
        finish_commits: Callable[[], None],
    ) -> None:
        self._source, self._sink, self._policy, self._retry = source, sink, middle.policy, retry
        self._store, self._finish_commits = state.store, finish_commits
        self.derivation = Derivation(middle, source, state.store, shadows=sink.shadows, holds_rows=self._holds_rows)
        self._with_rows: dict[TableId, bool] = {}
        self._refused = RefusedChanges(sink, source, middle, self.derivation, state.store)

    def run(self, batch: int, start: Offset, end: Offset) -> Derived:
        """Derive the batch between two offsets and apply its operations to the sink; return the outcome.

        Raises ChangeRefused for a change that the policy forbids or the sink refuses, other CdcErrors.
        """
        self._with_rows.clear()
        derived = self.derivation.derive(batch, self._events(start, end))
        crash_point("before-apply", batch)
        if derived.operations or derived.expected or any(derived.undone):
            self._finish_commits()
            undo = partial(self._refused.undo_renames, derived, partial(self._apply, batch))
            self._retry.call(undo, "schema changes")
            self._retry.call(partial(check_expected, self._sink, derived.expected), "schema changes")
        if derived.operations:
            derived = self._refused.apply(derived, partial(self._apply, batch))
            announced = list(_announced(derived.sinks_before, derived.operations))
            self._retry.call(partial(self._sink.announce, batch, announced), "schema changes")
        return derived

    def _events(self, start: Offset, end: Offset) -> Sequence[SourceEvent]:
        if source_offset(start) == source_offset(end):
            return ()
        return self._source.events(source_offset(start), source_offset(end))

    def _holds_rows(self, table: TableId) -> bool:
        """Whether a sink table has rows. Queried once per batch, and never while a commit writes to the sink."""
        if table not in self._with_rows:
            self._finish_commits()
            query = partial(self._sink.holds_rows, table)
            self._with_rows[table] = self._retry.call(query, "check of the sink's tables")
        return self._with_rows[table]

    def _apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Apply some of a batch's operations to the sink. Raises ChangeRefused, other CdcErrors."""
        self._retry.call(self._store.check_lease, "schema changes")
        self._retry.call(partial(check_existing_tables, self._sink, self._policy, changes), "schema changes")
        self._retry.call(partial(self._sink.apply, batch, changes_for(self._sink, changes)), "schema changes")


def _announced(tables: Schemas, changes: Sequence[SchemaChange]) -> Iterator[Announced]:
    """The changes as `Sink.announce` takes them; `tables` are the sink's tables before the changes."""
    for change in changes:
        after = apply_changes(tables, [change])
        table = change.new_table if isinstance(change, RenameTable) else change.table
        yield Announced(change, tables.get(change.table), after.get(table))
        tables = after
