"""Schema changes that the sink refuses, of tables that it can have anew: they are copied as they are to be. Driver.

    refused change --> left out, with all that follow it in the batch for its table
                   --> the table is suspended (`cdc.tables`), a snapshot of it is ordered
    later batch    --> the snapshot fills a shadow table with the new schema, which takes its place

What happens to the table as a whole later in the batch comes first (`whole_tables_first`): it may have no rows then, or
another name. Readers find the table as it was until then. Not so a table that several source tables go to, one that
keeps rows or columns that the source does not have any more, and one that somebody has dropped in the sink: those stop
the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile

from cdc.errors import ChangeRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior
from cdc.evolution.order import ALTERATIONS, whole_tables_first
from cdc.flow.attempt import Apply, Attempts
from cdc.flow.derive import Derivation, Derived
from cdc.flow.middle import Middle
from cdc.route import Target
from cdc.schema import (
    AlterPrimaryKey,
    CreateShadow,
    DropShadow,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.schema_json import change_name
from cdc.sink import Sink
from cdc.source import Snapshots, Source
from cdc.state.store import Store
from cdc.tables import events as on
from cdc.tables.entry import TableViews
from cdc.tables.machine import Machine
from cdc.tables.sinks import with_shard
from cdc.tables.states import NO_MEMBER, OPEN_ORDERS, SNAPSHOTTED, PairState, TableState

_WITH_COPY = (*ALTERATIONS, CreateShadow, SwapShadow, DropShadow, TruncateTable)


_START_ANEW = "start anew with an empty --state-dir and sink table, or leave the table out"
_LEAVE_OUT = "write schema.change.behavior: try_evolve, which leaves changes out that the sink refuses"


def _is_copied_with(change: SchemaChange) -> bool:
    """Whether a copy of the table has the change behind it; also one that another copy begins or ends with."""
    return isinstance(change, _WITH_COPY)


class RefusedChanges:
    """Carries changes out one by one. A refused one leads to a snapshot of its table, or is left out. A `Tolerance`.

    | refused | with try_evolve | with other behaviors |
    |---|---|---|
    | a change of a key | the table is snapshotted again, else the run stops | the same |
    | another change | it is left out, rows are fitted to the table that there is | as a change of a key |

    A table is snapshotted where its source does that unasked, or where the user has asked for it (`cdc resync`).
    """

    def __init__(self, sink: Sink, source: Source, middle: Middle, derivation: Derivation, store: Store) -> None:
        self._sink, self._source, self._middle, self._derivation = sink, source, middle, derivation
        self._leaves_out = middle.policy.behavior is Behavior.TRY_EVOLVE
        self._attempts = Attempts(store, self)
        self._changes, self._after = tuple[SchemaChange, ...](), TableViews()
        self._way_out = ""

    def apply(self, derived: Derived, apply: Apply) -> Derived:
        """The batch with the operations that the sink has carried out, and the tables behind them, which the log has.

        Raises ChangeRefused for one that stops the run. Repeatable.
        """
        changes = derived.operations
        if self._sink.shadows and not self._leaves_out:
            changes = whole_tables_first(changes)
        self._changes, self._after, self._way_out = tuple(changes), derived.after, _LEAVE_OUT
        try:
            done, refused = self._attempts.apply(derived.batch, derived.sinks_before, changes, apply)
        except ChangeRefused as error:
            raise self._with_way_out(error) from error
        except EngineError as error:
            if not self._leaves_out or type(error) is not EngineError:
                raise
            raise self._with_way_out(ChangeRefused(error.message, where=error.where)) from error
        if not refused:
            return replace(derived, operations=done)
        found = self._without(derived, done, refused)
        if dropped := self._dropped(derived, found, refused):
            apply(dropped)
            found = replace(found, operations=[*done, *dropped])
        return found

    def undo_renames(self, derived: Derived, apply: Apply) -> None:
        """Give tables their names back that earlier tries of the batch have renamed, by a file that was edited since.

        Raises EditRefused where that cannot be, what `apply` raises. Repeatable.
        """
        for renames in derived.undone:
            self._attempts.undo(derived.batch, renames, self._sink.missing_tables, apply)

    def _without(self, derived: Derived, done: Sequence[SchemaChange], refused: Sequence[SchemaChange]) -> Derived:
        """The batch of which only these operations were carried out; tables that need it wait for a snapshot."""
        machine = Machine(self._derivation.circumstances(derived.batch), derived.after.tables)
        for table in sorted({change.table for change in refused if self._needs_copy(change)}):
            source = self._only_source(table)
            if source is not None:
                machine.handle(on.ChangeRefused(source, Target(table), "a change of its schema", curable=True))
        tables = machine.outcome().after
        sinks = apply_changes(derived.sinks_before, done)
        pairs = {pair: _with_sink(record, pair[1] in sinks, derived.batch) for pair, record in tables.pairs.items()}
        after = derived.after.with_tables(replace(tables, sinks=sinks, pairs=pairs))
        self._derivation.rewrite(derived.batch, after)
        counts = derived.counts + Counter(f"refused-by-sink {change_name(each)} {each.table}" for each in refused)
        return replace(derived, operations=done, after=after, counts=counts)

    def _dropped(self, derived: Derived, found: Derived, refused: Sequence[SchemaChange]) -> list[DropShadow]:
        """Drops of shadow tables that nobody fills any more, as a change was refused or left out behind such a one."""
        begun = {each.table for each in derived.operations if isinstance(each, CreateShadow)}
        before, after, there = derived.before.tables, found.after.tables, found.after.sink
        left = {each.table for each in refused if each.table in there} if self._sink.shadows else set()
        had = {table for table in left if table in begun or before.sink_state(table).shadowed}
        return [DropShadow(table) for table in sorted(had) if not after.sink_state(table).shadowed]

    def without(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """All that follows a refused change of the table goes with its snapshot."""
        return any(before.table == change.table and self._needs_copy(before) for before in refused)

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """Whether a snapshot is the way out, or the change may be left out."""
        if self._leaves_out and not isinstance(change, AlterPrimaryKey):
            return True
        if isinstance(change, ALTERATIONS) and not self._is_followed(change):
            return True
        source = self._curable_source(change, error)
        always = source is not None and self._source.snapshots(source) is Snapshots.ALWAYS
        if source is not None and (always or self._is_requested(change.table)):
            return True
        resync = "" if source is None else f"run `cdc resync FILE {source}`, which copies it as the server has it"
        leave = _START_ANEW if isinstance(change, AlterPrimaryKey) else _LEAVE_OUT
        self._way_out = "; or ".join(filter(None, (resync, leave)))
        return False

    def _needs_copy(self, refused: SchemaChange) -> bool:
        """Whether the table of a refused change is snapshotted for it."""
        return not self._leaves_out or isinstance(refused, AlterPrimaryKey)

    def _is_requested(self, table: TableId) -> bool:
        """Whether a user has asked for a snapshot of a source table of this sink table, which is not done."""
        return any(
            place == table and (pair.ordered or (pair.by_user and pair.state in OPEN_ORDERS | SNAPSHOTTED))
            for (_, place), pair in self._after.tables.pairs.items()
        )

    def _is_followed(self, change: SchemaChange) -> bool:
        """Whether a source table goes to the table of a change behind the batch, by the name that it has there."""
        table = change.table
        for later in dropwhile(lambda other: other is not change, self._changes):
            if isinstance(later, RenameTable) and later.table == table:
                table = later.new_table
        pairs = self._after.tables.pairs
        return any(place == table and pair.state not in NO_MEMBER for (_, place), pair in pairs.items())

    def _curable_source(self, change: SchemaChange, error: ChangeRefused | EngineError) -> TableId | None:
        """The source table whose snapshot would have the change behind it, as far as one is taken when it is asked."""
        table, sink = change.table, self._sink
        curable = error.curable if isinstance(error, ChangeRefused) else self._leaves_out
        if not curable or not sink.shadows or isinstance(change, CreateShadow | SwapShadow):
            return None  # another snapshot would come to the same operation again
        if not all(_is_copied_with(other) for other in self._changes if other.table == table):
            return None
        source = self._only_source(table)
        if source is None or self._source.snapshots(source) is Snapshots.NEVER:
            return None
        return source if self._is_there(table) else None

    def _only_source(self, table: TableId) -> TableId | None:
        """The one source table of a sink table that can be replaced by a snapshot of it.

        None where others go or went there, where it is to stay as it is, and where it has columns that the source table
        does not have any more.
        """
        if self._middle.policy.behavior is Behavior.IGNORE or self._after.tables.sink_state(table).merged:
            return None
        sources, routes = self._after.rules, self._middle.routes
        found = [(source, each) for source in sources for each in routes.targets(source) if each.table == table]
        if len(found) != 1:
            return None
        source, target = found[0]
        names = {name.casefold() for name in with_shard(sources[source], target).names}
        there = self._after.sink.get(table)
        kept = there is not None and {name.casefold() for name in there.names} <= names
        return source if kept else None

    def _is_there(self, table: TableId) -> bool:
        return not self._sink.missing_tables([table])

    def _with_way_out(self, error: ChangeRefused) -> ChangeRefused:
        """The error of a run that stops, with the step that lets it go on, whatever the sink says of it."""
        hint = "; or ".join(filter(None, (error.hint, self._way_out)))
        return ChangeRefused(error.message, where=error.where, hint=hint, curable=error.curable)


def _with_sink(record: PairState, there: bool, batch: int) -> PairState:
    """The record of a pair whose sink table is there or is not, as the sink has refused to create it."""
    if there or record.state in NO_MEMBER or record.state is TableState.MISSING:
        return record
    return PairState(TableState.MISSING, batch)
