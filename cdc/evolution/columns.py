"""Plans changes to columns. Pure; used by `cdc.evolution.planner`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Generic

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.rebuild import needs_re_snapshot, rebuild
from cdc.evolution.rules import NewColumn, TableRules
from cdc.evolution.steps import ChangeRemark, Check, KeyCheck, Step
from cdc.evolution.table import ActualColumn, ActualTable, Layout, T, same
from cdc.schema import LAST, AlterColumnType, Column, DataType, Kind, Position, TableId
from cdc.types import certain
from cdc.types.certain import AnyValue, UncertainValues, uncertain, uncertain_text_key
from cdc.types.kinds import REALS, TEXTS


class ColumnPlanner(Generic[T]):
    """Plans changes to columns on one layout, which it updates to the state after them."""

    def __init__(self, rules: TableRules[T], layout: Layout[T]) -> None:
        self._rules, self._layout = rules, layout

    def add(
        self, table: ActualTable[T], column: Column, position: Position = LAST, *, has_rows: bool = False
    ) -> Iterator[Step]:
        """Add a missing column; an existing one has to hold the values."""
        if table.column(column.name) is not None:
            self.check_holds(table, column)
            return
        self._rules.check_column(table.id, column.name)
        new = self._rules.added_column(column) if has_rows else self._rules.new_column(column, key=False)
        if has_rows and new.default is None and column.default is not None:
            text = f"existing rows get NULL in {column.name}: its default {column.default!r} is not a constant here"
            yield ChangeRemark(table.id, text)
        after, how = _place(table, position), self._rules.new_column_default
        filled = has_rows and new.default is not None
        if filled and how is NewColumn.RE_SNAPSHOT:
            raise needs_re_snapshot(self._rules, table.id, f"existing rows cannot get the default of {column.name}")
        yield op.AddColumnOp(table.id, table, new, after)
        if filled and how is NewColumn.BACK_FILL:
            yield op.FillColumnOp(table.id, table, new)
        self._layout.put(replace(table, columns=_inserted(table.columns, new, after)))

    def uncertain(self, change: AlterColumnType) -> UncertainValues | None:
        """Return how a planned change of type leaves values of rows uncertain, None when it does not."""
        table = self._layout.get(change.table)
        existing = None if table is None else table.column(change.column.name)
        if table is None or existing is None or change.old is None or change.keeps:
            return None
        return self._uncertain(table, existing, change.column.type, change.old.type)

    def widen(self, table: ActualTable[T], column: Column, old: Column) -> Iterator[Step]:
        """Widen a column for other values; existing ones stay."""
        rules, existing = self._rules, self.required_column(table, column.name)
        key = table.in_key(existing.name)
        plain = None if column.source_type else rules.respelled(existing.type, replace(column, type=old.type), key=key)
        if plain is not None:
            yield from self._change_to(table, op.Conversion(existing, replace(existing, type=plain), old.type))
            table = self._layout.get(table.id) or table
            existing = self.required_column(table, column.name)
        # Values that are already text keep their spelling, while later ones may have that of the wider type.
        text = rules.is_text(rules.column_type(old.type, key=key))
        spelled = column.type.kind not in TEXTS or rules.spells(old.type)
        spelled = spelled and not (text and uncertain_text_key(column.type, old.type))
        new = replace(existing, type=rules.altered_type(existing.type, column, key=key))
        stays = new == existing or rules.stays(existing.type, column.type, old.type, key=key)
        if stays and (spelled or not text):
            yield from self.drop_stale_copy(table.id)
            yield from self._comment(table.id, column)
            return
        against = certain.lossy_rows(column.type, old.type) if spelled else AnyValue()
        if against is not None:
            reason = (
                f"column {existing.name} is to hold {column.type} too, where {old.type} values would not stay the same"
            )
            yield self._check(table, existing.name, against, reason)
        if not stays:
            yield from self._change_to(table, op.Conversion(existing, new, old.type))
        yield from self._comment(table.id, column)

    def alter(
        self, table: ActualTable[T], column: Column, old: Column | None, *, copied: bool = False
    ) -> Iterator[Step]:
        """Change a column's type or comment. With `copied`, all existing rows are re-snapshotted and do not matter."""
        rules, existing = self._rules, self.required_column(table, column.name)
        before = rules.data_type(existing.type) if old is None else old.type
        key = table.in_key(existing.name)
        other = rules.respelled(existing.type, column, key=key) if before == column.type else None
        if other is not None:
            yield from self._change_to(table, op.Conversion(existing, replace(existing, type=other), before))
            yield from self._comment(table.id, column)
            return
        new_type = rules.altered_type(existing.type, column, key=key)
        stays = new_type == existing.type or rules.stays(existing.type, column.type, before if old else None, key=key)
        against = self._uncertain(table, existing, column.type, before)
        empty = against is not None and against.rows == AnyValue()
        if not stays and not empty and not rules.casts_exactly(existing.type, new_type):
            reason = f"{rules.name} does not convert {existing.type} to {new_type} with the values that the source has"
            against = UncertainValues(AnyValue(), reason)
        if against is not None and not copied:
            yield self._check(table, existing.name, against.rows, f"column {column.name}: {against.reason}")
        if stays:
            yield from self.drop_stale_copy(table.id)
        else:
            # Values that do not fit are NULL until their row is copied; a key column changes only in an empty table.
            values = op.Conversion(existing, replace(existing, type=new_type), before, loose=copied and not key)
            yield from self._change_to(table, values)
        yield from self._comment(table.id, column)

    def rename(self, table: ActualTable[T], old_name: str, new_name: str) -> Iterator[Step]:
        """Rename a column."""
        existing, conflicting = table.column(old_name), table.column(new_name)
        if existing is None and conflicting is not None:
            return
        existing = self.required_column(table, old_name)
        if existing.name == new_name:
            return
        if conflicting is not None and conflicting is not existing:
            reason = f"column {old_name} cannot be renamed to {new_name}: that column exists"
            name = self._rules.name
            hint = f"rename or drop the other column in {name}; if an earlier pipeline left the table there, drop it "
            hint += "and start over with an empty --state-dir"
            raise ChangeRefused(reason, where=str(table.id), hint=hint, resnapshot_helps=True)
        self._rules.check_column(table.id, new_name)
        if not self._rules.renames_columns:
            raise needs_re_snapshot(self._rules, table.id, f"column {old_name} cannot be renamed to {new_name}")
        yield op.RenameColumnOp(table.id, existing.name, new_name)
        key = tuple(new_name if same(part, existing.name) else part for part in table.key)
        new = replace(_with(table, existing, replace(existing, name=new_name)), key=key)
        self._layout.put(self._rules.renamed_column(new, existing.name, new_name))

    def drop(self, table: ActualTable[T], name: str) -> Iterator[Step]:
        """Drop a column, also from the key."""
        existing = table.column(name)
        if existing is None:
            yield from self.drop_stale_copy(table.id)
            return
        key = tuple(part for part in table.key if not same(part, name))
        new = replace(table, columns=tuple(column for column in table.columns if column is not existing), key=key)
        if self._rules.is_fixed(table, name):
            new = self._rules.with_key(new, key)
            yield from self.check_key(table, new)
            yield from rebuild(self._rules, self._layout, table, new)
        elif not self._rules.drops_columns:
            raise needs_re_snapshot(self._rules, table.id, f"column {name} cannot be dropped")
        else:
            yield op.DropColumnOp(table.id, existing.name)
            self._layout.put(new)

    def drop_stale_copy(self, table: TableId) -> Iterator[Step]:
        """Drop the copy, with the old rows, that remains when the process died after it had replaced its table."""
        copy = self._rules.copy_of(table)
        if self._layout.get(copy) is not None:
            yield op.DropCopyOp(table, copy)
            self._layout.remove(copy)

    def required_column(self, table: ActualTable[T], name: str) -> ActualColumn[T]:
        """Return an existing column. Raises ChangeRefused when it is missing."""
        actual = table.column(name)
        if actual is None:
            hint = f"it was dropped or renamed in {self._rules.name}; add it again"
            raise ChangeRefused(f"there is no column {name}", where=str(table.id), hint=hint, resnapshot_helps=True)
        return actual

    def check_holds(self, table: ActualTable[T], column: Column) -> None:
        """Raise ChangeRefused when the column exists and does not hold every value of the source's."""
        existing, key = table.column(column.name), table.in_key(column.name)
        if existing is None or self._rules.holds(existing.type, column.type, key=key):
            return
        name = self._rules.name
        raise ChangeRefused(
            f"column {column.name} exists with type {existing.type}, which does not hold the source's {column.type} "
            f"({self._rules.column_type(column.type, key=key)} in {name})",
            where=str(table.id),
            hint=f"change its type in {name}, drop the table, or route to another one",
            resnapshot_helps=True,
        )

    def check_key(self, table: ActualTable[T], new: ActualTable[T]) -> Iterator[Step]:
        """Check that the new key identifies each row: some sinks make one of two rows with the same key.

        And that no row has a FLOAT or DOUBLE that becomes text in it: a cast spells it differently from later rows,
        which would not match it.
        """
        longer = table.key and all(new.in_key(name) for name in table.key)
        if self._rules.rebuilds and new.key and not longer:
            names = ", ".join(new.key)
            yield KeyCheck(table.id, new.key, f"rows have the same values in the columns of the new key ({names})")
        for column in new.columns:
            existing = table.column(column.name)
            if existing is None or not new.in_key(column.name) or not self._rules.is_text(column.type):
                continue
            if self._rules.data_type(existing.type).kind in REALS:
                reason = (
                    f"column {existing.name}: keys are text here, and a copy spells {existing.type} values its own way"
                )
                yield self._check(table, existing.name, AnyValue(), reason)

    def _uncertain(
        self, table: ActualTable[T], existing: ActualColumn[T], new: DataType, before: DataType
    ) -> UncertainValues | None:
        key = table.in_key(existing.name)
        text = self._rules.is_text(self._rules.column_type(new, key=key))
        if not text and new.kind is before.kind is Kind.TIME and (new.length or 0) >= (before.length or 0):
            return None  # more digits change the text, but not the time
        if key and text:
            respelled = uncertain_text_key(new, before)
            if respelled is not None:
                return respelled
        return uncertain(new, before)

    def _check(self, table: ActualTable[T], column: str, rows: certain.Rows, reason: str) -> Check:
        if not self._rules.checks_rows:
            raise needs_re_snapshot(self._rules, table.id, f"{reason}, and its rows cannot be checked")
        return Check(table.id, column, rows, reason)

    def _change_to(self, table: ActualTable[T], values: op.Conversion) -> Iterator[Step]:
        """Change the type in place where that is possible and wanted, else by a copy of the table."""
        existing, new = values.old, values.new
        if not values.loose and self._rules.modifies_in_place(table, existing, new.type):
            yield op.AlterColumnOp(table.id, table, new, values)
            self._layout.put(_with(table, existing, new))
            return
        # A default is for the rows that exist when a column is added, and may not fit the new type.
        copied = self._rules.with_key(_with(table, existing, replace(new, default=None)), table.key)
        yield from rebuild(self._rules, self._layout, table, copied, {new.name: values})

    def _comment(self, table: TableId, column: Column) -> Iterator[Step]:
        actual = self._layout.get(table)
        existing = None if actual is None else actual.column(column.name)
        if not self._rules.has_comments or actual is None or existing is None or existing.comment == column.comment:
            return
        new = replace(existing, comment=column.comment)
        yield op.CommentColumnOp(table, actual, new)
        self._layout.put(_with(actual, existing, new))


def _with(table: ActualTable[T], old: ActualColumn[T], new: ActualColumn[T]) -> ActualTable[T]:
    return replace(table, columns=tuple(new if column is old else column for column in table.columns))


def _place(table: ActualTable[T], position: Position) -> str | None:
    """Return the column after which to add one: never among the key columns. None means last."""
    last_key = table.key[-1] if table.key else None
    if position.first:
        return last_key
    existing = None if position.after is None else table.column(position.after)
    if existing is None:
        return None
    return last_key if table.in_key(existing.name) else existing.name


def _inserted(
    columns: tuple[ActualColumn[T], ...], new: ActualColumn[T], after: str | None
) -> tuple[ActualColumn[T], ...]:
    index = next((number for number, column in enumerate(columns, 1) if column.name == after), len(columns))
    return (*columns[:index], new, *columns[index:])
