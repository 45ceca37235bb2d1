"""Decides what follows from a schema change that the sink refuses: skip it, re-snapshot the table, or stop. Driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import dropwhile

from cdc.errors import ChangeRefused, EngineError
from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior
from cdc.evolution.order import ALTERATIONS
from cdc.flow.middle import Middle
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
from cdc.sink import Sink
from cdc.source import Snapshots, Source
from cdc.tables.entry import TableViews
from cdc.tables.sinks import with_shard
from cdc.tables.states import NO_MEMBER, OPEN_ORDERS, SNAPSHOTTED, Schemas, TableState

_IN_SNAPSHOT = (*ALTERATIONS, CreateShadow, SwapShadow, DropShadow, TruncateTable)


_START_OVER = "start over with an empty --state-dir and sink table, or exclude the table"
_SKIP = "write schema.change.behavior: try_evolve, which skips changes that the sink refuses"


def _is_in_snapshot(change: SchemaChange) -> bool:
    """Whether a snapshot of the table includes the change, or replaces it (a step of another snapshot)."""
    return isinstance(change, _IN_SNAPSHOT)


class RefusalJudge:
    """Judges the refused changes of one batch.

    | refused | with try_evolve | with other behaviors |
    |---|---|---|
    | a change of the key | the table is re-snapshotted; where that is impossible, the run stops | the same |
    | another change | it is skipped, and rows are coerced to the table as it is | as a change of the key |

    Dropping or renaming a column of the key changes the key. A table is re-snapshotted if its source does so
    automatically, or if the user has requested it (`cdc resync`).

    `hint` is the user's next step for the last change that was not tolerated.
    """

    def __init__(
        self,
        sink: Sink,
        source: Source,
        middle: Middle,
        before: Schemas,
        changes: Sequence[SchemaChange],
        after: TableViews,
    ) -> None:
        """`changes` are all changes of the batch, in order; `before` is the sink's tables, `after` all after them."""
        self._sink, self._source, self._middle = sink, source, middle
        self._before, self._changes, self._after, self.hint = before, changes, after, _SKIP
        self._skips = middle.policy.behavior is Behavior.TRY_EVOLVE

    def can_skip(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """Whether the snapshot of the table, due to an earlier refused change, makes this change unnecessary."""
        after_refused = any(before.table == change.table and self.needs_snapshot(before) for before in refused)
        return after_refused and _is_in_snapshot(change)

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """Whether a refused change may be skipped or a snapshot replaces it. EngineError: it follows a skipped one."""
        if self._skips and not self._is_of_a_key(change):
            return True
        if isinstance(change, ALTERATIONS) and not self._is_followed(change):
            return True
        source = self._resnapshotted_source(change, error)
        always = source is not None and self._source.snapshots(source) is Snapshots.ALWAYS
        if source is not None and (always or self._is_requested(change.table)):
            return True
        resync = "" if source is None else f"run `cdc resync FILE {source}`, which snapshots it as the server has it"
        merged = self._after.tables.sink_state(change.table).merged
        over = _START_OVER if merged or self._is_of_a_key(change) else ""
        skip = "" if self._is_of_a_key(change) else _SKIP
        self.hint = "; or ".join(filter(None, (resync, over, skip)))
        return False

    def needs_snapshot(self, refused: SchemaChange) -> bool:
        """Whether the table of a refused change is re-snapshotted for it."""
        return not self._skips or self._is_of_a_key(refused)

    def _is_of_a_key(self, change: SchemaChange) -> bool:
        return any(change is each for each in self._of_keys)

    @cached_property
    def _of_keys(self) -> Sequence[SchemaChange]:
        return list(_of_keys(self._before, self._changes))

    def _is_requested(self, table: TableId) -> bool:
        """Whether a user-requested snapshot of a source table of this sink table is pending or running."""
        return any(
            sink_table == table and (pair.ordered or (pair.by_user and pair.state in OPEN_ORDERS | SNAPSHOTTED))
            for (_, sink_table), pair in self._after.tables.pairs.items()
        )

    def _is_followed(self, change: SchemaChange) -> bool:
        """Whether a source table is routed to the changed table after the batch, under the name it has by then."""
        table = change.table
        for later in dropwhile(lambda other: other is not change, self._changes):
            if isinstance(later, RenameTable) and later.table == table:
                table = later.new_table
        pairs = self._after.tables.pairs
        return any(sink_table == table and pair.state not in NO_MEMBER for (_, sink_table), pair in pairs.items())

    def _resnapshotted_source(self, change: SchemaChange, error: ChangeRefused | EngineError) -> TableId | None:
        """The source table whose re-snapshot would include the change, None if there is none or it cannot be taken."""
        table, sink = change.table, self._sink
        resnapshot_helps = error.resnapshot_helps if isinstance(error, ChangeRefused) else self._skips
        if not resnapshot_helps or not sink.shadows or isinstance(change, CreateShadow | SwapShadow):
            return None  # another snapshot would come to the same operation again
        following = dropwhile(lambda other: other is not change, self._changes)
        if not all(_is_in_snapshot(other) for other in following if other.table == table):
            return None
        source = self.only_source(table)
        if source is None or self._source.snapshots(source) is Snapshots.NEVER:
            return None
        return None if sink.missing_tables([table]) else source

    def only_source(self, table: TableId) -> TableId | None:
        """The only source table of a sink table that a snapshot of it may replace.

        None if other source tables are or were routed there, if the behavior is `ignore`, and if the sink table has
        columns that the source table no longer has, unless a pending or running snapshot removes those in any case.
        """
        if self._middle.policy.behavior is Behavior.IGNORE or self._after.tables.sink_state(table).merged:
            return None
        sources, routes = self._after.rules, self._middle.routes
        found = [(source, each) for source in sources for each in routes.targets(source) if each.table == table]
        if len(found) != 1:
            return None
        source, target = found[0]
        if self._after.tables.state((source, table)) is TableState.SUSPENDED:
            return source
        names = {name.casefold() for name in with_shard(sources[source], target).names}
        schema = self._after.tables.sink_state(table).shadow or self._after.sink.get(table)
        covered = schema is not None and {name.casefold() for name in schema.names} <= names
        return source if covered else None


def _of_keys(schemas: Schemas, changes: Sequence[SchemaChange]) -> Iterator[SchemaChange]:
    """Yield the changes that give a table another key, also by dropping or renaming a column of it."""
    for change in changes:
        after = apply_changes(schemas, [change])
        keys = [tables[change.table].primary_key for tables in (schemas, after) if change.table in tables]
        if isinstance(change, AlterPrimaryKey) or (isinstance(change, ALTERATIONS) and keys[0] != keys[1]):
            yield change
        schemas = after
