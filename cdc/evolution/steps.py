"""Parts of a plan: operations, questions about rows, remarks. Frozen values, made by the planner."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.evolution.operations import Operation
from cdc.schema import SchemaChange, TableId
from cdc.types.certain import Rows, UncertainValues


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that an operation is printed as.

    Attributes:
        job: the sink may carry it out later, in a job of `table` that has to be waited for.
        undo: a statement that takes away what those before it have made for it alone, for when it is refused.
    """

    table: TableId
    sql: str
    job: bool = False
    undo: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """No row of the table may be among these `rows`, by the value of a column; else the change is refused: `reason`."""

    table: TableId
    column: str
    rows: Rows
    reason: str


@dataclass(frozen=True, slots=True)
class ChangeRemark:
    """Something that the user should know about a change that is carried out."""

    table: TableId
    text: str


Step = Operation | Check | ChangeRemark


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One schema change and the steps that are missing for it, in order; none when it is carried out already.

    Attributes:
        uncertain: set when the log does not tell the values that rows already there have after the change. The steps
            then check that there are no such rows.
    """

    change: SchemaChange
    steps: tuple[Step, ...] = ()
    uncertain: UncertainValues | None = None
