"""Events in the life of a table: those that sources tell (`cdc.events`), and the engine's own. Frozen values.

All events of a batch come before its rows, those of the source in the order of its log.
"""

from __future__ import annotations

from dataclasses import dataclass

from cdc.events import (
    Alteration,
    CaptureEnded,
    RowsUncertain,
    SnapshotBegun,
    SnapshotDone,
    SnapshotVoid,
    SourceEvent,
    TableChanged,
    TableCreated,
    TableDropped,
    TableRenamed,
    TableTruncated,
    Uncertain,
)
from cdc.route import Target
from cdc.schema import TableId

__all__ = [
    "EVENTS",
    "Alteration",
    "CaptureEnded",
    "Event",
    "OperationRefused",
    "PauseRequested",
    "ResumeRequested",
    "RouteAdded",
    "RouteRemoved",
    "RowsUncertain",
    "RowsUnfit",
    "ShadowBegun",
    "SnapshotBegun",
    "SnapshotDone",
    "SnapshotRequested",
    "SnapshotVoid",
    "TableChanged",
    "TableCreated",
    "TableDropped",
    "TableRenamed",
    "TableTruncated",
    "Uncertain",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SnapshotRequested:
    """A table is to be snapshotted again. `by_user`: a user wants it."""

    table: TableId
    why: str = "cdc resync"
    by_user: bool = True


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
class RowsUnfit:
    """By the behavior of now rows have all columns of the sink table and no others; one was left out before."""

    table: TableId
    target: Target


@dataclass(frozen=True, slots=True)
class OperationRefused:
    """The sink has refused an operation that was planned for the pair. `curable`: a re-snapshot includes its change."""

    table: TableId
    target: Target
    reason: str
    curable: bool = False


@dataclass(frozen=True, slots=True)
class ShadowBegun:
    """The shadow table of a sink table begins empty, for the sake of another of its source tables."""

    table: TableId
    target: Target


Event = (
    SourceEvent
    | SnapshotRequested
    | PauseRequested
    | ResumeRequested
    | RouteAdded
    | RouteRemoved
    | RowsUnfit
    | OperationRefused
    | ShadowBegun
)

EVENTS: tuple[type[Event], ...] = (
    TableCreated, TableChanged, RowsUncertain, TableTruncated, TableDropped, TableRenamed, CaptureEnded, SnapshotVoid,
    SnapshotBegun, SnapshotDone, SnapshotRequested, PauseRequested, ResumeRequested, RouteAdded, RouteRemoved,
    RowsUnfit, OperationRefused, ShadowBegun,
)  # fmt: skip
"""All kinds of events."""
