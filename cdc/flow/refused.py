"""Re-snapshots tables whose schema changes the sink refuses, into a shadow table with the new schema. Driver.

    refused change --> skipped, with all later changes of its table in the batch
                   --> the table is suspended (`cdc.tables`) and a snapshot of it is requested
    later batch    --> the snapshot fills a shadow table with the new schema, which is then swapped in

Readers see the unchanged table until the swap. Changes of the whole table (drop, rename, truncate) later in the batch
are applied first (`table_changes_first`). The run stops instead for a sink table that several source tables are routed
to, that has rows or columns which the source no longer has, or that somebody has dropped in the sink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from cdc.errors import ChangeRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior
from cdc.evolution.order import table_changes_first
from cdc.flow.attempt import Apply, Attempts, undo_renames
from cdc.flow.derive import Derivation, Derived
from cdc.flow.middle import Middle
from cdc.flow.refusal_judge import RefusalJudge
from cdc.schema import CreateShadow, DropShadow, SchemaChange
from cdc.schema_json import change_name
from cdc.sink import Sink
from cdc.source import Source
from cdc.state.store import Store
from cdc.tables.machine import suspend_refused
from cdc.tables.states import NO_MEMBER, PairState, TableState


class RefusedChanges:
    """Applies a batch's changes; a refused one is skipped or replaced by a snapshot, as `RefusalJudge` decides."""

    def __init__(self, sink: Sink, source: Source, middle: Middle, derivation: Derivation, store: Store) -> None:
        self._sink, self._source, self._middle, self._derivation = sink, source, middle, derivation
        self._skips = middle.policy.behavior is Behavior.TRY_EVOLVE
        self._store = store

    def apply(self, derived: Derived, apply: Apply) -> Derived:
        """Apply the operations; return the batch with those that were applied, and write its tables to the log.

        Raises ChangeRefused for an operation that stops the run. Repeatable.
        """
        changes = derived.operations
        if self._sink.shadows:
            changes = table_changes_first(changes, derived.sinks_before)
        judge = RefusalJudge(self._sink, self._source, self._middle, derived.sinks_before, changes, derived.after)
        try:
            done, refused = Attempts(self._store, judge).apply(derived.batch, derived.sinks_before, changes, apply)
        except ChangeRefused as error:
            raise _with_hint(error, judge) from error
        except EngineError as error:
            if not self._skips or type(error) is not EngineError:
                raise
            raise _with_hint(ChangeRefused(error.message, where=error.where), judge) from error
        if not refused:
            return replace(derived, operations=done)
        found = self._only_carried_out(derived, done, refused, judge)
        if dropped := self._drops_of_unfilled(derived, found, refused):
            apply(dropped)
            found = replace(found, operations=[*done, *dropped])
        return found

    def undo_renames(self, derived: Derived, apply: Apply) -> None:
        """Undo renames of earlier tries of the batch that the edited file no longer has, or has of other tables.

        Repeatable. Raises EditRefused if one cannot be undone, what `apply` raises.
        """
        for renames in derived.undone:
            undo_renames(self._store, derived.batch, renames, self._sink.missing_tables, apply)

    def _only_carried_out(
        self, derived: Derived, done: Sequence[SchemaChange], refused: Sequence[SchemaChange], judge: RefusalJudge
    ) -> Derived:
        """The batch with only the operations that were applied; tables that need a snapshot are suspended."""
        suspended = {
            table: source
            for table in sorted({change.table for change in refused if judge.needs_snapshot(change)})
            if (source := judge.only_source(table)) is not None
        }
        tables = suspend_refused(self._derivation.circumstances(derived.batch), derived.after.tables, suspended)
        sinks = apply_changes(derived.sinks_before, done)
        pairs = {pair: _with_sink(record, pair[1] in sinks, derived.batch) for pair, record in tables.pairs.items()}
        states = {
            table: state if table in sinks else replace(state, shadowed=False, shadow=None)
            for table, state in tables.states.items()
        }
        after = derived.after.with_tables(replace(tables, sinks=sinks, pairs=pairs, states=states))
        self._derivation.rewrite(derived.batch, after)
        counts = derived.counts + Counter(f"refused-by-sink {change_name(each)} {each.table}" for each in refused)
        return replace(derived, operations=done, after=after, counts=counts)

    def _drops_of_unfilled(self, derived: Derived, found: Derived, refused: Sequence[SchemaChange]) -> list[DropShadow]:
        """Drops of shadow tables that no snapshot fills any more, because a change of their table was skipped."""
        created = {each.table for each in derived.operations if isinstance(each, CreateShadow)}
        before, after, existing = derived.before.tables, found.after.tables, found.after.sink
        unfilled = {each.table for each in refused if each.table in existing} if self._sink.shadows else set()
        had = {table for table in unfilled if table in created or before.sink_state(table).shadowed}
        return [DropShadow(table) for table in sorted(had) if not after.sink_state(table).shadowed]


def _with_hint(error: ChangeRefused, judge: RefusalJudge) -> ChangeRefused:
    """The error with the judge's next step added to its hint."""
    hint = "; or ".join(filter(None, (error.hint, judge.hint)))
    return ChangeRefused(error.message, where=error.where, hint=hint, resnapshot_helps=error.resnapshot_helps)


def _with_sink(record: PairState, there: bool, batch: int) -> PairState:
    """The state of a pair: MISSING if the sink has refused to create its table."""
    if there or record.state in NO_MEMBER or record.state is TableState.MISSING:
        return record
    return PairState(TableState.MISSING, batch)
