"""Events in the life of a table: those of sources (`cdc.events`), and the engine's own. Frozen values.

All events of a batch are handled before its rows, those of the source in the order of its log.
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
    """A re-snapshot of a table is requested. `by_user`: by a user, not as rules compute its rows otherwise."""

    table: TableId
    why: str = "cdc resync"
    by_user: bool = True


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """A user has paused a table: its rows and changes are to be skipped."""

    table: TableId


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """A user has resumed a paused table."""

    table: TableId


@dataclass(frozen=True, slots=True)
class RouteAdded:
    """The current routes lead a source table to a sink table that it was not routed to before."""

    table: TableId
    target: Target


@dataclass(frozen=True, slots=True)
class RouteRemoved:
    """The current routes no longer lead a source table to a sink table."""

    table: TableId
    target: Target


@dataclass(frozen=True, slots=True)
class RowsUnfit:
    """The current behavior requires all columns of the rows in the sink table, and some were skipped before."""

    table: TableId
    target: Target


@dataclass(frozen=True, slots=True)
class OperationRefused:
    """The sink has refused an operation planned for the pair. `resnapshot_helps`: a re-snapshot includes its change."""

    table: TableId
    target: Target
    reason: str
    resnapshot_helps: bool = False


@dataclass(frozen=True, slots=True)
class ShadowBegun:
    """An empty shadow table of the sink table is created because of another of its source tables."""

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
"""All types of events."""
