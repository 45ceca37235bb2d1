"""The states of a table. Frozen values, no I/O.

A *pair* is a source table and one of the sink tables it is routed to; each pair has one state. Its rows arrive in
streams (`cdc.block.Stream`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cdc.schema import TableId, TableSchema
from cdc.schema_json import schema_from_json, schema_to_json, table_from_json, table_to_json

Pair = tuple[TableId, TableId]
"""A source table and one of its sink tables."""

Schemas = Mapping[TableId, TableSchema]


class TableState(StrEnum):
    """The state of a pair; `MEANING` describes each, `cdc.tables.router` has the rows that a table gets in it."""

    ABSENT = "absent"
    SNAPSHOT = "snapshot"
    LIVE = "live"
    REQUESTED = "requested"
    SUSPENDED = "suspended"
    SHADOW = "shadow"
    FROZEN = "frozen"
    OVERWRITE = "overwrite"
    PAUSED = "paused"
    RESUMED = "resumed"
    MISSING = "missing"
    DETACHED = "detached"


MEANING: Mapping[TableState, str] = {
    TableState.ABSENT: "the source table does not exist, or was never routed to the sink table",
    TableState.SNAPSHOT: "the first snapshot fills the table",
    TableState.LIVE: "the table follows the log",
    TableState.REQUESTED: "the table follows the log; a re-snapshot is requested from the source",
    TableState.SUSPENDED: "rows and changes are held back until the requested re-snapshot begins",
    TableState.SHADOW: "a re-snapshot fills a shadow table; the live table follows the log",
    TableState.FROZEN: "a re-snapshot fills a shadow table; the live table stays as it is",
    TableState.OVERWRITE: "a re-snapshot is upserted into the live table, which follows the log",
    TableState.PAUSED: "`cdc pause`: rows and changes are skipped",
    TableState.RESUMED: "`cdc resume`: rows and changes are skipped until a re-snapshot begins",
    TableState.MISSING: "the sink has refused to create the table: its rows are counted and skipped",
    TableState.DETACHED: "the source table is no longer followed into the sink table; its earlier rows stay",
}
"""A description of each state."""

OPEN_ORDERS = frozenset({TableState.REQUESTED, TableState.SUSPENDED, TableState.RESUMED})
"""States in which a snapshot is requested from the source."""

SNAPSHOTTED = frozenset({TableState.SNAPSHOT, TableState.SHADOW, TableState.FROZEN, TableState.OVERWRITE})
"""States in which a snapshot of the source table is running."""

NO_MEMBER = frozenset({TableState.ABSENT, TableState.DETACHED})
"""States in which the source table does not feed the sink table."""

AWAITED = OPEN_ORDERS | {TableState.SHADOW, TableState.FROZEN}
"""States that prevent the swap of a shadow table while any pair of the sink table is in them."""

IN_SHADOW = frozenset({TableState.SNAPSHOT, TableState.LIVE, TableState.SHADOW, TableState.FROZEN})
"""States in which the shadow table, if there is one, has rows of the pair."""


@dataclass(frozen=True, slots=True)
class PairState:
    """The state of one pair.

    Attributes:
        state: see `TableState`.
        since: number of the batch in which the pair entered the state.
        why: the reason for the state or for the requested snapshot, for people.
        by_user: whether a user requested the pending snapshot: the size limit for snapshots does not apply then.
        ordered: whether another snapshot is requested after the running one, or to replace a void one.
    """

    state: TableState
    since: int = 0
    why: str = ""
    by_user: bool = False
    ordered: bool = False

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads; default values are omitted."""
        found: dict[str, Any] = {"state": str(self.state), "since": self.since}
        found |= {"why": self.why} if self.why else {}
        found |= {"by": "user"} if self.by_user else {}
        return found | ({"ordered": True} if self.ordered else {})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> PairState:
        """The state that `to_json` wrote. Raises ValueError, KeyError."""
        by_user, ordered = fields.get("by") == "user", bool(fields.get("ordered"))
        return cls(TableState(fields["state"]), int(fields["since"]), str(fields.get("why", "")), by_user, ordered)


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of an existing sink table.

    Attributes:
        merged: whether several source tables are, or ever were, routed to it.
        shadowed: whether it has a shadow table.
        shadow: the schema of the shadow table, if it differs from that of the table.
        stale: source tables whose rows in it are outdated, as they were not followed for a while.
    """

    merged: bool = False
    shadowed: bool = False
    shadow: TableSchema | None = None
    stale: frozenset[TableId] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads; default values are omitted."""
        found: dict[str, Any] = {name: True for name in ("merged", "shadowed") if getattr(self, name)}
        found |= {} if self.shadow is None else {"shadow": schema_to_json(self.shadow)}
        return found | ({"stale": [table_to_json(table) for table in sorted(self.stale)]} if self.stale else {})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> SinkState:
        """The state that `to_json` wrote. Raises ValueError, KeyError."""
        stale = frozenset(map(table_from_json, fields.get("stale", ())))
        shadow = fields.get("shadow")
        schema = None if shadow is None else schema_from_json(shadow)
        return cls(bool(fields.get("merged")), bool(fields.get("shadowed")), schema, stale)


ABSENT = PairState(TableState.ABSENT)
FRESH = SinkState()


@dataclass(frozen=True)
class Tables:
    """All tables of a pipeline at one point of the source's log.

    Attributes:
        sources: schemas of the source tables, after the transform rules.
        sinks: schemas of the sink tables.
        pairs: states of pairs; a missing one is ABSENT.
        states: states of sink tables; a missing one is `SinkState()`.
        routes: the routes in effect (`RouteTable.to_json`); None before the first decided batch.
    """

    sources: Schemas = field(default_factory=dict)
    sinks: Schemas = field(default_factory=dict)
    pairs: Mapping[Pair, PairState] = field(default_factory=dict)
    states: Mapping[TableId, SinkState] = field(default_factory=dict)
    routes: Mapping[str, Any] | None = None

    def state(self, pair: Pair) -> TableState:
        """The state of a pair."""
        return self.pairs.get(pair, ABSENT).state

    def sink_state(self, table: TableId) -> SinkState:
        """The state of a sink table."""
        return self.states.get(table, FRESH)

    def in_state(self, *states: TableState) -> frozenset[TableId]:
        """The source tables with a pair in one of these states."""
        return frozenset(source for (source, _), pair in self.pairs.items() if pair.state in states)

    @property
    def merged(self) -> frozenset[TableId]:
        """The sink tables to which several source tables are, or ever were, routed."""
        return frozenset(table for table, state in self.states.items() if state.merged)
