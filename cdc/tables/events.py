"""Events in the life of a table. Frozen values.

All events of a batch come before its rows, those of the source in the order of its log.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.route import Target
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    AlterPrimaryKey,
    AlterTableComment,
    CreateTable,
    DropColumn,
    RenameColumn,
    RenameColumns,
    SourceStatement,
    TableId,
)

Alteration = (
    AddColumn | AlterColumnType | AlterPrimaryKey | AlterTableComment | DropColumn | RenameColumn | RenameColumns
)


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Why a source's log does not tell the rows of a table from here on.

    Attributes:
        reason: for people.
        same_rows: there are the same rows by their key, with other values.
    """

    reason: str
    same_rows: bool = False


@dataclass(frozen=True, slots=True)
class TableCreated:
    """A source table is there from here on. Its rows are in the log, or a snapshot brings them (`by_snapshot`)."""

    table: TableId
    created: CreateTable
    by_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class TableChanged:
    """Columns, key or comment of a source table are changed. `uncertain`: the log does not tell the rows behind it."""

    table: TableId
    change: Alteration
    uncertain: Uncertain | None = None


@dataclass(frozen=True, slots=True)
class RowsUncertain:
    """The log does not tell the rows of a source table from here on; with `gap` a part of the log is lost."""

    table: TableId
    uncertain: Uncertain
    gap: bool = False


@dataclass(frozen=True, slots=True)
class TableTruncated:
    """A source table is emptied; the log has all rows that it gets since."""

    table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableDropped:
    """A source table is gone."""

    table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableRenamed:
    """A source table has another name, which is captured too."""

    table: TableId
    new_table: TableId
    statement: SourceStatement | None = None


@dataclass(frozen=True, slots=True)
class TableLeft:
    """A source table is not followed any more: it got a name that is not captured, or is excluded since."""

    table: TableId
    why: str


@dataclass(frozen=True, slots=True)
class SnapshotVoid:
    """The rows that the running snapshot has read do not count. Comes before the event that makes it so."""

    table: TableId


@dataclass(frozen=True, slots=True)
class SnapshotBegun:
    """A snapshot of a table begins: all of its rows come, with the schema that the source table has by now.

    Attributes:
        keys_certain: the log tells which keys there are, so that rows may be written over those that are there.
        altered: changes of the table before it were not told.
        created: the table as a rule makes it, with its options; None for the schema alone.
    """

    table: TableId
    keys_certain: bool = False
    altered: bool = False
    created: CreateTable | None = None


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """All rows of a snapshot came, and the log is behind the last of them."""

    table: TableId


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A user wants a table to be snapshotted again."""

    table: TableId
    why: str = "cdc resync"


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """A user wants rows and changes of a table to be left out."""

    table: TableId


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """A user wants a paused table to go on."""

    table: TableId


@dataclass(frozen=True, slots=True)
class RouteAdded:
    """By the routes of now, rows of a source table go to a sink table that they did not go to before."""

    table: TableId
    target: Target


@dataclass(frozen=True, slots=True)
class RouteRemoved:
    """By the routes of now, rows of a source table do not go to a sink table any more."""

    table: TableId
    target: Target


@dataclass(frozen=True, slots=True)
class ChangeRefused:
    """The sink has refused an operation that was planned for the pair. `curable`: a re-snapshot has it behind it."""

    table: TableId
    target: Target
    reason: str
    curable: bool = False


@dataclass(frozen=True, slots=True)
class SinkTableMissing:
    """The sink table is gone from the sink. `asked`: users have asked for snapshots of all tables that go there."""

    table: TableId
    target: Target
    asked: bool = False


@dataclass(frozen=True, slots=True)
class ShadowBegun:
    """The shadow table of a sink table begins empty, for the sake of another of its source tables."""

    table: TableId
    target: Target


Event = (
    TableCreated
    | TableChanged
    | RowsUncertain
    | TableTruncated
    | TableDropped
    | TableRenamed
    | TableLeft
    | SnapshotVoid
    | SnapshotBegun
    | SnapshotDone
    | SnapshotRequested
    | PauseRequested
    | ResumeRequested
    | RouteAdded
    | RouteRemoved
    | ChangeRefused
    | SinkTableMissing
    | ShadowBegun
)

EVENTS: tuple[type[Event], ...] = (
    TableCreated, TableChanged, RowsUncertain, TableTruncated, TableDropped, TableRenamed, TableLeft, SnapshotVoid,
    SnapshotBegun, SnapshotDone, SnapshotRequested, PauseRequested, ResumeRequested, RouteAdded, RouteRemoved,
    ChangeRefused, SinkTableMissing, ShadowBegun,
)  # fmt: skip
"""All kinds of events."""
