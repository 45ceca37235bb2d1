"""The last stage on the way of schema changes: from source tables to sink tables, as far as the behavior goes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior
from cdc.flow.derive import asked
from cdc.flow.held import HeldTables, held_tables
from cdc.flow.pausing import TableRequest, TableRequests
from cdc.flow.routing import Routing
from cdc.flow.sink_changes import Derived, derived
from cdc.flow.sink_schemas import Marks, marks_of, merged_tables, with_marks
from cdc.flow.sink_tables import Sides, with_shard
from cdc.schema import (
    CreateTable,
    SchemaChange,
    TableId,
)
from cdc.schema_json import change_name
from cdc.tables.entry import Pair, Schemas, TableViews, Try
from cdc.tables.log import TableLog

log = logging.getLogger(__name__)

_TOUCHES = frozenset(("drop.shadow", "create.shadow", "drop.table", "rename.table", "swap.shadow", "truncate.table"))
"""Names of changes that begin or end a shadow table, or take it with them."""


class RouteStage:
    """See `cdc.flow.derive.Stage`.

    Attributes:
        held: counts what the last batch held back, by change and sink table.
        expected: sink tables that were not created, as that is left out, with the columns that they have to have.
        not_created: the same tables, as the source created them.
        asked: source tables of which it needs a copy, as they go elsewhere.
        renamed: those that waited for a copy under another name.
        wanted: those of which it needs one, as another table of their sink table is copied.
        taken: requests to pause and to resume tables that the last batch has taken in.
        resumed: those of them whose tables wait for their copy.
    """

    def __init__(
        self, routing: Routing, log: TableLog, requests: TableRequests, copies: Callable[[TableId], bool] | None = None
    ) -> None:
        """`copies` as in `cdc.flow.sink_changes.derived`."""
        self._routing, self._log, self._requests, self._copies = routing, log, requests, copies
        self._before = self._after = TableViews()
        self._tries: Sequence[Try] = ()
        self.held: Counter[str] = Counter()
        self.expected: Sequence[CreateTable] = ()
        self.not_created: Schemas = {}
        self.asked: Sequence[TableId] = ()
        self.wanted: Sequence[TableId] = ()
        self.renamed: Sequence[TableId] = ()
        self.taken: Sequence[TableRequest] = ()
        self.resumed: Sequence[TableRequest] = ()

    def begin(self, tries: Sequence[Try]) -> None:
        """Shadow tables may be as these tries have left them."""
        self._tries = tries

    def derive(
        self, batch: int, before: TableViews, after: TableViews, changes: Sequence[SchemaChange]
    ) -> tuple[Sequence[SchemaChange], TableViews]:
        """The sink's changes. Raises ChangeRefused for what must not be carried out, EngineError.

        Of the first batch of a run also those that edited routes make.
        """
        self.held, self.asked, self.wanted, self.renamed, self.resumed = Counter(), (), (), (), ()
        self.expected, self.not_created = (), {}
        self.taken = self._requests.all()
        self._before = before
        marks = marks_of(before)
        same = marks.routes == self._routing.table.to_json()
        if not changes and not self.taken and same and not self._tries and not self._waits_in_vain(marks):
            self._after = after
            return (), after
        found = self._as_before(Sides(before.rules, before.sink, marks), changes)
        for held in found.held:
            log.warning("%s: %s", held.table, held.text)
            self.held[f"{'' if held.done else 'held-back '}{held.change} {held.table}"] += 1
        self.expected = found.expected
        self.not_created = {held.table: held.expected for held in found.held if held.expected is not None}
        now = found.after.marks
        fresh = {source for source, _ in now.waiting - marks.waiting - now.paused - now.resumed}
        self.asked, self.renamed = sorted(fresh - found.renamed), sorted(fresh & found.renamed)
        self.wanted = [source for source in found.wanted if source not in fresh]
        waiting = {source for source, _ in now.resumed}
        self.resumed = [each for each in self.taken if not each.pause and each.table in waiting]
        self._after = with_marks(replace(after, sink=found.after.sinks), now)
        return found.changes, self._after

    def _as_before(self, before: Sides, changes: Sequence[SchemaChange]) -> Derived:
        """The same that an earlier run has come to for the batch, which it may have carried out.

        Where the file was edited since they are others: nobody knows then what is in the copies that those have
        touched, and these begin anew.
        """
        found = self._derived(before, changes)
        if self._tries and self._tries[-1].digest != asked(found.changes).digest:
            operations = (each for one in self._tries for each in one.operations)
            touched = {table for name, table in operations if name in _TOUCHES}
            found = self._derived(before, changes, touched)
        self._tries = ()
        return found

    def tables_held(self, before: TableViews) -> HeldTables:
        """The source tables that a batch leaves out, of the tables before it."""
        return held_tables(marks_of(before), self._requests.all())

    def only(self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange]) -> None:
        """The sink has refused some of the batch's changes: its tables are as those carried out have made them."""
        for change in refused:
            self.held[f"refused-by-sink {change_name(change)} {change.table}"] += 1
        self._rewrite(batch, carried_out, marks_of(self._after))

    def wait(
        self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange], pairs: Iterable[Pair]
    ) -> None:
        """As `only`, and from here on these tables wait for a copy, which has the refused changes behind it."""
        for change in refused:
            self.held[f"refused-by-sink {change_name(change)} {change.table}"] += 1
        marks, waiting = marks_of(self._after), frozenset(pairs)
        together = {pair: part for pair, part in marks.together.items() if pair not in waiting}
        marks = replace(marks, waiting=marks.waiting | waiting, together=together)
        self._rewrite(batch, carried_out, marks)

    def _rewrite(self, batch: int, carried_out: Sequence[SchemaChange], marks: Marks) -> None:
        """The entry of the batch, of which only a part was carried out."""
        sinks = apply_changes(self._before.sink, carried_out)
        self._after = with_marks(replace(self._after, sink=sinks), marks)
        tries = self._log.tries(batch)
        self._log.write(batch, self._after, tries[-1] if tries else None)

    def only_source(self, table: TableId) -> TableId | None:
        """The one source table of a sink table that can be replaced by a copy of it.

        None where others go or went there, where it is to stay as it is, and where it has columns that the source table
        does not have any more.
        """
        if self._routing.policy.behavior is Behavior.IGNORE or table in merged_tables(self._after):
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

    def _derived(self, before: Sides, changes: Sequence[SchemaChange], touched: Iterable[TableId] = ()) -> Derived:
        routing = self._routing
        return derived(routing.table, routing.policy, before, changes, self._copies, self.taken, touched)

    def _waits_in_vain(self, marks: Marks) -> bool:
        """Whether a copy that is under way is to have a source table that is not copied any more."""
        return self._copies is not None and not all(self._copies(source) for source, _ in marks.together)
