"""From the changes of source tables to those of sink tables: routes, merged schemas, behaviors. Pure; driver.

A sink table that one source table goes to gets its changes, as the behavior says. One that several go to has the merged
schema of them (`cdc.evolution.merge`): it gets what each change makes wider, through the same behavior. Columns that
one of its tables renames or drops stay for the others, and so do all rows when one of them is truncated or dropped. It
stays a merged table when only one of them is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_change, apply_changes
from cdc.evolution.behavior import Behavior, Policy, behave, told
from cdc.evolution.merge import find, merged, same_key
from cdc.flow.route import RouteTable, Target
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
    CopyTable,
    CreateTable,
    DataType,
    DropColumn,
    DropTable,
    Kind,
    Position,
    RenameColumn,
    RenameTable,
    SchemaChange,
    TableCopied,
    TableId,
    TableSchema,
    TruncateTable,
)

_SHARD_TYPE = DataType(Kind.VARCHAR, 255)


@dataclass(frozen=True, slots=True)
class Held:
    """What a sink table did not get, or got otherwise: the change's name, and a text that follows the table's."""

    table: TableId
    change: str
    text: str


@dataclass(frozen=True)
class Sides:
    """The tables on both sides at one point of the log.

    Attributes:
        sources, sinks: their schemas.
        merged: sink tables that several source tables go to, or once went to.
        over: sink tables that are copied anew over the rows that are there.
    """

    sources: Mapping[TableId, TableSchema] = field(default_factory=dict)
    sinks: Mapping[TableId, TableSchema] = field(default_factory=dict)
    merged: frozenset[TableId] = frozenset()
    over: frozenset[TableId] = frozenset()


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


def derived(route: RouteTable, policy: Policy, before: Sides, changes: Sequence[SchemaChange]) -> Derived:
    """Everything that the changes mean for the sink, given the tables before them.

    Raises ChangeRefused for what must not be carried out, EngineError for a change that does not fit its table.
    """
    work = _Work(route, policy, before)
    for change in changes:
        work.take(change)
    after = Sides(work.sources, work.sinks, frozenset(work.merged), frozenset(work.over))
    return Derived(tuple(work.out), after, tuple(work.held))


def with_shard(schema: TableSchema, target: Target) -> TableSchema:
    """A source table's schema with the target's shard column, if it has one, behind the key. Raises ChangeRefused."""
    name = target.shard_column
    if name is None:
        return schema
    if find(schema, name) is not None:
        reason = f"the source table has a column {name}, which shard-column is to add"
        raise ChangeRefused(reason, where=str(target.table), hint="choose another name for shard-column")
    place = max((schema.names.index(part) + 1 for part in schema.primary_key), default=0)
    column = Column(name, _SHARD_TYPE, nullable=False)
    return replace(
        schema,
        columns=(*schema.columns[:place], column, *schema.columns[place:]),
        primary_key=(*schema.primary_key, name) if schema.primary_key else (),
    )


def widening(table: TableId, old: TableSchema, new: TableSchema) -> Iterator[AddColumn | AlterColumnType]:
    """The changes that lead from a schema to what it was merged to."""
    before = ""
    for column in new.columns:
        there = find(old, column.name)
        if there is None:
            yield AddColumn(table, column, Position(after=before) if before else Position(first=True))
        elif (there.type, there.nullable) != (column.type, column.nullable):
            yield AlterColumnType(table, column, there)
        before = column.name


class _Work:
    """The tables while changes are taken one after another."""

    def __init__(self, route: RouteTable, policy: Policy, before: Sides) -> None:
        self._route, self._policy = route, policy
        self.sources, self.sinks = dict(before.sources), dict(before.sinks)
        self.merged, self.over = set(before.merged), set(before.over)
        self.out: list[SchemaChange] = []
        self.held: list[Held] = []
        self._created: dict[TableId, int] = {}  # tables that are created here, with the place of their CreateTable
        self._members: dict[TableId, set[TableId]] = {}
        for source in before.sources:
            self._join(source)

    def take(self, change: SchemaChange) -> None:
        """One change of a source table."""
        if isinstance(change, RenameTable):
            self._rename(change)
            return
        after = apply_change(self.sources.get(change.table), change)
        targets = self._route.targets(change.table)
        if isinstance(change, CreateTable):
            self._join(change.table)
        for target in targets:
            self._target(change, target, None if after is None else with_shard(after, target))
        if after is None:
            self._leave(change.table)
            self.sources.pop(change.table, None)
        else:
            self.sources[change.table] = after

    def _join(self, source: TableId) -> None:
        for target in self._route.targets(source):
            members = self._members.setdefault(target.table, set())
            members.add(source)
            if len(members) > 1:
                self.merged.add(target.table)

    def _leave(self, source: TableId) -> None:
        for target in self._route.targets(source):
            self._members.get(target.table, set()).discard(source)

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

    def _behave(self, change: SchemaChange, there: TableSchema, source: TableSchema | None) -> None:
        outcome = behave(self._policy, change, there, source)
        for each in outcome.changes:
            self._emit(each)
        if outcome.held:
            self._hold(change.table, outcome.held)

    # tables that come

    def _create(self, new: CreateTable, source: TableId, there: TableSchema | None) -> None:
        table, schema = new.table, new.schema
        if there is None:
            if self._policy.allows(new):
                self._created[table] = len(self.out)
                self._emit(new)
            else:
                self.sinks[table] = schema
                self._hold(table, "create.table is left out: the table has to be in the sink")
            return
        self._check_key(source, table, there, schema)
        if table not in self.merged and self._grows(there, schema):
            self._emit(new)
        elif merged(there, schema) == there and table not in self.merged:
            self._emit(replace(new, schema=there))
        else:
            self._widen(table, there, schema)

    def _grows(self, there: TableSchema, schema: TableSchema) -> bool:
        """Whether a table may be told again to be there, with all columns it has and perhaps more."""
        return self._policy.behavior in _MIRRORS and {*there.names} <= {*schema.names}

    def _check_key(self, source: TableId, table: TableId, there: TableSchema, schema: TableSchema) -> None:
        if same_key(there, schema):
            return
        ours, theirs = (f"({', '.join(key)})" if key else "no key" for key in (schema.primary_key, there.primary_key))
        others = sorted(self._members.get(table, set()) - {source})
        whose = f", as {others[0]} has" if others else ""
        raise ChangeRefused(
            f"{source} has {ours}, the sink's table has {theirs}{whose}: its rows could not be told apart",
            where=str(table),
            hint="give them one key with a transform rule (primary-keys), or route them to different tables",
        )

    def _widen(self, table: TableId, there: TableSchema, source: TableSchema, copied: str = "") -> None:
        """Make the sink's table wide enough for a source table of this schema too."""
        new = merged(there, source)
        if table in self._created:
            created = self.out[self._created[table]]
            assert isinstance(created, CreateTable), "it is noted where it was created"
            self.out[self._created[table]] = replace(created, schema=new)
            self.sinks[table] = new
            return
        for change in widening(table, there, new):
            if isinstance(change, AlterColumnType) and change.column.name.casefold() == copied.casefold():
                change = replace(change, copied=True)
            self._behave(change, self.sinks[table], new)

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
        self.over.add(table)
        if change.schema is not None:
            self._check_key(change.table, table, there, source)
            self._widen(table, there, source)

    def _replaces(self, table: TableId) -> bool:
        policy = self._policy
        return (
            table not in self.merged and policy.behavior is not Behavior.IGNORE and policy.allows(TruncateTable(table))
        )

    def _copied(self, change: TableCopied, table: TableId) -> None:
        if table in self.over:
            self.over.discard(table)
        elif table in self.merged:
            self._hold(table, f"table.copied of {change.table}: other tables go there by now, its copy is let go")
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

    def _emit(self, change: SchemaChange) -> None:
        if not isinstance(change, CreateTable):
            self._created.pop(change.table, None)
        self.sinks = apply_changes(self.sinks, [change]) if isinstance(change, RenameTable) else self.sinks
        if not isinstance(change, RenameTable):
            new = apply_change(self.sinks.get(change.table), change)
            if new is None:
                del self.sinks[change.table]
            else:
                self.sinks[change.table] = new
        self.out.append(change)

    def _hold(self, table: TableId, text: str) -> None:
        self.held.append(Held(table, text.split()[0].rstrip(":"), text))


_MIRRORS = (Behavior.EVOLVE, Behavior.TRY_EVOLVE, Behavior.EXCEPTION)
