"""From the changes of source tables to those of sink tables: routes, merged schemas, behaviors. Pure; driver.

A sink table that one source table goes to gets its changes, as the behavior says. One that several go to has the merged
schema of them (`cdc.evolution.merge`): it gets what each change makes wider, through the same behavior. Columns that
one of its tables renames or drops stay for the others, and so do all rows when one of them is truncated or dropped. It
stays a merged table when only one of them is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change, apply_changes
from cdc.evolution.behavior import Behavior, Policy, behave, told
from cdc.evolution.merge import find
from cdc.flow.pausing import Pausing, TableRequest
from cdc.flow.route import RouteTable, Target
from cdc.flow.sink_tables import Held, Sides, with_shard
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CopyTable,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableCopied,
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
    """

    changes: tuple[SchemaChange, ...]
    after: Sides
    held: tuple[Held, ...]


def derived(
    route: RouteTable,
    policy: Policy,
    before: Sides,
    changes: Sequence[SchemaChange],
    requests: Sequence[TableRequest] = (),
) -> Derived:
    """Everything that the changes, behind the requests, mean for the sink, given the tables before them.

    Raises ChangeRefused for what must not be carried out, EngineError for a change that does not fit its table.
    """
    work = _Work(route, policy, before)
    work.move(before.marks.routes)
    for request in requests:
        work.ask(request)
    for change in changes:
        work.take(change)
    return Derived(tuple(work.out), work.after(), tuple(work.held))


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
        for target in targets:
            source = None if after is None else with_shard(after, target)
            if not self._waits(change, target.table, source):
                self._target(change, target, source)
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
        elif there is None:
            self._hold(table, f"{told(change)}: the sink has no such table")
        elif isinstance(change, CopyTable):
            assert source is not None, "a table that is copied has a schema"
            self._copy(change, target, there, source)
        elif isinstance(change, TableCopied):
            self._copied(change, table)
        elif table in self.merged:
            self._shared(change, table, there, source)
        elif isinstance(change, TruncateTable) and change.copied:
            self._emit(replace(change, table=table))
        else:
            self._behave(self._named(change, target), there, source)

    def _named(self, change: SchemaChange, target: Target) -> SchemaChange:
        """The change with the sink's table, and its key with the shard column."""
        if isinstance(change, AlterPrimaryKey) and target.shard_column is not None and change.primary_key:
            change = replace(change, primary_key=(*change.primary_key, target.shard_column))
        return replace(change, table=target.table)

    # one of several tables

    def _shared(self, change: SchemaChange, table: TableId, there: TableSchema, source: TableSchema | None) -> None:
        if self._policy.behavior is Behavior.EXCEPTION:
            behave(self._policy, replace(change, table=table), there, source)
        whose = f"{told(change)} of {change.table}"
        match change:
            case TruncateTable(copied=True):
                self._check_written_over(change.table, table, there)
                return
            case TruncateTable() | DropTable():
                self._hold(table, f"{whose}: its rows stay, other tables go there too")
                return
            case AlterTableComment():
                return
            case RenameColumn(old_name=old_name, new_name=new_name):
                self._hold(table, f"{whose}: {old_name} stays for other tables, {new_name} is a column of its own")
            case DropColumn(name=name):
                self._hold(table, f"{whose}: {name} stays for other tables, NULL for this one")
            case AddColumn(column=column) if column.default is not None and find(there, column.name) is not None:
                text = f"{whose}: its rows that are there keep NULL, not the default {column.default!r}"
                self._hold(table, text)
            case _:
                pass
        assert source is not None, "a table that changes has a schema"
        self._check_key(change.table, table, there, source)
        copied = change.column.name if isinstance(change, AlterColumnType) and change.copied else ""
        self._widen(table, there, source, copied)

    # tables that are copied anew

    def _copy(self, change: CopyTable, target: Target, there: TableSchema, source: TableSchema) -> None:
        """The copy replaces the sink's table where that mirrors this one; else it is written over the rows."""
        table = target.table
        if self._replaces(table) or (not there.primary_key and table not in self.merged):
            self._emit(replace(change, table=table, schema=None if change.schema is None else source))
            return
        self._check_written_over(change.table, table, there)
        self.over.add((change.table, table))
        if change.schema is not None:
            self._check_key(change.table, table, there, source)
            self._widen(table, there, source)

    def _replaces(self, table: TableId) -> bool:
        policy = self._policy
        return (
            table not in self.merged and policy.behavior is not Behavior.IGNORE and policy.allows(TruncateTable(table))
        )

    def _copied(self, change: TableCopied, table: TableId) -> None:
        if (change.table, table) in self.over:
            self.over.discard((change.table, table))
        elif table in self.merged:
            self._hold(table, f"table.copied of {change.table}: other tables go there by now, it is copied once more")
            self.waiting.add((change.table, table))
        else:
            self._emit(TableCopied(table))

    def _check_written_over(self, source: TableId, table: TableId, there: TableSchema) -> None:
        if not there.primary_key:
            raise ChangeRefused(
                f"{source} is to be copied anew, and its rows cannot be told from those of other tables",
                where=str(table),
                hint="several tables without a key go to this one: start anew with an empty --state-dir and sink table",
            )
        self._hold(
            table, f"copy.table of {source}: it is written over the rows that are there, those gone from it stay"
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
        self._create(create, change.new_table, self.sinks.get(new.table))

    def _stays(self, old: Target | None, new: Target) -> str:
        """Why the rows of a renamed table stay where they are; empty when the sink's table can be renamed."""
        if old is None or old.table not in self.sinks:
            return "there is no table to rename"
        if old.shard_column is not None or new.shard_column is not None:
            return "they hold the old name in the shard column"
        if old.table in self.merged:
            return f"other tables go to {old.table} too"
        return f"{new.table} is there already" if new.table in self.sinks else ""
