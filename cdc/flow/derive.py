"""From the events of the source to the operations of the sink, one batch after another. Driver.

    source's events --> behind the transform rules (`cdc.flow.rule_events`) --> transition table (`cdc.tables`)
                    --> operations --> sink.apply

What a batch makes of the tables is one entry of the log of tables, which the tasks read. A batch that runs again, and
the first one of a run, start from the entries that the decision before says.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cdc.errors import ChangeRefused
from cdc.events import SourceEvent, TableLeft
from cdc.evolution.journal import digest
from cdc.flow.attempt import Renames
from cdc.flow.middle import Middle
from cdc.flow.rule_events import ruled
from cdc.route import RouteGuard
from cdc.schema import CreateTable, RenameTable, SchemaChange, TableId
from cdc.schema_json import change_name
from cdc.source import Snapshots, Source
from cdc.state.store import Store
from cdc.tables import events as on
from cdc.tables.entry import TableViews, Try
from cdc.tables.held import held_tables
from cdc.tables.log import TableLog
from cdc.tables.machine import BatchOutcome, batch_outcome, unfit_rows
from cdc.tables.orders import open_orders
from cdc.tables.requests import Mailbox, Request, RequestKind
from cdc.tables.states import NO_MEMBER, Schemas, Tables, TableState
from cdc.tables.table_map import Circumstances

log = logging.getLogger(__name__)

_SHADOW_CHANGES = frozenset(
    ("drop.shadow", "create.shadow", "drop.table", "rename.table", "swap.shadow", "truncate.table")
)
"""Names of changes that begin or end a shadow table, or take it with them."""

_EVENTS: Mapping[RequestKind, Callable[[TableId], on.Event]] = {
    RequestKind.SNAPSHOT: on.SnapshotRequested,
    RequestKind.PAUSE: on.PauseRequested,
    RequestKind.RESUME: on.ResumeRequested,
}


@dataclass(frozen=True, slots=True)
class Derived:
    """The outcome of one batch's events.

    Attributes:
        batch: its number.
        before, after: the tables before and behind it.
        operations: for the sink, in order.
        expected: sink tables that were not created, as that is left out, with the columns that they have to have.
        not_created: the same tables, as the source created them.
        counts: notices, by their names and sink tables.
        requests: those of users that it takes in.
        undone: renames of sink tables, by each earlier try of the batch that had others, the latest first.
    """

    batch: int
    before: TableViews
    after: TableViews
    operations: Sequence[SchemaChange] = ()
    expected: Sequence[CreateTable] = ()
    not_created: Schemas = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    requests: Sequence[Request] = ()
    undone: Sequence[Renames] = ()

    @property
    def sinks_before(self) -> Schemas:
        """The sink tables before the operations."""
        return {**self.not_created, **self.before.sink}


class Derivation:
    """Derives batches, one after another."""

    def __init__(
        self, middle: Middle, source: Source, store: Store, *, shadows: bool, holds_rows: Callable[[TableId], bool]
    ) -> None:
        """`store`: the pipeline's state. `shadows`: whether the sink has shadow tables; `holds_rows`: the sink's."""
        self._middle, self._source = middle, source
        self._log, self._mailbox = TableLog(store), Mailbox(store)
        self._shadows, self._holds_rows, self._guard = shadows, holds_rows, RouteGuard(middle.routes)
        self._tries: Sequence[Try] = ()
        self._first = False

    def begin(self, batch: int, entries: int) -> None:
        """Get ready for the first batch of a run; `entries` of the log hold before it. Repeatable.

        Raises StateError, SpecError for tables that the sink could not tell apart by the routes of now.
        """
        self._log.begin(batch, entries)
        self._guard.check(self._log.at(batch - 1).source)
        self._tries = self._log.tries(batch)
        self._first = True

    def derive(self, batch: int, logged: Sequence[SourceEvent]) -> Derived:
        """The outcome of a batch; for every batch, also without events. The log has it.

        The first batch of a run may have more: what an edited pipeline file makes different. Raises ChangeRefused for
        what must not be carried out, other CdcErrors; nothing of the batch has been applied by then.
        """
        before, requests = self._log.at(batch - 1), self._mailbox.open()
        left = self._left(before.tables) if self._first else []
        held = held_tables(before, requests)
        behind = ruled(self._middle.rules, before, [*left, *logged], held, edited=self._first)
        self._guard.check(behind.after.source)
        early = [request for request in requests if request.table in before.rules]
        late = [request for request in requests if request.table not in before.rules]  # the batch makes the table
        unfit = self._unfit(before.tables) if self._first else []
        events = [*unfit, *_requested(early), *behind.events, *_requested(late), *self._again(behind.stale)]
        found = Derived(batch, before, behind.after, requests=requests)
        if events or self._tries or before.routes != self._middle.routes.to_json():
            found = self._planned(found, events)
        self._first = False
        self._log.write(batch, found.after, _try_of(found.operations))
        return found

    def rewrite(self, batch: int, after: TableViews) -> None:
        """Write the entry of a batch anew, as the sink has refused some of what it was asked for."""
        tries = self._log.tries(batch)
        self._log.write(batch, after, tries[-1] if tries else None)

    def decided(self, derived: Derived) -> None:
        """The batch is decided: the requests of users that it has taken in are done with. Repeatable."""
        self._mailbox.remove(derived.requests)

    @property
    def entries(self) -> int:
        """How many entries of the log hold behind the batch that was derived last."""
        return len(self._log)

    def circumstances(self, batch: int) -> Circumstances:
        """The pipeline as it is now, as far as the transition table reads it."""
        middle = self._middle
        return Circumstances(
            middle.routes, middle.policy, self._shadows, self._is_unasked, batch, middle.existing_rows, self._holds_rows
        )

    def _is_unasked(self, table: TableId) -> bool:
        return self._source.snapshots(table) is Snapshots.ALWAYS

    def _planned(self, behind: Derived, events: Sequence[on.Event]) -> Derived:
        """The outcome of events behind the rules; `behind` has the tables there."""
        found, tries = self._as_before(behind.batch, behind.before.tables, events), self._tries
        self._tries, renames = (), _try_of(found.operations).renames
        counts = Counter[str]()
        for notice in found.notices:
            log.warning("%s: %s", notice.table, notice.text)
            counts[f"{'' if notice.done else 'held-back '}{notice.name} {notice.table}"] += 1
        self._check_orders(found.after, behind.batch)
        created = {notice.table: notice.expected for notice in found.notices}
        not_created = {table: schema for table, schema in created.items() if schema is not None}
        return Derived(
            behind.batch, behind.before, behind.after.with_tables(found.after), found.operations, found.expected,
            not_created, counts, behind.requests, [one.renames for one in reversed(tries) if one.renames != renames],
        )  # fmt: skip

    def _as_before(self, batch: int, before: Tables, events: Sequence[on.Event]) -> BatchOutcome:
        """The same that an earlier run has come to for the batch, which it may have carried out.

        Where the file was edited since they are others: nobody knows then what is in the shadow tables that those have
        touched, and these begin again; columns that those have taken away are added again.
        """
        now = self.circumstances(batch)
        found = batch_outcome(now, before, events)
        if self._tries and self._tries[-1].digest != _try_of(found.operations).digest:
            operations = [each for one in self._tries for each in one.operations]
            touched = {table for name, table in operations if name in _SHADOW_CHANGES}
            lacking = {table for name, table in operations if name in ("drop.column", "rename.column")}
            found = batch_outcome(now, before, events, touched, lacking)
        return found

    def _check_orders(self, tables: Tables, batch: int) -> None:
        """Raise ChangeRefused for an order of this batch that the source does not carry out."""
        new = {source for (source, _), pair in tables.pairs.items() if pair.since == batch}
        for table, order in open_orders(tables).items():
            wanted = Snapshots.ALWAYS if order.limited else Snapshots.ON_REQUEST
            able = self._source.snapshots(table) in (Snapshots.ALWAYS, wanted)
            if table in new and not able and self._source.captures(table):
                hint = "take the edit back, or start anew with another --state-dir"
                raise ChangeRefused(
                    f"{order.reason}, and its source does not re-snapshot it", where=str(table), hint=hint
                )

    def _left(self, tables: Tables) -> list[SourceEvent]:
        """Tables that are excluded since the last run; one that is paused stays so, nothing of it comes anyhow."""
        away = NO_MEMBER | {TableState.PAUSED, TableState.RESUMED}
        followed = {source for (source, _), pair in tables.pairs.items() if pair.state not in away}
        gone = sorted(table for table in followed if table in tables.sources and not self._source.captures(table))
        return [TableLeft(table, "the source leaves it out") for table in gone]

    def _unfit(self, tables: Tables) -> list[on.Event]:
        """Rows that do not fit their tables by an edited behavior, where their source snapshots them again."""
        found = unfit_rows(tables, self._middle.routes) if self._middle.policy.exact else ()
        return [each for each in found if self._source.snapshots(each.table) is not Snapshots.NEVER]

    def _again(self, stale: Mapping[TableId, str]) -> Iterator[on.SnapshotRequested]:
        """Requests for tables whose rows cannot be followed, where their source takes them unasked."""
        for table, why in sorted(stale.items()):
            if self._is_unasked(table):
                yield on.SnapshotRequested(table, why, by_user=False)
            else:
                text = "%s: %s: those that are there stay; `cdc resync FILE %s` re-snapshots it"
                log.warning(text, table, why, table)


def _requested(requests: Sequence[Request]) -> list[on.Event]:
    return [_EVENTS[request.kind](request.table) for request in requests]


def _try_of(operations: Sequence[SchemaChange]) -> Try:
    """The operations that the sink is asked for, as the log has them."""
    if not operations:
        return Try()
    renames = tuple((each.table, each.new_table) for each in operations if isinstance(each, RenameTable))
    return Try(tuple((change_name(each), each.table) for each in operations), digest(operations), renames)
