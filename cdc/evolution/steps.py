"""What a plan consists of: statements, queries that must find nothing, remarks. Frozen values, made by the planner."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.evolution.certain import Uncertain
from cdc.schema import SchemaChange, TableId


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

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
    """A query that must find no row; otherwise the change is refused for `reason`."""

    table: TableId
    sql: str
    reason: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that the user should know about a change that is carried out."""

    table: TableId
    text: str


Step = Statement | Check | Remark


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One schema change and the steps that are missing for it, in order; none when it is carried out already.

    Attributes:
        uncertain: set when the log does not tell the values that rows already there have after the change. The steps
            then convert them as the source's server is known to, or check that there are no such rows.
    """

    change: SchemaChange
    steps: tuple[Step, ...] = ()
    uncertain: Uncertain | None = None
