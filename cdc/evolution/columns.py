"""The steps of changes to columns. Pure; the planner's other half."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Generic

from cdc.errors import ChangeRefused
from cdc.evolution import certain
from cdc.evolution.certain import AnyValue, Uncertain, uncertain, uncertain_text_key
from cdc.evolution.dialect import Dialect
from cdc.evolution.rebuild import rebuild
from cdc.evolution.steps import Check, Remark, Statement, Step
from cdc.evolution.table import ActualColumn, ActualTable, Layout, T, same
from cdc.schema import LAST, AlterColumnType, Column, DataType, Position, TableId


class ColumnPlanner(Generic[T]):
    """Plans changes to columns over one layout, which it leaves as it will be."""

    def __init__(self, dialect: Dialect[T], layout: Layout[T]) -> None:
        self._dialect, self._layout = dialect, layout

    def add(
        self, table: ActualTable[T], column: Column, position: Position = LAST, *, has_rows: bool = False
    ) -> Iterator[Step]:
        """A column that is missing; one that is there has to hold the values."""
        if table.column(column.name) is not None:
            self.check_holds(table, column)
            return
        self._dialect.check_column(table.id, column.name)
        new = self._dialect.added_column(column) if has_rows else self._dialect.new_column(column, key=False)
        if has_rows and new.default is None and column.default is not None:
            text = f"rows that are there get NULL in {column.name}: its default {column.default!r} is no constant here"
            yield Remark(table.id, text)
        after = _place(table, position)
        for sql in self._dialect.add_column(table, new, after):
            yield Statement(table.id, sql, job=True)
        self._layout.put(replace(table, columns=_inserted(table.columns, new, after)))

    def uncertain(self, change: AlterColumnType) -> Uncertain | None:
        """Whether a change of type that was planned leaves values of rows uncertain."""
        table = self._layout.get(change.table)
        there = None if table is None else table.column(change.column.name)
        if table is None or there is None or change.old is None or change.keeps:
            return None
        return self._uncertain(table, there, change.column.type, change.old.type)

    def widen(self, table: ActualTable[T], column: Column, old: Column) -> Iterator[Step]:
        """Room for other values besides those that are there, which stay."""
        dialect, there = self._dialect, self.there(table, column.name)
        key = table.in_key(there.name)
        if dialect.stays(there.type, column.type, old.type, key=key):
            yield from self.drop_left_copy(table.id)
            yield from self._comment(table.id, column)
            return
        new = replace(there, type=dialect.reached(there.type, dialect.wanted(column.type, key=key)))
        value = dialect.kept_value(there, new, column.type, old.type)
        against = AnyValue() if value is None else certain.not_kept(column.type, old.type)
        if against is not None:
            query = f"SELECT 1 FROM {dialect.table_name(table.id)} WHERE "
            query += f"{dialect.condition(dialect.quoted(there.name), against)} LIMIT 1"
            reason = (
                f"column {there.name} is to hold {column.type} too, where {old.type} values would not stay the same"
            )
            yield Check(table.id, query, reason)
        yield from self._change_to(table, there, new, value or f"CAST(NULL AS {new.type})")
        yield from self._comment(table.id, column)

    def alter(
        self, table: ActualTable[T], column: Column, old: Column | None, *, copied: bool = False
    ) -> Iterator[Step]:
        """Another type or comment. With `copied` no row stands against it, as the source copies all of them anew."""
        dialect, there = self._dialect, self.there(table, column.name)
        before = None if old is None else old.type
        key = table.in_key(there.name)
        new_type = dialect.reached(there.type, dialect.wanted(column.type, key=key))
        stays = dialect.stays(there.type, column.type, before, key=key)
        against = self._uncertain(table, there, column.type, before or dialect.data_type(there.type))
        if against is not None and dialect.converts(there.type, column.type, before):
            against = None
        empty = against is not None and against.rows == AnyValue()
        if not stays and not empty and not dialect.by_copy(there.type, new_type):
            reason = f"{dialect.name} does not turn {there.type} into {new_type} with the values that the source has"
            against = Uncertain(AnyValue(), reason)
        if against is not None and not copied:
            where = dialect.condition(dialect.quoted(there.name), against.rows)
            query = f"SELECT 1 FROM {dialect.table_name(table.id)} WHERE {where} LIMIT 1"
            yield Check(table.id, query, f"column {column.name}: {against.reason}")
        if stays:
            yield from self.drop_left_copy(table.id)
        else:
            new = replace(there, type=new_type)
            # Values that do not fit become NULL until their row is copied; those of a key are of an empty table.
            loosely = copied and not table.in_key(there.name)
            value = (dialect.value_or_null if loosely else dialect.value)(there, new, column.type, before)
            yield from self._change_to(table, there, new, value, in_place=not loosely)
        yield from self._comment(table.id, column)

    def rename(self, table: ActualTable[T], old_name: str, new_name: str) -> Iterator[Step]:
        """Another name."""
        there, taken = table.column(old_name), table.column(new_name)
        if there is None and taken is not None:
            return
        there = self.there(table, old_name)
        if there.name == new_name:
            return
        if taken is not None and taken is not there:
            reason = f"column {old_name} cannot be renamed to {new_name}: that column exists"
            name = self._dialect.name
            hint = f"rename or drop the other column in {name}; if an earlier pipeline left the table there, drop it "
            hint += "and start anew with an empty --state-dir"
            raise ChangeRefused(reason, where=str(table.id), hint=hint, curable=True)
        self._dialect.check_column(table.id, new_name)
        sql = self._dialect.rename_column(table.id, there.name, new_name)
        yield Statement(table.id, sql, job=self._dialect.all_in_jobs)
        key = tuple(new_name if same(part, there.name) else part for part in table.key)
        new = replace(_with(table, there, replace(there, name=new_name)), key=key)
        self._layout.put(self._dialect.renamed_column(new, there.name, new_name))

    def drop(self, table: ActualTable[T], name: str) -> Iterator[Step]:
        """A column goes, with its part of the key."""
        there = table.column(name)
        if there is None:
            yield from self.drop_left_copy(table.id)
            return
        key = tuple(part for part in table.key if not same(part, name))
        new = replace(table, columns=tuple(column for column in table.columns if column is not there), key=key)
        if self._dialect.is_fixed(table, name):
            yield from rebuild(self._dialect, self._layout, table, self._dialect.with_key(new, key))
        else:
            yield Statement(table.id, self._dialect.drop_column(table.id, there.name), job=True)
            self._layout.put(new)

    def drop_left_copy(self, table: TableId) -> Iterator[Step]:
        """A copy is left when the process died after it had taken its table's place: it holds the rows as they were."""
        copy = self._dialect.copy_of(table)
        if self._layout.get(copy) is not None:
            yield Statement(table, self._dialect.drop_copy(copy))
            self._layout.remove(copy)

    def there(self, table: ActualTable[T], name: str) -> ActualColumn[T]:
        """The column that has to be there. Raises ChangeRefused when it is not."""
        actual = table.column(name)
        if actual is None:
            hint = f"it was dropped or renamed in {self._dialect.name}; add it again"
            raise ChangeRefused(f"there is no column {name}", where=str(table.id), hint=hint, curable=True)
        return actual

    def check_holds(self, table: ActualTable[T], column: Column) -> None:
        """Raise ChangeRefused when the column is there and does not take every value of the source's."""
        there, key = table.column(column.name), table.in_key(column.name)
        if there is None or self._dialect.holds(there.type, column.type, key=key):
            return
        name = self._dialect.name
        raise ChangeRefused(
            f"column {column.name} exists with type {there.type}, which does not hold the source's {column.type} "
            f"({self._dialect.wanted(column.type, key=key)} in {name})",
            where=str(table.id),
            hint=f"change its type in {name}, drop the table, or route to another one",
            curable=True,
        )

    def _uncertain(
        self, table: ActualTable[T], there: ActualColumn[T], new: DataType, before: DataType
    ) -> Uncertain | None:
        key = table.in_key(there.name)
        if key and self._dialect.is_text(self._dialect.wanted(new, key=True)):
            respelled = uncertain_text_key(new, before)
            if respelled is not None:
                return respelled
        return uncertain(new, before)

    def _change_to(
        self, table: ActualTable[T], there: ActualColumn[T], new: ActualColumn[T], value: str, *, in_place: bool = True
    ) -> Iterator[Step]:
        """Another type in place where that is possible and wanted, else by a copy of the table."""
        if in_place and self._dialect.in_place(table, there, new.type):
            yield Statement(table.id, self._dialect.modify_column(table, new, value), job=True)
            self._layout.put(_with(table, there, new))
            return
        # A default is for rows that are there when a column is added, and may be none of the new type.
        copied = self._dialect.with_key(_with(table, there, replace(new, default=None)), table.key)
        yield from rebuild(self._dialect, self._layout, table, copied, {new.name: value})

    def _comment(self, table: TableId, column: Column) -> Iterator[Step]:
        actual = self._layout.get(table)
        there = None if actual is None else actual.column(column.name)
        if not self._dialect.has_comments or actual is None or there is None or there.comment == column.comment:
            return
        new = replace(there, comment=column.comment)
        yield Statement(table, self._dialect.comment_column(actual, new), job=self._dialect.all_in_jobs)
        self._layout.put(_with(actual, there, new))


def _with(table: ActualTable[T], old: ActualColumn[T], new: ActualColumn[T]) -> ActualTable[T]:
    return replace(table, columns=tuple(new if column is old else column for column in table.columns))


def _place(table: ActualTable[T], position: Position) -> str | None:
    """Behind which column an added one goes: never among the keys. None means last."""
    last_key = table.key[-1] if table.key else None
    if position.first:
        return last_key
    there = None if position.after is None else table.column(position.after)
    if there is None:
        return None
    return last_key if table.in_key(there.name) else there.name


def _inserted(
    columns: tuple[ActualColumn[T], ...], new: ActualColumn[T], after: str | None
) -> tuple[ActualColumn[T], ...]:
    index = next((number for number, column in enumerate(columns, 1) if column.name == after), len(columns))
    return (*columns[:index], new, *columns[index:])
