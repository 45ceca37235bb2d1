"""What a sink cannot change in place: a copy of the table, made as it has to be, takes its place. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cdc.evolution.dialect import Dialect
from cdc.evolution.steps import Statement, Step
from cdc.evolution.table import ActualColumn, ActualTable, Layout, T, same


def rebuild(
    dialect: Dialect[T],
    layout: Layout[T],
    old: ActualTable[T],
    new: ActualTable[T],
    values: Mapping[str, str] | None = None,
) -> Iterator[Step]:
    """The steps that give `old` the columns, types and key of `new`. May be begun anew at any point before the last.

    Args:
        values: expressions over `old` for columns of `new` by name; the others keep their value.
    """
    copy = replace(new, id=dialect.copy_of(old.id))
    chosen = [(column.name, (values or {}).get(column.name) or _kept(dialect, old, column)) for column in new.columns]
    statements = [
        dialect.drop_copy(copy.id),
        *dialect.create_table(copy),
        dialect.copy_rows(old.id, copy.id, chosen),
        *dialect.take_place(copy.id, new),
    ]
    for sql in statements:
        yield Statement(old.id, sql, undo=statements[0])
    layout.put(new)
    layout.remove(copy.id)


def _kept(dialect: Dialect[T], old: ActualTable[T], column: ActualColumn[T]) -> str:
    before = next(item for item in old.columns if same(item.name, column.name))
    return dialect.value(before, column, None, None)
