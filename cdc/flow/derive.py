"""From the events of the source to the operations of the sink, one batch after another. Driver.

    source's events --> behind the transform rules (`cdc.transform.rule_events`) --> transition table (`cdc.tables`)
                    --> operations --> sink.apply

What a batch makes of the tables is one entry of the log of tables, which the tasks read. A batch that runs again, and
the first one of a run, start from the entries that the decision before says.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cdc.events import SourceEvent
from cdc.flow.attempt import Renames, try_of
from cdc.flow.batch_events import BatchEvents, EventCollector
from cdc.flow.middle import Middle
from cdc.route import RouteGuard
from cdc.schema import CreateTable, SchemaChange, TableId
from cdc.source import Source
from cdc.state.store import Store
from cdc.tables.entry import TableViews, Try
from cdc.tables.log import TableLog
from cdc.tables.machine import BatchOutcome, batch_outcome
from cdc.tables.orders import check_orders
from cdc.tables.requests import Mailbox, Request
from cdc.tables.states import Schemas
from cdc.tables.table_map import Circumstances

log = logging.getLogger(__name__)

_SHADOW_CHANGES = frozenset(
    ("drop.shadow", "create.shadow", "drop.table", "rename.table", "swap.shadow", "truncate.table")
)
"""Names of changes that begin or end a shadow table, or take it with them."""


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
        self._middle, self._source, self._log = middle, source, TableLog(store)
        self._events = EventCollector(middle, source, Mailbox(store))
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
        before = self._log.at(batch - 1)
        collected = self._events.collect(before, logged, first=self._first)
        self._guard.check(collected.after.source)
        if collected.events or self._tries or before.routes != self._middle.routes.to_json():
            found = self._planned(batch, before, collected)
        else:
            found = Derived(batch, before, collected.after, requests=collected.requests)
        self._first = False
        self._log.write(batch, found.after, try_of(found.operations))
        return found

    def rewrite(self, batch: int, after: TableViews) -> None:
        """Rewrite the entry of a batch, as the sink has refused some of what it was asked for."""
        tries = self._log.tries(batch)
        self._log.write(batch, after, tries[-1] if tries else None)

    def note_decided(self, derived: Derived) -> None:
        """The batch is decided: the requests of users that it has taken in are done with. Repeatable."""
        self._events.forget(derived.requests)

    @property
    def entries(self) -> int:
        """How many entries of the log hold behind the batch that was derived last."""
        return len(self._log)

    def circumstances(self, batch: int) -> Circumstances:
        """The pipeline as it is now, as far as the transition table reads it."""
        middle = self._middle
        return Circumstances(
            middle.routes, middle.policy, self._shadows, self._events.snapshots_by_itself, batch, middle.existing_rows,
            self._holds_rows,
        )  # fmt: skip

    def _planned(self, batch: int, before: TableViews, collected: BatchEvents) -> Derived:
        """The outcome of a batch that changes something."""
        found, tries = self._as_before(batch, before, collected), self._tries
        self._tries, renames = (), try_of(found.operations).renames
        counts = Counter[str]()
        for notice in found.notices:
            log.warning("%s: %s", notice.table, notice.text)
            counts[f"{'' if notice.done else 'held-back '}{notice.name} {notice.table}"] += 1
        check_orders(found.after, batch, self._source)
        created = {notice.table: notice.expected for notice in found.notices}
        not_created = {table: schema for table, schema in created.items() if schema is not None}
        return Derived(
            batch, before, collected.after.with_tables(found.after), found.operations, found.expected,
            not_created, counts, collected.requests, [one.renames for one in reversed(tries) if one.renames != renames],
        )  # fmt: skip

    def _as_before(self, batch: int, before: TableViews, collected: BatchEvents) -> BatchOutcome:
        """The same that an earlier run has come to for the batch, which it may have carried out.

        Where the file was edited since they are others: nobody knows then what is in the shadow tables that those have
        touched, and these begin again; columns that those have taken away are added again.
        """
        now = self.circumstances(batch)
        found = batch_outcome(now, before.tables, collected.events)
        if self._tries and self._tries[-1].digest != try_of(found.operations).digest:
            operations = [each for one in self._tries for each in one.operations]
            touched = {table for name, table in operations if name in _SHADOW_CHANGES}
            lacking = {table for name, table in operations if name in ("drop.column", "rename.column")}
            found = batch_outcome(now, before.tables, collected.events, touched, lacking)
        return found
