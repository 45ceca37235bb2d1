"""Shadow tables: a table that is re-snapshotted is filled under another name, which then takes its place. Pure.

    CreateShadow  drop what is left of an earlier shadow table, create it, empty
    rows          of the copy go to `shadow_of(table)`, those of the log to the table too
    SwapShadow    the shadow table takes the live one's place in one step

The steps of `CreateShadow` may be started over at any point: there are no rows of the copy before it is noted as done.
Those of `SwapShadow` may not where one swaps two names, as nothing shows that it was done: the journal has which
table the copy was, and after a crash it is asked which one is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cdc.errors import ChangeRefused
from cdc.evolution import operations as op
from cdc.evolution.rules import TableRules
from cdc.evolution.steps import Step
from cdc.evolution.table import ActualTable, Layout, T
from cdc.schema import CreateTable, TableId, shadow_of


def create_shadow(
    layout: Layout[T], table: ActualTable[T], new: ActualTable[T] | None, created: CreateTable | None
) -> Iterator[Step]:
    """Create the table that a copy goes to, as `new` is or else like the table; afresh when there is one."""
    copy = replace(new or table, id=shadow_of(table.id))
    yield from drop_shadow(layout, table.id)
    yield op.CreateShadowOp(table.id, copy, table if new is None else None, created)
    layout.put(copy)


def drop_shadow(layout: Layout[T], table: TableId) -> Iterator[Step]:
    """Drop what is left of a copy of the table."""
    copy = shadow_of(table)
    if layout.get(copy) is not None:
        yield op.DropShadowOp(table, copy)
        layout.remove(copy)


def swap_shadow(rules: TableRules[T], layout: Layout[T], table: ActualTable[T]) -> Iterator[Step]:
    """The copy takes the place of the table. Raises ChangeRefused when there is none."""
    copy = layout.get(shadow_of(table.id))
    if copy is None:
        raise ChangeRefused(
            f"{shadow_of(table.id)}, which holds the copy of the table, does not exist",
            where=str(table.id),
            hint=f"it was dropped or renamed in {rules.name}; restore it, or start with a new --state-dir",
        )
    yield op.SwapShadowOp(table.id, copy.id, replace(copy, id=table.id))
    layout.put(replace(copy, id=table.id))
    layout.remove(copy.id)
