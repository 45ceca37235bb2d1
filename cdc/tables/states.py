"""The states of a table on its way into the sink. Frozen values, no I/O.

A *pair* is a source table and one of the sink tables that its rows go to; each pair has one state. Its rows come in
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
    """The state of a pair; `MEANING` says what each is, `cdc.tables.router` which rows a table gets in it."""

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
    TableState.ABSENT: "the source table is not there, or its rows never went to the sink table",
    TableState.SNAPSHOT: "a first snapshot fills the table",
    TableState.LIVE: "the table follows the log",
    TableState.REQUESTED: "the table follows the log; the source has been asked for a re-snapshot",
    TableState.SUSPENDED: "rows and changes are held back until the re-snapshot that the source has been asked for",
    TableState.SHADOW: "a re-snapshot fills a shadow table; the live table follows the log",
    TableState.FROZEN: "a re-snapshot fills a shadow table; the live table stays as it is",
    TableState.OVERWRITE: "a re-snapshot is written over the rows of the live table, which follows the log",
    TableState.PAUSED: "`cdc pause`: rows and changes are left out",
    TableState.RESUMED: "`cdc resume`: rows and changes are left out until a re-snapshot begins",
    TableState.MISSING: "the sink has refused to create the table: its rows are counted and left out",
    TableState.DETACHED: "nobody follows the source table into the sink table any more; rows of before stay",
}
"""The states in words."""

OPEN_ORDERS = frozenset({TableState.REQUESTED, TableState.SUSPENDED, TableState.RESUMED})
"""States in which the source is asked for a snapshot."""

SNAPSHOTTED = frozenset({TableState.SNAPSHOT, TableState.SHADOW, TableState.FROZEN, TableState.OVERWRITE})
"""States in which a snapshot of the source table runs."""

NO_MEMBER = frozenset({TableState.ABSENT, TableState.DETACHED})
"""States in which a source table has nothing to do with the sink table."""

AWAITED = OPEN_ORDERS | {TableState.SHADOW, TableState.FROZEN}
"""States of which no pair may be before a shadow table is swapped in."""

IN_SHADOW = frozenset({TableState.SNAPSHOT, TableState.LIVE, TableState.SHADOW, TableState.FROZEN})
"""States in which rows of the pair are in the shadow table, where there is one."""


@dataclass(frozen=True, slots=True)
class PairState:
    """The state of one pair.

    Attributes:
        state: see `TableState`.
        since: number of the batch in which it got there.
        why: for people, what led there; the reason of the order for a snapshot.
        by_user: whether a user has asked for the snapshot that it waits for: no size limit holds for that one.
        ordered: a snapshot is ordered after the one that runs, or for one that is void.
    """

    state: TableState
    since: int = 0
    why: str = ""
    by_user: bool = False
    ordered: bool = False

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads; what is as it mostly is, is left out."""
        found: dict[str, Any] = {"state": str(self.state), "since": self.since}
        found |= {"why": self.why} if self.why else {}
        found |= {"by": "user"} if self.by_user else {}
        return found | ({"ordered": True} if self.ordered else {})

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> PairState:
        """The record that `to_json` wrote. Raises ValueError, KeyError."""
        by_user, ordered = fields.get("by") == "user", bool(fields.get("ordered"))
        return cls(TableState(fields["state"]), int(fields["since"]), str(fields.get("why", "")), by_user, ordered)


@dataclass(frozen=True, slots=True)
class SinkState:
    """The state of a sink table that is there.

    Attributes:
        merged: several source tables go there, or went there; it stays so.
        shadowed: it has a shadow table.
        shadow: the schema of the shadow table, where that is not the schema of the table itself.
        stale: source tables whose rows of an earlier time are in it, which nobody has followed since.
    """

    merged: bool = False
    shadowed: bool = False
    shadow: TableSchema | None = None
    stale: frozenset[TableId] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads; what is as it mostly is, is left out."""
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
        pairs: the states of pairs; those that are not there are ABSENT.
        states: the states of sink tables; those that are not there are as `SinkState()`.
        routes: the routes that led rows to their tables (`RouteTable.to_json`); None where no batch was decided.
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
        """Source tables with a pair in one of these states."""
        return frozenset(source for (source, _), pair in self.pairs.items() if pair.state in states)

    @property
    def merged(self) -> frozenset[TableId]:
        """Sink tables that several source tables go to, or went to."""
        return frozenset(table for table, state in self.states.items() if state.merged)
