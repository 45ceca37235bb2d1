"""Schema changes that the sink refuses, of tables that it can have anew: they are copied as they are to be. Driver.

    refused change --> left out, with all that follow it in the batch for its table
                   --> rows and changes of the table wait (`RouteStage.wait`), the source is asked for a copy
    later batch    --> the copy begins beside the table, with the new schema, and takes its place when it is whole

What happens to the table as a whole later in the batch comes first (`settled`): it may have no rows then, or another
name. Readers find the table as it was until then. Not so a table that several source tables go to, one that keeps rows
or columns that the source does not have any more, and one that somebody has dropped in the sink: those stop the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc.errors import ChangeRefused, EngineError
from cdc.flow.asking import Asking
from cdc.flow.attempt import Apply, Attempts
from cdc.flow.route_stage import RouteStage
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CreateShadow,
    CreateTable,
    DropColumn,
    DropShadow,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.sink import Confirms, CopiesBeside, Sink
from cdc.state.store import Store

_ALTERS = (AddColumn, AlterColumnType, AlterPrimaryKey, AlterTableComment, DropColumn, RenameColumn)
_WITH_COPY = (*_ALTERS, CreateShadow, SwapShadow, DropShadow, TruncateTable)


_LEAVE_OUT = "write schema.change.behavior: try_evolve, which leaves changes out that the sink refuses"


def _is_copied_with(change: SchemaChange) -> bool:
    """Whether a copy of the table has the change behind it; also one that another copy begins or ends with."""
    return isinstance(change, _WITH_COPY)


def settled(changes: Sequence[SchemaChange]) -> list[SchemaChange]:
    """The changes of a batch with those of a table's columns behind what happens to it as a whole; pure.

    No row stands between them, so they come to the same: a table that is dropped, or renamed and then copied with a
    schema of its own, need not be altered or copied before (what is altered may be a column that only the copy was to
    have), one that is emptied or renamed can be altered after it. Others keep their places.
    """
    found: list[tuple[int, SchemaChange]] = []
    waiting: dict[TableId, list[tuple[int, SchemaChange]]] = {}
    for place, change in enumerate(changes):
        if isinstance(change, _ALTERS):
            waiting.setdefault(change.table, []).append((place, change))
            continue
        before = waiting.pop(change.table, [])
        if isinstance(change, DropTable) or (isinstance(change, CreateShadow) and change.schema is not None):
            found = _without_alters(found, change)
        found.append((place, change))
        if isinstance(change, RenameTable):
            moved = [(place, replace(other, table=change.new_table)) for _, other in before]
            waiting.setdefault(change.new_table, []).extend(moved)
        elif isinstance(change, TruncateTable) and not change.copied:
            waiting[change.table] = [(place, other) for _, other in before]
        elif not isinstance(change, DropTable):
            found += before
    for rest in waiting.values():
        found += rest
    return [change for _, change in sorted(found, key=lambda entry: entry[0])]


def _without_alters(
    found: Sequence[tuple[int, SchemaChange]], last: DropTable | CreateShadow
) -> list[tuple[int, SchemaChange]]:
    """Without what altered the columns of this table, or began a copy of it, under the names that it had.

    That is, back to where it began; of a table that is copied only what is under another name.
    """
    kept: list[tuple[int, SchemaChange]] = []
    name: TableId | None = last.table
    dropped = isinstance(last, DropTable)
    for place, change in sorted(found, key=lambda entry: entry[0])[::-1]:  # those of one place turned round, too
        under_it = change.table == name
        if under_it and isinstance(change, (*_ALTERS, CreateShadow)) and (dropped or name != last.table):
            continue
        kept.append((place, change))
        if isinstance(change, RenameTable) and change.new_table == name:
            name = change.table
        elif under_it and isinstance(change, (CreateTable, RenameTable)):
            name = None  # what comes before is another table's
    return kept[::-1]


def _with_way_out(error: ChangeRefused) -> ChangeRefused:
    """What stops the run names what lets it go on, whatever the sink says of it."""
    hint = "; or " * bool(error.hint) + _LEAVE_OUT
    return ChangeRefused(error.message, where=error.where, hint=f"{error.hint}{hint}", curable=error.curable)


class RefusedChanges:
    """Carries changes out, one after the other, and has tables copied whose changes are refused. A `Tolerance`."""

    def __init__(self, sink: Sink, routes: RouteStage, asking: Asking, store: Store) -> None:
        self._sink, self._routes, self._asking = sink, routes, asking
        self._attempts = Attempts(store, self)
        self._batch, self._changes = -1, tuple[SchemaChange, ...]()

    def apply(self, batch: int, changes: Sequence[SchemaChange], apply: Apply) -> Sequence[SchemaChange]:
        """What was carried out. Raises ChangeRefused for what stops the run, what `apply` raises. Repeatable."""
        changes = settled(changes) if isinstance(self._sink, CopiesBeside) else changes
        self._batch, self._changes = batch, tuple(changes)
        try:
            done, refused = self._attempts.apply(batch, self._routes.before, changes, apply)
        except ChangeRefused as error:
            raise _with_way_out(error) from error
        if not refused:
            return done
        tables = sorted({change.table for change in refused})
        sources = {table: source for table in tables if (source := self._routes.only_source(batch, table)) is not None}
        reason = "the sink does not take a change of its schema"
        self._asking.ask(batch, sources.values(), reason, asked=False)
        self._routes.wait(batch, done, refused, [(source, table) for table, source in sources.items()])
        return done

    def without(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """All that follows a refused change of the table goes with its copy."""
        return any(before.table == change.table for before in refused)

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """Whether a copy is the way out."""
        table = change.table
        if not isinstance(error, ChangeRefused) or not error.curable or not isinstance(self._sink, CopiesBeside):
            return False
        if not all(_is_copied_with(other) for other in self._changes if other.table == table):
            return False
        source = self._routes.only_source(self._batch, table)
        return source is not None and self._asking.possible(source) and self._is_there(table)

    def _is_there(self, table: TableId) -> bool:
        return not isinstance(self._sink, Confirms) or not self._sink.missing([table])
