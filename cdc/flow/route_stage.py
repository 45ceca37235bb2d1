"""The states of tables behind the events of a batch, and the operations of the sink. Driver."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from cdc.errors import ChangeRefused
from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior
from cdc.evolution.journal import digest
from cdc.flow.held import HeldTables, held_tables
from cdc.flow.routing import Routing
from cdc.route import Target
from cdc.schema import CreateTable, SchemaChange, TableId
from cdc.schema_json import change_name
from cdc.source import Snapshots, Source
from cdc.tables import events as on
from cdc.tables.entry import TableViews, Try
from cdc.tables.log import TableLog
from cdc.tables.machine import BatchPlan, Machine, planned
from cdc.tables.orders import open_orders
from cdc.tables.requests import Mailbox, Request, RequestKind
from cdc.tables.sinks import with_shard
from cdc.tables.states import NO_MEMBER, OPEN_ORDERS, Pair, PairState, Schemas, Tables, TableState
from cdc.tables.table_map import Circumstances

log = logging.getLogger(__name__)

_TOUCHES = frozenset(("drop.shadow", "create.shadow", "drop.table", "rename.table", "swap.shadow", "truncate.table"))
"""Names of changes that begin or end a shadow table, or take it with them."""


_EVENTS: Mapping[RequestKind, Callable[[TableId], on.Event]] = {
    RequestKind.SNAPSHOT: on.SnapshotRequested,
    RequestKind.PAUSE: on.PauseRequested,
    RequestKind.RESUME: on.ResumeRequested,
}


class RouteStage:
    """Runs the transition table over the events of a batch.

    Attributes:
        held: counts the notices of the last batch, by their names and sink tables.
        expected: sink tables that were not created, as that is left out, with the columns that they have to have.
        not_created: the same tables, as the source created them.
        taken: requests that the last batch has taken in.
    """

    def __init__(
        self,
        routing: Routing,
        log: TableLog,
        requests: Mailbox,
        source: Source,
        *,
        shadows: bool,
    ) -> None:
        """`shadows`: whether the sink has shadow tables."""
        self._routing, self._log, self._requests = routing, log, requests
        self._source, self._shadows = source, shadows
        self._before = self._after = TableViews()
        self._tries: Sequence[Try] = ()
        self.held: Counter[str] = Counter()
        self.expected: Sequence[CreateTable] = ()
        self.not_created: Schemas = {}
        self.taken: Sequence[Request] = ()

    def begin(self, tries: Sequence[Try]) -> None:
        """Shadow tables may be as these tries have left them."""
        self._tries = tries

    def derive(
        self, batch: int, before: TableViews, after: TableViews, told: Sequence[on.Event]
    ) -> tuple[Sequence[SchemaChange], TableViews]:
        """The operations of a batch, and the tables behind it. Raises ChangeRefused for what must not be carried out,
        EngineError.

        `before` are the tables before the batch, `after` has their schemas of source and rules behind it. Of the first
        batch of a run also the operations that edited routes make.
        """
        self.held = Counter()
        self.expected, self.not_created = (), {}
        self.taken = self._requests.open()
        self._before = before
        same = before.routes == self._routing.table.to_json()
        if not told and not self.taken and same and not self._tries:
            self._after = after
            return (), after
        found = self._as_before(batch, before.tables, told)
        for notice in found.notices:
            log.warning("%s: %s", notice.table, notice.text)
            self.held[f"{'' if notice.done else 'held-back '}{notice.name} {notice.table}"] += 1
        self.expected = found.expected
        created = {notice.table: notice.expected for notice in found.notices}
        self.not_created = {table: schema for table, schema in created.items() if schema is not None}
        self._check_orders(found.after, batch)
        self._after = after.with_tables(found.after)
        return found.operations, self._after

    def _as_before(self, batch: int, before: Tables, told: Sequence[on.Event]) -> BatchPlan:
        """The same that an earlier run has come to for the batch, which it may have carried out.

        Where the file was edited since they are others: nobody knows then what is in the shadow tables that those have
        touched, and these begin again.
        """
        events = [*(_EVENTS[each.kind](each.table) for each in self.taken), *told]
        now = self._now(batch)
        found = planned(now, before, events)
        if self._tries and self._tries[-1].digest != asked(found.operations).digest:
            operations = (each for one in self._tries for each in one.operations)
            touched = {table for name, table in operations if name in _TOUCHES}
            found = planned(now, before, events, touched)
        self._tries = ()
        return found

    def _now(self, batch: int) -> Circumstances:
        return Circumstances(self._routing.table, self._routing.policy, self._shadows, self._always, batch)

    def _always(self, table: TableId) -> bool:
        return self._source.snapshots(table) is Snapshots.ALWAYS

    def _check_orders(self, tables: Tables, batch: int) -> None:
        """Raise ChangeRefused for an order of this batch that the source does not carry out."""
        new = {source for (source, _), pair in tables.pairs.items() if pair.since == batch}
        for table, order in open_orders(tables).items():
            wanted = Snapshots.ALWAYS if order.limited else Snapshots.WHEN_ASKED
            able = self._source.snapshots(table) in (Snapshots.ALWAYS, wanted)
            if table in new and not able and self._source.captures(table):
                hint = "take the edit back, or start anew with another --state-dir"
                raise ChangeRefused(
                    f"{order.reason}, and its source does not copy it anew", where=str(table), hint=hint
                )

    def is_requested(self, table: TableId) -> bool:
        """Whether a user has asked for a snapshot of a source table of this sink table, which has not begun."""
        return any(
            place == table and (pair.asked or (pair.by_user and pair.state in OPEN_ORDERS))
            for (_, place), pair in self._after.tables.pairs.items()
        )

    def tables_held(self, before: TableViews) -> HeldTables:
        """The source tables that a batch leaves out, of the tables before it."""
        return held_tables(before, self._requests.open())

    def only(self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange]) -> None:
        """The sink has refused some of the batch's changes: its tables are as those carried out have made them."""
        self._count(refused)
        self._rewrite(batch, carried_out, self._after.tables)

    def wait(
        self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange], pairs: Iterable[Pair]
    ) -> None:
        """Keep `carried_out` as `only`; these tables wait for a snapshot from here on, which has the refused ones."""
        self._count(refused)
        machine = Machine(self._now(batch), self._after.tables)
        for source, table in pairs:
            if machine.tables.state((source, table)) is not TableState.SUSPENDED:
                machine.take(on.ChangeRefused(source, Target(table), "a change of its schema", curable=True))
        self._rewrite(batch, carried_out, machine.plan().after)

    def _count(self, refused: Sequence[SchemaChange]) -> None:
        for change in refused:
            self.held[f"refused-by-sink {change_name(change)} {change.table}"] += 1

    def _rewrite(self, batch: int, carried_out: Sequence[SchemaChange], tables: Tables) -> None:
        """The entry of the batch, of which only a part was carried out."""
        sinks = apply_changes(self._before.sink, carried_out)
        pairs = {pair: _with_sink(record, pair[1] in sinks, batch) for pair, record in tables.pairs.items()}
        self._after = self._after.with_tables(replace(tables, sinks=sinks, pairs=pairs))
        tries = self._log.tries(batch)
        self._log.write(batch, self._after, tries[-1] if tries else None)

    def only_source(self, table: TableId) -> TableId | None:
        """The one source table of a sink table that can be replaced by a snapshot of it.

        None where others go or went there, where it is to stay as it is, and where it has columns that the source table
        does not have any more.
        """
        if self._routing.policy.behavior is Behavior.IGNORE or self._after.tables.sink_state(table).merged:
            return None
        sources = self._after.rules
        found = [
            (source, target)
            for source in sources
            for target in self._routing.table.targets(source)
            if target.table == table
        ]
        if len(found) != 1:
            return None
        source, target = found[0]
        names = {name.casefold() for name in with_shard(sources[source], target).names}
        there = self._after.sink.get(table)
        kept = there is not None and {name.casefold() for name in there.names} <= names
        return source if kept else None

    @property
    def before(self) -> Schemas:
        """The sink's tables before the batch that was derived last."""
        return self._before.sink

    def decided(self) -> None:
        """The batch that was derived last is decided. Raises StateError."""
        self._requests.remove(self.taken)


def asked(operations: Sequence[SchemaChange]) -> Try:
    """The operations that the sink is asked for, as the log has them."""
    if not operations:
        return Try()
    return Try(tuple((change_name(each), each.table) for each in operations), digest(operations))


def _with_sink(record: PairState, there: bool, batch: int) -> PairState:
    """The record of a pair whose sink table is there or is not, as the sink has refused to create it."""
    if there or record.state in NO_MEMBER or record.state is TableState.MISSING:
        return record
    return PairState(TableState.MISSING, batch)
