"""Operations: what a sink has to do to its tables for a schema change. Frozen values, created by the planner.

`cdc.evolution.dialect` prints them as SQL; `cdc.evolution.api_sink` passes each to a method of a sink without SQL.
Tables in an operation are the sink's own (`cdc.evolution.table`), before it (`actual`) and after it (`new`). Every
operation may be restarted after a crash, as planning then starts from the tables that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc.evolution import table as tables
from cdc.schema import CreateTable, DataType, TableId

ActualTable = tables.ActualTable[Any]
ActualColumn = tables.ActualColumn[Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """One step. `table` is the table of the schema change, for messages and for waiting for jobs."""

    table: TableId


@dataclass(frozen=True, slots=True)
class CreateDatabaseOp(Operation):
    """Create the database of a table if it does not exist."""

    database: str


@dataclass(frozen=True, slots=True)
class CreateTableOp(Operation):
    """Create an empty table. `change` has the options from a rule; None for a table with another purpose."""

    new: ActualTable
    change: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class CreateShadowOp(Operation):
    """Create the empty shadow table `new`: like `like`, or for a new schema with the options of `change`."""

    new: ActualTable
    like: ActualTable | None = None
    change: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class SwapShadowOp(Operation):
    """Replace the table with the shadow table in one step: readers find one of them, complete. `new`: the result."""

    shadow: TableId
    new: ActualTable


@dataclass(frozen=True, slots=True)
class DropShadowOp(Operation):
    """Drop an existing shadow table."""

    shadow: TableId


@dataclass(frozen=True, slots=True)
class DropTableOp(Operation):
    """Drop the table."""


@dataclass(frozen=True, slots=True)
class TruncateTableOp(Operation):
    """Remove all rows."""


@dataclass(frozen=True, slots=True)
class RenameTableOp(Operation):
    """Rename the table within its database."""

    new: TableId


@dataclass(frozen=True, slots=True)
class MoveTableOp(Operation):
    """Move the table to another, existing database by copying its rows."""

    actual: ActualTable
    new: ActualTable


@dataclass(frozen=True, slots=True)
class CommentTableOp(Operation):
    """Change or remove the table's comment."""

    actual: ActualTable
    comment: str


@dataclass(frozen=True, slots=True)
class AddColumnOp(Operation):
    """Add a column after another one (`after`), or last; existing rows get its default."""

    actual: ActualTable
    column: ActualColumn
    after: str | None = None


@dataclass(frozen=True, slots=True)
class FillColumnOp(Operation):
    """Write the default of a column that was just added to existing rows, for `NewColumn.BACK_FILL`."""

    actual: ActualTable
    column: ActualColumn


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converts the values of `old` to the same values with the type of `new`.

    Attributes:
        before: this tool's type of the existing values.
        loose: values that do not fit become NULL, as a re-snapshot will write all rows.
    """

    old: ActualColumn
    new: ActualColumn
    before: DataType
    loose: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumnOp(Operation):
    """Change a column's type in place."""

    actual: ActualTable
    column: ActualColumn
    values: Conversion


@dataclass(frozen=True, slots=True)
class CommentColumnOp(Operation):
    """Change or remove a column's comment; `column` already has the new one."""

    actual: ActualTable
    column: ActualColumn


@dataclass(frozen=True, slots=True)
class RenameColumnOp(Operation):
    """Rename a column."""

    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumnOp(Operation):
    """Drop a column."""

    name: str


@dataclass(frozen=True, slots=True)
class RebuildTableOp(Operation):
    """Replace the table with a copy, created as `copy`, with the columns, types and key of `new`.

    `values` are the conversions of columns of `new`, by name; the other columns are copied unchanged.
    """

    actual: ActualTable
    new: ActualTable
    copy: TableId
    values: Mapping[str, Conversion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropCopyOp(Operation):
    """Drop the copy left over by a `RebuildTableOp` when the process died, if it exists."""

    copy: TableId


def text_of(operation: Operation) -> str:
    """Describe the operation for people, as in `cdc plan`: without SQL."""
    name = type(operation).__name__.removesuffix("Op")
    verb = "".join(f" {char.lower()}" if char.isupper() else char for char in name).strip()
    match operation:
        case CreateTableOp(new=new) | CreateShadowOp(new=new) | RebuildTableOp(new=new):
            columns = ", ".join(f"{column.name} {column.type}" for column in new.columns)
            key = f", key ({', '.join(new.key)})" if new.key else ""
            return f"{verb} {new.id} ({columns}{key})"
        case RenameTableOp(new=new_name):
            return f"{verb} {operation.table} to {new_name}"
        case MoveTableOp(new=new):
            return f"{verb} {operation.table} to {new.id}"
        case AddColumnOp(column=column) | AlterColumnOp(column=column) | FillColumnOp(column=column):
            default = "" if column.default is None else f" default {column.default!r}"
            return f"{verb} {operation.table}.{column.name} {column.type}{default}"
        case RenameColumnOp(old_name=old_name, new_name=new_name):
            return f"{verb} {operation.table}.{old_name} to {new_name}"
        case DropColumnOp(name=name):
            return f"{verb} {operation.table}.{name}"
        case CreateDatabaseOp(database=database):
            return f"{verb} {database}"
        case _:
            return f"{verb} {operation.table}"
