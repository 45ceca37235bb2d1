"""Parts of a plan: operations, checks of rows, remarks. Frozen values, created by the planner."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.evolution.operations import Operation
from cdc.schema import SchemaChange, TableId
from cdc.types.certain import Rows, UncertainValues


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement of an operation.

    Attributes:
        job: the sink may execute it in a background job of `table` that has to be waited for.
        undo: a statement that undoes what earlier statements did only for this one, should it be refused.
    """

    table: TableId
    sql: str
    job: bool = False
    undo: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """Refuses a change, with `reason`, when the table has any of these `rows`, by the value of a column."""

    table: TableId
    column: str
    rows: Rows
    reason: str


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Refuses a change, with `reason`, when two rows of the table have the same values in the columns of `key`."""

    table: TableId
    key: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeRemark:
    """Something that the user should know about an applied change."""

    table: TableId
    text: str


Step = Operation | Check | KeyCheck | ChangeRemark


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One schema change and its missing steps, in order; none when it is already applied.

    Attributes:
        uncertain: set when the log does not determine the values of existing rows after the change. The steps then
            check that there are no such rows.
    """

    change: SchemaChange
    steps: tuple[Step, ...] = ()
    uncertain: UncertainValues | None = None
