"""Derives a batch's sink operations from the source's events. Driver.

    source events --> transform rules (`cdc.transform.rule_events`) --> transition table (`cdc.tables`)
                  --> operations --> sink.apply

The state of all tables after a batch is one entry of the table log, which the tasks read. A repeated batch, and the
first batch of a run, start from the number of entries in the previous decision.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from cdc.events import SourceEvent
from cdc.flow.batch_events import BatchEvents, EventCollector
from cdc.flow.middle import Middle
from cdc.flow.tries import Renames, leftovers, tables_without_values, try_of
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


@dataclass(frozen=True, slots=True)
class Derived:
    """The outcome of one batch's events.

    Attributes:
        batch: the batch number.
        before, after: the tables before and after the batch.
        operations: for the sink, in order.
        expected: sink tables with their required columns that have to exist, as create.table is filtered out.
        not_created: the same tables, as the source created them.
        counts: notices, by name and sink table.
        requests: the user requests that the batch takes in.
        undone: renames of sink tables by earlier tries of the batch that this try starts without, the latest try first.
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
        """The sink's tables before the operations."""
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
        """Prepare for the first batch of a run; the first `entries` of the table log are valid. Repeatable.

        Raises StateError, SpecError for tables that have one name in the sink by the current routes.
        """
        self._log.begin(batch, entries)
        self._guard.check(self._log.at(batch - 1).source)
        self._tries = self._log.tries(batch)
        self._first = True

    def derive(self, batch: int, logged: Sequence[SourceEvent]) -> Derived:
        """Derive a batch and write it to the table log; called for every batch, also without events.

        The first batch of a run includes the effects of an edited pipeline file. Raises ChangeRefused for a change that
        the policy forbids, other CdcErrors; nothing of the batch has been applied by then.
        """
        before = self._log.at(batch - 1)
        collected = self._events.collect(before, logged, first=self._first)
        self._guard.check(collected.after.source)
        if collected.edits or collected.events or self._tries or before.routes != self._middle.routes.to_json():
            found = self._planned(batch, before, collected)
        else:
            found = Derived(batch, before, collected.after, requests=collected.requests)
        self._first = False
        self._log.write(batch, found.after, try_of(found.operations))
        return found

    def rewrite(self, batch: int, after: TableViews) -> None:
        """Rewrite the log entry of a batch of which the sink has refused some operations."""
        tries = self._log.tries(batch)
        self._log.write(batch, after, tries[-1] if tries else None)

    def note_decided(self, derived: Derived) -> None:
        """Remove the user requests that a decided batch has taken in. Repeatable."""
        self._events.forget(derived.requests)

    @property
    def entries(self) -> int:
        """The number of valid entries in the table log after the batch that was derived last."""
        return len(self._log)

    def circumstances(self, batch: int) -> Circumstances:
        """The current settings of the pipeline that the transition table reads."""
        middle = self._middle
        return Circumstances(
            middle.routes, middle.policy, self._shadows, self._events.snapshots_unasked, batch, middle.existing_rows,
            self._holds_rows,
        )  # fmt: skip

    def _planned(self, batch: int, before: TableViews, collected: BatchEvents) -> Derived:
        """Derive a batch that changes tables."""
        found, tries = self._as_before(batch, before, collected), self._tries
        self._tries, now = (), try_of(found.operations)
        undone = [one.renames for one in reversed(tries) if one.is_renamed_otherwise(now)]
        counts = Counter[str]()
        for notice in found.notices:
            log.warning("%s: %s", notice.table, notice.text)
            counts[f"{'' if notice.done else 'held-back '}{notice.name} {notice.table}"] += 1
        check_orders(found.after, batch, self._source)
        created = {notice.table: notice.expected for notice in found.notices}
        not_created = {table: schema for table, schema in created.items() if schema is not None}
        return Derived(
            batch, before, collected.after.with_tables(found.after), found.operations, found.expected,
            not_created, counts, collected.requests, undone,
        )  # fmt: skip

    def _as_before(self, batch: int, before: TableViews, collected: BatchEvents) -> BatchOutcome:
        """Derive the batch, consistent with what an earlier try may have applied already.

        The operations are the same unless the pipeline file was edited since. If they differ, shadow tables that the
        earlier tries have touched start again, as their content is unknown, and tables, columns and keys that those
        have dropped or altered are as before again. A table whose values were dropped is re-snapshotted.
        """
        now = self.circumstances(batch)
        outcome = partial(batch_outcome, now, before.tables, edits=collected.edits)
        found = outcome(collected.events)
        if self._tries and self._tries[-1].digest != (this := try_of(found.operations)).digest:
            outcome = partial(outcome, left=leftovers(self._tries, this))
            found = outcome(collected.events)
            if lost := tables_without_values(self._tries, this, before.sink, collected.after.rules, found.after):
                found = outcome([*collected.events, *self._events.uncertain(lost)])
        return found
