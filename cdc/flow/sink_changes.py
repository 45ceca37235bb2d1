"""From the changes of source tables to those of sink tables: routes, merged schemas, behaviors. Pure; driver.

A sink table that one source table goes to gets its changes, as the behavior says. One that several go to has the merged
schema of them (`cdc.evolution.merge`): it gets what each change makes wider, through the same behavior. Columns that
one of its tables renames or drops stay for the others, and so do all rows when one of them is truncated or dropped. It
stays a merged table when only one of them is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change, apply_changes
from cdc.evolution.behavior import Behavior, Policy, behave, told
from cdc.evolution.merge import find
from cdc.flow.pausing import Pausing, TableRequest
from cdc.flow.sink_schemas import Part
from cdc.flow.sink_tables import Held, Sides, with_shard
from cdc.route import RouteTable, Target
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
    TableSchema,
    TruncateTable,
)


@dataclass(frozen=True)
class Derived:
    """What the changes of a batch come to.

    Attributes:
        changes: to be carried out in the sink, in order.
        after: the tables behind them.
        held: what is held back, in order.
        wanted: source tables that are to be copied, as another one of their sink table is (`cdc.flow.together`).
        renamed: names that source tables got while they waited for a copy.
    """

    changes: tuple[SchemaChange, ...]
    after: Sides
    held: tuple[Held, ...]
    wanted: tuple[TableId, ...] = ()
    renamed: frozenset[TableId] = frozenset()

    @property
    def expected(self) -> Sequence[CreateTable]:
        """Tables that are not created and have to be there, with those of their columns that outlast the changes."""
        found = []
        for held in self.held:
            last = self.after.sinks.get(held.table)
            if held.expected is not None and last is not None:
                columns = tuple(column for column in held.expected.columns if find(last, column.name) is not None)
                found.append(CreateTable(held.table, TableSchema(columns)))
        return found


def derived(
    route: RouteTable,
    policy: Policy,
    before: Sides,
    changes: Sequence[SchemaChange],
    copies: Callable[[TableId], bool] | None = None,
    requests: Sequence[TableRequest] = (),
    touched: Iterable[TableId] = (),
) -> Derived:
    """Everything that the changes, behind the requests, mean for the sink, given the tables before them.

    `copies`: whether the source copies a source table when it is asked; None where the sink copies none beside another.
    `touched`: sink tables whose copies, where they are under way, begin anew.

    Raises ChangeRefused for what must not be carried out, EngineError for a change that does not fit its table.
    """
    work = _Work(route, policy, before, copies)
    for table in touched:
        work.copy_again(table)
    work.move(before.marks.routes)
    work.settle()
    for request in requests:
        work.ask(request)
    for change in changes:
        work.take(change)
    return Derived(tuple(work.out), work.after(), tuple(work.held), tuple(work.wanted), frozenset(work.renamed))


_COPIED = (Part.BEGUN, Part.WHOLE)


class _Work(Pausing):
    """Takes changes one after another."""

    def take(self, change: SchemaChange) -> None:
        """One change of a source table."""
        self._statement = change.statement
        if isinstance(change, RenameTable):
            self._rename(change)
            return
        after = apply_change(self.sources.get(change.table), change)
        targets = self._route.targets(change.table)
        if isinstance(change, CreateTable):
            self._join(change.table)
        if isinstance(change, CreateShadow):
            self._answered(change.table)
        for target in targets:
            source = None if after is None else with_shard(after, target)
            if after is None and target.table in self.merged and self._policy.mirrors:
                self.left.add((change.table, target.table))  # unless they go with it
            if not self._waits(change, target.table, source):
                self._target(change, target, source)
            if after is None:
                self._no_part(change.table, target.table)
        if after is None:
            self._leave(change.table)
            self.sources.pop(change.table, None)
        else:
            self.sources[change.table] = after

    def _target(self, change: SchemaChange, target: Target, source: TableSchema | None) -> None:
        table, there = target.table, self.sinks.get(target.table)
        if isinstance(change, CreateTable):
            assert source is not None, "a created table has a schema"
            self._create(replace(change, table=table, schema=source), change.table, there)
            self._comes_back(change.table, table, there)
        elif there is None:
            self._hold(table, f"{told(change)}: the sink has no such table")
        elif isinstance(change, CreateShadow):
            assert source is not None, "a table that is copied has a schema"
            self._copy(change, target, there, source)
        elif isinstance(change, SwapShadow):
            self._copied(change, table)
        elif isinstance(change, DropShadow):  # the source does not follow the table any more
            self.over.discard((change.table, table))
            self._no_part(change.table, table)
        elif table in self.merged:
            self._shared(change, target, there, source)
        elif isinstance(change, TruncateTable) and change.copied:
            self._emit(replace(change, table=table))
        else:
            self._behave(self._named(change, target), there, source)
            if not isinstance(change, AlterTableComment):  # an edited rule's: the source begins a copy anew for its own
                self._follow_copy(change.table, table, there, Part.WANTED)

    def _named(self, change: SchemaChange, target: Target) -> SchemaChange:
        """The change with the sink's table, and its key with the shard column."""
        if isinstance(change, AlterPrimaryKey) and target.shard_column is not None and change.primary_key:
            change = replace(change, primary_key=(*change.primary_key, target.shard_column))
        return replace(change, table=target.table)

    # one of several tables

    def _shared(self, change: SchemaChange, target: Target, there: TableSchema, source: TableSchema | None) -> None:
        table = target.table
        if self._policy.behavior is Behavior.EXCEPTION:
            behave(self._policy, replace(change, table=table), there, source)
        whose = f"{told(change)} of {change.table}"
        match change:
            case TruncateTable(copied=True) if self._copied_together(change.table, table):
                self._copy_all(table, change.table, Part.WHOLE)
                return
            case TruncateTable(copied=True):
                self._check_written_over(change.table, table, there)
                return
            case TruncateTable() | DropTable() if target.shard_gone == "delete" and self._policy.mirrors:
                self._without(change.table, table, whose, None if source is None else Part.WHOLE)
                return
            case TruncateTable() | DropTable():
                if isinstance(change, TruncateTable) and self.together.get((change.table, table)) in _COPIED:
                    self._copy_all(table, change.table, Part.WHOLE)
                self._hold(table, f"{whose}: its rows stay, other tables go there too")
                return
            case AlterTableComment():
                return
            case RenameColumn(old_name=old_name, new_name=new_name):
                self._hold(table, f"{whose}: {old_name} stays for other tables, {new_name} is a column of its own")
            case DropColumn(name=name):
                self._hold(table, f"{whose}: {name} stays for other tables, NULL for this one")
            case AddColumn(column=column) if column.default is not None:
                rows = "rows of the other tables get its default {!r} too"
                if find(there, column.name) is not None:
                    rows = "its rows that are there keep what they have, not the default {!r}"
                self._hold(table, f"{whose}: {rows.format(column.default)}")
            case _:
                pass
        assert source is not None, "a table that changes has a schema"
        self._check_key(change.table, table, there, source)
        if isinstance(change, RenameColumns):
            self._exchange(change, table, there, source)
            return
        copied = change.column.name if isinstance(change, AlterColumnType) and change.copied else ""
        added = change.column.name if isinstance(change, AddColumn) else ""
        self._widen(table, there, source, copied, added)
        self._follow_copy(change.table, table, there, Part.WANTED)

    def _exchange(self, change: RenameColumns, table: TableId, there: TableSchema, source: TableSchema) -> None:
        """Columns of one of several tables exchange names: its rows cannot be told from those of the others."""
        self._widen(table, there, source)
        if self._copied_together(change.table, table):
            self._copy_all(table, change.table, Part.WANTED)
            return
        raise ChangeRefused(
            f"{told(change)} of {change.table}: its rows that are there would have the values under the other names, "
            "and cannot be told from those of other tables",
            where=str(table),
            hint="write evolve, with a source that copies tables: all that go there are copied anew; or route this "
            "table to another one",
        )

    # tables that are copied anew

    def _without(self, source: TableId, table: TableId, whose: str, part: Part | None) -> None:
        """The rows of one of several tables are gone: the sink's table begins anew with those of the others."""
        if not self._members.get(table, set()) - {source}:
            self._emit(TruncateTable(table))
        elif self._copied_together(source, table):
            self._copy_all(table, source, part)
        else:
            self._hold(table, f"{whose}: its rows stay, not all tables that go there can be copied anew")

    def _copy(self, change: CreateShadow, target: Target, there: TableSchema, source: TableSchema) -> None:
        """The copy replaces the sink's table where that mirrors this one; else it is written over the rows."""
        table = target.table
        if table not in self.merged and (self._policy.mirrors or not there.primary_key):
            copy = replace(change, table=table, schema=None if change.schema is None else source)
            self._begin_alone(change.table, copy)
            return
        if table in self.merged and self._copied_together(change.table, table):
            self._copy_merged(change, table, there, source)
            return
        self._check_written_over(change.table, table, there)
        self.over.add((change.table, table))
        if change.schema is not None:
            self._check_key(change.table, table, there, source)
            self._widen(table, there, source)

    def _copy_merged(self, change: CreateShadow, table: TableId, there: TableSchema, source: TableSchema) -> None:
        if change.schema is not None:
            self._check_key(change.table, table, there, source)
            self._widen(table, there, source)
        if self.together.get((change.table, table)) is Part.WANTED and self.sinks[table] == there:
            self._take_part((change.table, table), Part.BEGUN)
        else:
            self._copy_all(table, change.table, Part.BEGUN)

    def _copied(self, change: SwapShadow, table: TableId) -> None:
        pair = change.table, table
        if self.together.get(pair) is Part.BEGUN:
            self._take_part(pair, Part.WHOLE)
            self._finish(table)
        elif pair in self.together:
            return  # an earlier copy, which does not count any more
        elif pair in self.over:
            self.over.discard(pair)
        elif table in self.merged:
            self._hold(table, f"table.copied of {change.table}: other tables go there by now, it is copied once more")
            self.waiting.add(pair)
        else:
            self._emit(SwapShadow(table))

    def _check_written_over(self, source: TableId, table: TableId, there: TableSchema) -> None:
        if not there.primary_key:
            others = ", ".join(map(str, self._not_copied(source, table))) or "all that go to it"
            ways = f"take {others} in again, all are copied then; or leave" if self._policy.mirrors else "leave"
            raise ChangeRefused(
                f"{source} is to be copied anew, and its rows cannot be told from those of other tables",
                where=str(table),
                hint=f"several tables without a key go there: {ways} this one out (tables.exclude), its rows stay",
            )
        alone = self._not_copied(source, table) if self._policy.mirrors and self._copies is not None else []
        why = f", as {alone[0]} cannot be copied with it" if alone else ""
        self._hold(
            table, f"copy.table of {source}: it is written over the rows that are there, those gone from it stay{why}"
        )

    # names of tables

    def _rename(self, change: RenameTable) -> None:
        old, new = self._route.targets(change.table), self._route.targets(change.new_table)
        schema = self.sources.get(change.table)
        for index in range(max(len(old), len(new))):
            before, after = (each[index] if index < len(each) else None for each in (old, new))
            self._rename_target(change, before, after, schema)
            self._rename_marks(change, before, after)
        self._leave(change.table)
        self.sources = apply_changes(self.sources, [change])
        self._join(change.new_table)

    def _rename_target(
        self, change: RenameTable, old: Target | None, new: Target | None, schema: TableSchema | None
    ) -> None:
        if old == new and (new is None or new.shard_column is None):
            return
        if new is None or schema is None:
            assert old is not None, "a source table has a sink table"
            self._hold(
                old.table, f"rename.table {change.table} to {change.new_table}: its rows stay, it goes elsewhere"
            )
            return
        renamed = None if old is None else RenameTable(old.table, new.table)
        stays = self._stays(old, new)
        if renamed is not None and not stays and self._policy.behavior is not Behavior.IGNORE:
            if self._policy.behavior is Behavior.EXCEPTION:
                behave(self._policy, renamed, self.sinks[renamed.table], schema)
            if self._policy.allows(renamed):
                self._emit(renamed)
                return
        told_rename = f"rename.table {change.table} to {change.new_table}"
        if stays and self._policy.exact:
            raise ChangeRefused(
                f"{told_rename}: {stays}, so its rows cannot follow",
                where=str(new.table),
                hint="route both names to one sink table; or write lenient, and copy it anew with cdc resync",
            )
        where = f" in {old.table}" if old is not None and old != new else ""
        self._hold(new.table, f"{told_rename}: the rows that are there stay{where}, {stays or 'renames are left out'}")
        if self.sinks.get(new.table) is None or old != new:
            self._joined_create(change, new, schema)

    def _joined_create(self, change: RenameTable, new: Target, schema: TableSchema) -> None:
        if self._members.get(new.table, set()) - {change.table}:
            self.merged.add(new.table)
        create = CreateTable(new.table, with_shard(schema, new))
        there = self.sinks.get(new.table)
        self._create(create, change.new_table, there)
        self._follow_copy(change.new_table, new.table, there, Part.WHOLE)

    def _stays(self, old: Target | None, new: Target) -> str:
        """Why the rows of a renamed table stay where they are; empty when the sink's table can be renamed."""
        if old is None or old.table not in self.sinks:
            return "there is no table to rename"
        if old.shard_column is not None or new.shard_column is not None:
            return "they hold the old name in the shard column"
        if old.table in self.merged:
            return f"other tables go to {old.table} too"
        return f"{new.table} is there already" if new.table in self.sinks else ""
