"""All tables of a pipeline while the events of one batch are handled. Driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cdc.errors import ChangeRefused
from cdc.evolution.behavior import Policy
from cdc.route import RouteTable
from cdc.schema import TableId, TableSchema
from cdc.tables.events import ShadowBegun, TableRenamed
from cdc.tables.sinks import SinkMap
from cdc.tables.states import ABSENT, NO_MEMBER, Pair, PairState, Tables, TableState


def _every_table(table: TableId) -> bool:
    return True


class ExistingRows(StrEnum):
    """`pipeline.existing-rows`: how rows that a sink table has before its first snapshot are handled."""

    UPSERT = "upsert"
    """With a key, the snapshot is upserted and rows that the source lacks stay. Without a key the run stops."""
    APPEND = "append"
    """With a key as `upsert`; without a key the snapshot is appended."""
    REPLACE = "replace"
    """The snapshot replaces them once it is complete."""
    FAIL = "fail"
    """The run stops."""

    def refuses(self, schema: TableSchema) -> bool:
        """Whether the run stops at a table with rows; `schema` is its new schema."""
        return self is ExistingRows.FAIL or (self is ExistingRows.UPSERT and not schema.primary_key)

    def refusal(self, table: TableId, schema: TableSchema) -> ChangeRefused:
        """The error of a run that stops at a table with rows."""
        twice = "" if schema.primary_key else ", which would be there twice, as it has no key"
        hint = (
            "empty or drop it; or write pipeline.existing-rows: replace, so that the snapshot takes their place, or "
            "append, so that they stay"
        )
        return ChangeRefused(f"holds rows already{twice}", where=str(table), hint=hint)


def _none(table: TableId) -> bool:
    return False


@dataclass(frozen=True)
class Circumstances:
    """The current settings of the pipeline that conditions read, besides the tables.

    Attributes:
        route, policy: of the pipeline file.
        shadows: whether the sink has shadow tables.
        snapshots: whether the source re-snapshots a table on request.
        batch: number of the current batch.
        existing_rows: of the pipeline file.
        holds_rows: whether a sink table that is new to the pipeline has rows.
    """

    route: RouteTable = field(default_factory=RouteTable)
    policy: Policy = field(default_factory=Policy)
    shadows: bool = True
    snapshots: Callable[[TableId], bool] = _every_table
    batch: int = 0
    existing_rows: ExistingRows = ExistingRows.UPSERT
    holds_rows: Callable[[TableId], bool] = _none


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Sink tables that may have another form than before the batch, as earlier tries of it had other operations.

    Attributes:
        shadows: their shadow tables have unknown content: these are recreated, or dropped if not needed.
        lacking: they may be missing or lack columns.
        narrow: their columns may have narrower types.
        rekeyed: they may have another key.
    """

    shadows: Sequence[TableId] = ()
    lacking: Sequence[TableId] = ()
    narrow: Sequence[TableId] = ()
    rekeyed: Sequence[TableId] = ()


NO_LEFTOVERS = Leftovers()
"""There were no earlier tries, or they had the same operations."""


class TableMap:
    """All tables after the events handled so far.

    Attributes:
        now: the current settings of the pipeline.
        sources: schemas of the source tables.
        sinks: the sink tables, with the operations planned so far.
        known: the sink tables before the batch, including those that it drops.
        follow_ups: events for other pairs caused by an operation; they are handled right after the operation.
        renames: renames of source tables that the batch still has, in order.
    """

    def __init__(self, now: Circumstances, before: Tables) -> None:
        self.now = now
        self.sources = dict(before.sources)
        self.sinks = SinkMap(now.policy, before.sinks, before.states, shadows=now.shadows)
        self.known = frozenset(before.sinks)
        self.follow_ups: list[ShadowBegun] = []
        self.renames: list[TableRenamed] = []
        self._pairs: dict[Pair, PairState] = {}
        self._members: dict[TableId, set[TableId]] = {}
        self._sinks_of: dict[TableId, set[TableId]] = {}
        for pair, record in before.pairs.items():
            self.set_pair(pair, record)
        self._merge_routed()

    def tables(self) -> Tables:
        """The tables, as frozen values."""
        return Tables(self.sources, self.sinks.schemas, self._pairs, self.sinks.states, self.now.route.to_json())

    def state(self, pair: Pair) -> TableState:
        """The state of a pair."""
        return self._pairs.get(pair, ABSENT).state

    def pair(self, pair: Pair) -> PairState:
        """The record of a pair."""
        return self._pairs.get(pair, ABSENT)

    def members(self, table: TableId) -> set[TableId]:
        """The source tables that feed a sink table."""
        return self._members.get(table, set())

    def set_pair(self, pair: Pair, record: PairState) -> None:
        """Set the record of a pair."""
        source, table = pair
        sinks = self._sinks_of.setdefault(source, set())
        if record.state is TableState.ABSENT:
            self._pairs.pop(pair, None)
            sinks.discard(table)
        else:
            self._pairs[pair] = record
            sinks.add(table)
        members = self._members.setdefault(table, set())
        if record.state in NO_MEMBER:
            members.discard(source)
        else:
            members.add(source)

    def pairs_of(self, source: TableId) -> Iterator[Pair]:
        """The pairs of a source table, by the current routes."""
        return ((source, target.table) for target in self.now.route.targets(source))

    def states_of(self, source: TableId) -> set[TableState]:
        """The states of all pairs of a source table, including those of earlier routes."""
        return {self._pairs[source, table].state for table in self._sinks_of.get(source, ())}

    def last_name(self, source: TableId) -> TableId:
        """The name of a source table at the end of the batch: swaps of names use one that need not be captured."""
        for rename in self.renames:
            source = rename.new_table if rename.table == source else source
        return source

    def merge(self, table: TableId, source: TableId) -> None:
        """Mark a sink table as merged if source tables other than this one feed it."""
        members = self.members(table)
        if len(members) > (source in members):
            self.sinks.merge(table)

    def _merge_routed(self) -> None:
        """Mark tables that several source tables are routed to as merged, before any event is handled."""
        routed: set[TableId] = set()
        for source in self.sources:
            for _, table in self.pairs_of(source):
                if table in routed:
                    self.sinks.merge(table)
                routed.add(table)
