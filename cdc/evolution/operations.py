"""Operations: what a sink has to do to its tables for a schema change. Frozen values, made by the planner.

`cdc.evolution.dialect` prints them as SQL; `cdc.evolution.api_sink` hands each to a method of a sink without SQL.
Tables in an operation are the sink's own (`cdc.evolution.table`): as they are before it (`actual`), and after it
(`new`). Every operation may be started over after a crash, as planning starts from the tables that are there then.
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
    """One step. `table` is the table that the schema change is about, for messages and for jobs that are waited for."""

    table: TableId


@dataclass(frozen=True, slots=True)
class CreateDatabaseOp(Operation):
    """The database of a table, when there is none."""

    database: str


@dataclass(frozen=True, slots=True)
class CreateTableOp(Operation):
    """A new, empty table. `change` has the options that a rule gives it, None where it is made for something else."""

    new: ActualTable
    change: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class CreateShadowOp(Operation):
    """An empty shadow table `new`; as `like` is made, or for a new schema with the options of `change`."""

    new: ActualTable
    like: ActualTable | None = None
    change: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class SwapShadowOp(Operation):
    """The shadow table takes the place of the table in one step: readers find one of them, whole. `new`: it then."""

    shadow: TableId
    new: ActualTable


@dataclass(frozen=True, slots=True)
class DropShadowOp(Operation):
    """A shadow table that exists goes."""

    shadow: TableId


@dataclass(frozen=True, slots=True)
class DropTableOp(Operation):
    """The table goes."""


@dataclass(frozen=True, slots=True)
class TruncateTableOp(Operation):
    """All rows go."""


@dataclass(frozen=True, slots=True)
class RenameTableOp(Operation):
    """Another name inside of the table's database."""

    new: TableId


@dataclass(frozen=True, slots=True)
class MoveTableOp(Operation):
    """A name in another database, which exists: rows are copied."""

    actual: ActualTable
    new: ActualTable


@dataclass(frozen=True, slots=True)
class CommentTableOp(Operation):
    """Another comment, or none."""

    actual: ActualTable
    comment: str


@dataclass(frozen=True, slots=True)
class AddColumnOp(Operation):
    """A column behind another (`after`), or last; rows that are there get its default."""

    actual: ActualTable
    column: ActualColumn
    after: str | None = None


@dataclass(frozen=True, slots=True)
class FillColumnOp(Operation):
    """Rows that are there get the default of a column that was just added, for `NewColumn.BACK_FILL`."""

    actual: ActualTable
    column: ActualColumn


@dataclass(frozen=True, slots=True)
class Conversion:
    """The values of `new` from those of `old`: the same ones, under another type.

    Attributes:
        before: this tool's type of the values that are there.
        loose: NULL for what does not fit, as a re-snapshot brings the rows.
    """

    old: ActualColumn
    new: ActualColumn
    before: DataType
    loose: bool = False


@dataclass(frozen=True, slots=True)
class AlterColumnOp(Operation):
    """Another type in place."""

    actual: ActualTable
    column: ActualColumn
    values: Conversion


@dataclass(frozen=True, slots=True)
class CommentColumnOp(Operation):
    """Another comment of a column, or none; `column` has it already."""

    actual: ActualTable
    column: ActualColumn


@dataclass(frozen=True, slots=True)
class RenameColumnOp(Operation):
    """Another name of a column."""

    old_name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumnOp(Operation):
    """A column goes."""

    name: str


@dataclass(frozen=True, slots=True)
class RebuildTableOp(Operation):
    """A copy of the table under the name `copy`, with the columns, types and key of `new`, takes its place.

    `values` are for columns of `new` by name; the others keep theirs.
    """

    actual: ActualTable
    new: ActualTable
    copy: TableId
    values: Mapping[str, Conversion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropCopyOp(Operation):
    """A copy that `RebuildTableOp` left when the process died goes, when there is one."""

    copy: TableId


def text_of(operation: Operation) -> str:
    """The operation for people, in words of `cdc plan`: no SQL."""
    name = type(operation).__name__.removesuffix("Op")
    verb = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
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
