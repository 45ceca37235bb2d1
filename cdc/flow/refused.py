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
    RenameColumns,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.sink import Sink
from cdc.source import Snapshots, Source
from cdc.state.directory import StateDir
from cdc.tables.states import Pair

_ALTERS = (AddColumn, AlterColumnType, AlterPrimaryKey, AlterTableComment, DropColumn, RenameColumn, RenameColumns)
_WITH_COPY = (*_ALTERS, CreateShadow, SwapShadow, DropShadow, TruncateTable)


_START_ANEW = "start anew with an empty --state-dir and sink table, or leave the table out"
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


class RefusedChanges:
    """Carries changes out one by one. A refused one leads to a copy of its table, or is left out. A `Tolerance`.

    | refused | with try_evolve | with other behaviors |
    |---|---|---|
    | a change of a key | the table is copied, else the run stops | the same |
    | another change | it is left out, rows are fitted to the table that there is | as a change of a key |

    A table is copied where its source does that unasked, or where the user has asked for it (`cdc resync`).
    """

    def __init__(
        self, sink: Sink, routes: RouteStage, source: Source, state: StateDir, *, leaves_out: bool = False
    ) -> None:
        """`leaves_out`: what is refused may be left out, as with try_evolve."""
        self._sink, self._routes, self._source, self._leaves_out = sink, routes, source, leaves_out
        self._attempts, self._changes = Attempts(state.store, self), tuple[SchemaChange, ...]()
        self._way_out = ""

    def apply(self, batch: int, changes: Sequence[SchemaChange], apply: Apply) -> Sequence[SchemaChange]:
        """The changes carried out. Raises ChangeRefused for one that stops the run. Repeatable."""
        if self._sink.shadows and not self._leaves_out:
            changes = settled(changes)
        self._changes, self._way_out = tuple(changes), _LEAVE_OUT
        try:
            done, refused = self._attempts.apply(batch, self._routes.before, changes, apply)
        except ChangeRefused as error:
            raise self._with_way_out(error) from error
        except EngineError as error:
            if not self._leaves_out or type(error) is not EngineError:
                raise
            raise self._with_way_out(ChangeRefused(error.message, where=error.where)) from error
        tables = {change.table for change in refused if self._needs_copy(change)}
        copied = [change for change in refused if change.table in tables]
        left_out = [change for change in refused if change.table not in tables]
        if left_out:
            self._routes.only(batch, done, left_out)
        if copied:
            self._wait_for_copies(batch, done, copied)
        return done

    def _wait_for_copies(self, batch: int, done: Sequence[SchemaChange], refused: Sequence[SchemaChange]) -> None:
        """Tables of refused changes wait for snapshots, which are ordered with that."""
        pairs: list[Pair] = []
        for table in sorted({change.table for change in refused}):
            source = self._routes.only_source(table)
            if source is not None:
                pairs.append((source, table))
        self._routes.wait(batch, done, refused, pairs)

    def without(self, change: SchemaChange, refused: Sequence[SchemaChange]) -> bool:
        """All that follows a refused change of the table goes with its copy."""
        return any(before.table == change.table and self._needs_copy(before) for before in refused)

    def tolerates(self, change: SchemaChange, error: ChangeRefused | EngineError) -> bool:
        """Whether a copy is the way out, or the change may be left out."""
        if self._leaves_out and not isinstance(change, AlterPrimaryKey):
            return True
        source = self._curable_source(change, error)
        always = source is not None and self._source.snapshots(source) is Snapshots.ALWAYS
        if source is not None and (always or self._routes.is_requested(change.table)):
            return True
        resync = "" if source is None else f"run `cdc resync FILE {source}`, which copies it as the server has it"
        leave = _START_ANEW if isinstance(change, AlterPrimaryKey) else _LEAVE_OUT
        self._way_out = "; or ".join(filter(None, (resync, leave)))
        return False

    def _needs_copy(self, refused: SchemaChange) -> bool:
        """Whether the table of a refused change is copied for it."""
        return not self._leaves_out or isinstance(refused, AlterPrimaryKey)

    def _curable_source(self, change: SchemaChange, error: ChangeRefused | EngineError) -> TableId | None:
        """The source table whose copy would have the change behind it, as far as it is copied when it is asked for."""
        table, sink = change.table, self._sink
        curable = error.curable if isinstance(error, ChangeRefused) else self._leaves_out
        if not curable or not sink.shadows or isinstance(change, CreateShadow | SwapShadow):
            return None  # another snapshot would come to the same operation again
        if not all(_is_copied_with(other) for other in self._changes if other.table == table):
            return None
        source = self._routes.only_source(table)
        if source is None or self._source.snapshots(source) is Snapshots.NEVER:
            return None
        return source if self._is_there(table) else None

    def _is_there(self, table: TableId) -> bool:
        return not self._sink.missing_tables([table])

    def _with_way_out(self, error: ChangeRefused) -> ChangeRefused:
        """The error of a run that stops, with the step that lets it go on, whatever the sink says of it."""
        hint = "; or ".join(filter(None, (error.hint, self._way_out)))
        return ChangeRefused(error.message, where=error.where, hint=hint, curable=error.curable)
