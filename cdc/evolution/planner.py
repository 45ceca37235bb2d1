"""Plans schema changes as steps, from the tables that actually exist. Executes nothing.

Changes are planned in order on one layout, which is updated to the state after them. A change that is already applied
gives no steps, a partly applied one its remaining steps: after a crash it is enough to plan again from the existing
tables.

A table that is re-snapshotted is filled under another name, its shadow table, which then replaces it:

    CreateShadow  drop a leftover shadow table, create an empty one
    rows          of the copy are written to `shadow_of(table)`, those of the log to the table too
    SwapShadow    the shadow table replaces the live one in one step

The steps of `CreateShadow` may be restarted at any point: the copy has no rows before it is recorded as done. Those of
`SwapShadow` may not where two names are swapped, as the result does not show that it was done: the journal records the
identity of the copy, which is compared with the existing table after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Generic

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.columns import ColumnPlanner
from cdc.evolution.rebuild import rebuild
from cdc.evolution.rules import TableRules
from cdc.evolution.steps import ChangeRemark, PlannedChange, Step
from cdc.evolution.table import ActualTable, Layout, T, same_names
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    Column,
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
    shadow_of,
)


def plan(rules: TableRules[T], layout: Layout[T], changes: Sequence[SchemaChange]) -> list[PlannedChange]:
    """Plan the missing part of each change, starting from the layout; exchanges of names are already `in_turn`.

    Raises ChangeRefused for what the sink cannot do.
    """
    planner = Planner(rules, layout)
    return [planner.plan(change, changes[index + 1 :]) for index, change in enumerate(changes)]


def tables_of(rules: TableRules[T], changes: Sequence[SchemaChange]) -> list[TableId]:
    """Return the tables that a plan for these changes needs: those named, and copies of them left by a crash."""
    named = dict.fromkeys(change.table for change in changes)
    named |= dict.fromkeys(change.new_table for change in changes if isinstance(change, RenameTable))
    return [*named, *(copy for table in named for copy in (rules.copy_of(table), shadow_of(table)))]


class Planner(Generic[T]):
    """Plans changes one after another on one layout."""

    def __init__(self, rules: TableRules[T], layout: Layout[T]) -> None:
        self._rules, self._layout = rules, layout
        self._columns = ColumnPlanner(rules, layout)

    def plan(self, change: SchemaChange, later: Sequence[SchemaChange] = ()) -> PlannedChange:
        """Plan the steps of one change, given the later changes. Raises ChangeRefused."""
        if self._layout.get(change.table) is None and self._has_left(change.table, later):
            return PlannedChange(change)
        steps = tuple(self._steps(change))
        uncertain = self._columns.uncertain(change) if isinstance(change, AlterColumnType) and steps else None
        return PlannedChange(change, steps, uncertain)

    def _steps(self, change: SchemaChange) -> Iterator[Step]:
        match change:
            case CreateTable():
                yield from self._create(change)
            case CreateShadow():
                yield from self._create_shadow(change)
            case SwapShadow(table=table):
                yield from swap_shadow(self._rules, self._layout, replace(self._table(table), id=table))
            case DropShadow(table=table):
                yield from drop_shadow(self._layout, table)
            case DropTable(table=table):
                yield from drop_shadow(self._layout, table)
                if self._layout.get(table) is not None:
                    yield op.DropTableOp(table)
                    self._layout.remove(table)
            case TruncateTable(table=table):
                yield from drop_shadow(self._layout, table)
                if self._layout.get(table) is not None:
                    yield op.TruncateTableOp(table)
            case RenameTable():
                yield from self._rename(change)
            case AlterTableComment(table=table, comment=comment):
                yield from self._comment(self._table(table), comment)
            case AlterPrimaryKey(table=table, primary_key=key):
                yield from self._alter_key(self._table(table), key)
            case AddColumn(column=column, position=position):
                yield from self._columns.add(self._table(change.table), column, position, has_rows=True)
            case AlterColumnType(column=column, old=Column() as old, copied=False, keeps=True) if (
                column.type != old.type
            ):
                yield from self._columns.widen(self._table(change.table), column, old)
            case AlterColumnType(column=column, old=old, copied=copied):
                yield from self._columns.alter(self._table(change.table), column, old, copied=copied)
            case RenameColumn(old_name=old_name, new_name=new_name):
                yield from self._columns.rename(self._table(change.table), old_name, new_name)
            case DropColumn(name=name):
                yield from self._columns.drop(self._table(change.table), name)

    def _has_left(self, table: TableId, later: Sequence[SchemaChange]) -> bool:
        """Whether later changes drop the table or rename it to one that exists and stays: they are already applied."""
        for index, change in enumerate(later):
            if change.table != table or not isinstance(change, RenameTable | DropTable):
                continue
            if isinstance(change, DropTable):
                return True
            table = change.new_table
            if self._layout.get(table) is not None:
                return not any(
                    isinstance(other, RenameTable | DropTable) and other.table == table for other in later[:index]
                )
        return False

    def _create(self, change: CreateTable) -> Iterator[Step]:
        table, schema = change.table, change.schema
        self._rules.check_table(table)
        for column in schema.columns:
            self._rules.check_column(table, column.name)
        actual = self._layout.get(table)
        rules = self._rules.with_options(change) if actual is None else self._rules
        new = rules.new_table(table, schema)
        if actual is not None:
            yield from self._reconcile(actual, new, change)
            return
        yield from self._ensure_database(table)
        yield op.CreateTableOp(table, new, change)
        self._layout.put(new)

    def _create_shadow(self, change: CreateShadow) -> Iterator[Step]:
        """Create the table for a copy: like the existing one, or as a table with the new schema."""
        table, created, new = replace(self._table(change.table), id=change.table), change.created, None
        if created is not None:
            self._rules.check_table(table.id)
            for column in created.schema.columns:
                self._rules.check_column(table.id, column.name)
            new = self._rules.with_options(created).new_table(table.id, created.schema)
        yield from create_shadow(self._layout, table, new, created)

    def _ensure_database(self, table: TableId) -> Iterator[Step]:
        if self._rules.has_databases and not self._layout.has_database(table.database):
            yield op.CreateDatabaseOp(table, table.database)

    def _reconcile(self, actual: ActualTable[T], new: ActualTable[T], change: CreateTable) -> Iterator[Step]:
        """Check that an existing table fits, and add its missing columns."""
        where, name = str(change.table), self._rules.name
        if self._rules.written_name(actual.id) != self._rules.written_name(change.table):
            reason = f"{name} takes it for the table {actual.id}, which exists: names are case-insensitive"
            raise ChangeRefused(reason, where=where, hint="give one of them another name with a route")
        self._rules.check_existing(actual)
        for column in change.schema.columns:
            self._columns.check_holds(actual, column)
        if not same_names(actual.key, new.key):
            existing = f"the {self._rules.key_word} ({', '.join(actual.key)})"
            reason = f"exists with {existing}, the source has ({', '.join(change.schema.primary_key)})"
            hint = f"{self._rules.key_hint}drop it in {name}, or route to another table"
            raise ChangeRefused(reason, where=where, hint=hint)
        if remark := self._rules.remark_on_existing(actual, new):
            yield ChangeRemark(change.table, remark)
        for column in change.schema.columns:
            yield from self._columns.add(self._table(change.table), column)

    def _rename(self, change: RenameTable) -> Iterator[Step]:
        name = self._rules.name
        actual, existing = self._layout.get(change.table), self._layout.get(change.new_table)
        yield from drop_shadow(self._layout, change.table)
        if actual is None and existing is not None:
            return
        actual = self._table(change.table)
        self._rules.check_table(change.new_table)
        same_database = self._layout.same_database(change.table, change.new_table)
        if not same_database and not self._rules.moves_tables:
            reason = f"cannot be renamed to {change.new_table}: {name} cannot move a table to another database"
            raise ChangeRefused(reason, where=str(change.table), hint="route both names to one database")
        if existing is not None and existing is not actual:
            reason = f"cannot be renamed to {change.new_table}: that table exists"
            raise ChangeRefused(reason, where=str(change.table), hint=f"drop or rename the other table in {name}")
        new = replace(actual, id=change.new_table)
        if same_database:
            yield op.RenameTableOp(change.table, change.new_table)
        else:
            yield from self._ensure_database(change.new_table)
            yield op.MoveTableOp(actual.id, actual, new)
        self._layout.remove(actual.id)
        self._layout.put(new)

    def _comment(self, table: ActualTable[T], comment: str) -> Iterator[Step]:
        if self._rules.has_comments and table.comment != comment:
            yield op.CommentTableOp(table.id, table, comment)
            self._layout.put(replace(table, comment=comment))

    def _alter_key(self, table: ActualTable[T], key: tuple[str, ...]) -> Iterator[Step]:
        names = tuple(self._columns.required_column(table, name).name for name in key)
        new = self._rules.with_key(table, names)
        if same_names(table.key, new.key):
            yield from self._columns.drop_stale_copy(table.id)
        elif self._rules.skips_keyless and not table.key:
            reason = "changes of its rows may have been skipped while it had no key"
            hint = "if none was, set sink.keyless-changes: fail"
            raise ChangeRefused(reason, where=str(table.id), hint=hint, resnapshot_helps=True)
        else:
            yield from self._columns.check_key(table, new)
            yield from rebuild(self._rules, self._layout, table, new)

    def _table(self, table: TableId) -> ActualTable[T]:
        actual = self._layout.get(table)
        if actual is None:
            hint = f"it was dropped or renamed in {self._rules.name}; restore it, or start with a new --state-dir"
            hint += f"; {self._rules.hidden_table_hint}" if self._rules.hidden_table_hint else ""
            raise ChangeRefused("the table does not exist", where=str(table), hint=hint)
        return actual


def create_shadow(
    layout: Layout[T], table: ActualTable[T], new: ActualTable[T] | None, created: CreateTable | None
) -> Iterator[Step]:
    """Create the table for a shadow, as `new` or else like the table; replaces a leftover one."""
    shadow = replace(new or table, id=shadow_of(table.id))
    yield from drop_shadow(layout, table.id)
    yield op.CreateShadowOp(table.id, shadow, table if new is None else None, created)
    layout.put(shadow)


def drop_shadow(layout: Layout[T], table: TableId) -> Iterator[Step]:
    """Drop the leftover copy of the table, if any."""
    shadow = shadow_of(table)
    if layout.get(shadow) is not None:
        yield op.DropShadowOp(table, shadow)
        layout.remove(shadow)


def swap_shadow(rules: TableRules[T], layout: Layout[T], table: ActualTable[T]) -> Iterator[Step]:
    """Replace the table with its shadow. Raises ChangeRefused when there is no shadow."""
    shadow = layout.get(shadow_of(table.id))
    if shadow is None:
        raise ChangeRefused(
            f"{shadow_of(table.id)}, which holds the copy of the table, does not exist",
            where=str(table.id),
            hint=f"it was dropped or renamed in {rules.name}; restore it, or start with a new --state-dir",
        )
    yield op.SwapShadowOp(table.id, shadow.id, replace(shadow, id=table.id))
    layout.put(replace(shadow, id=table.id))
    layout.remove(shadow.id)
