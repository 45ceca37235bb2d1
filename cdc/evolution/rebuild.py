"""Rebuilds tables that a sink cannot change in place: a copy in the new form replaces the table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.rules import TableRules
from cdc.evolution.steps import Step
from cdc.evolution.table import ActualTable, Layout, T, same_names
from cdc.schema import TableId


def rebuild(
    rules: TableRules[T],
    layout: Layout[T],
    old: ActualTable[T],
    new: ActualTable[T],
    values: Mapping[str, op.Conversion] | None = None,
) -> Iterator[Step]:
    """Plan the operation that gives `old` the columns, types and key of `new`. May be restarted.

    Raises ChangeRefused, for a re-snapshot, where the sink does not rebuild tables.
    """
    if not rules.rebuilds:
        raise needs_re_snapshot(rules, old.id, _what_changes(old, new))
    copy = rules.copy_of(old.id)
    yield op.RebuildTableOp(old.id, old, new, copy, values or {})
    layout.put(new)
    layout.remove(copy)


def _what_changes(old: ActualTable[T], new: ActualTable[T]) -> str:
    if not same_names(old.key, new.key):
        return f"the key ({', '.join(old.key)}) cannot become ({', '.join(new.key)})"
    for column in new.columns:
        existing = old.column(column.name)
        if existing is not None and existing.type != column.type:
            return f"column {column.name} cannot be changed from {existing.type} to {column.type}"
    return "columns cannot be changed"


def needs_re_snapshot(rules: TableRules[T], table: TableId, reason: str) -> ChangeRefused:
    """Return the error for a change that a sink cannot make in place, but by a re-snapshot into a shadow table."""
    return ChangeRefused(f"{reason} in place in {rules.name}", where=str(table), resnapshot_helps=True)
