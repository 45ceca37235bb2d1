"""The last stage on the way of schema changes: from source tables to sink tables, as far as the behavior goes.

<state>/routed_schemas.jsonl   the tables before routing, batch by batch
<state>/sink_schemas.jsonl     the sink's tables, which the tasks read
<state>/touched_copies.json    {"batch": number, "digest": sha256 of its changes, "tables": sink tables whose copies
                               they begin, end or let go of}
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from cdc.evolution.apply import apply_changes
from cdc.evolution.behavior import Behavior
from cdc.evolution.journal import digest
from cdc.flow.derive import Past
from cdc.flow.held import HeldTables, held_tables
from cdc.flow.pausing import TableRequest, TableRequests
from cdc.flow.routing import Routing
from cdc.flow.sink_changes import Derived, derived
from cdc.flow.sink_schemas import Marks, Pair, Schemas, SinkSchemas
from cdc.flow.sink_tables import Sides, with_shard
from cdc.schema import (
    CreateShadow,
    CreateTable,
    DropShadow,
    DropTable,
    RenameTable,
    SchemaChange,
    SwapShadow,
    TableId,
    TruncateTable,
)
from cdc.schema_json import change_name, table_from_json, table_to_json
from cdc.state.store import Store

log = logging.getLogger(__name__)

_TOUCHED = "touched_copies.json"
_TOUCHES = (DropShadow, CreateShadow, DropTable, RenameTable, SwapShadow, TruncateTable)


def routed_schemas(store: Store) -> SinkSchemas:
    """The tables before routing, as a run has left them."""
    return SinkSchemas(store, "routed_schemas.jsonl", "log of schemas before routing")


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

    name = "sink"

    def __init__(self, routing: Routing, store: Store, copies: Callable[[TableId], bool] | None = None) -> None:
        """`copies` as in `cdc.flow.sink_changes.derived`."""
        self._routing, self._copies = routing, copies
        self._sources = routed_schemas(store)
        self._sinks = SinkSchemas(store)
        self._before: Schemas = {}
        self.held: Counter[str] = Counter()
        self.expected: Sequence[CreateTable] = ()
        self.not_created: Schemas = {}
        self.asked: Sequence[TableId] = ()
        self.wanted: Sequence[TableId] = ()
        self.renamed: Sequence[TableId] = ()
        self._store, self._requests = store, TableRequests(store)
        self._noted: dict[str, Any] = {}
        self.taken: Sequence[TableRequest] = ()
        self.resumed: Sequence[TableRequest] = ()

    def begin(self, batch: int, state: Any, past: Past) -> None:
        """`state` is how many entries of the two logs hold; a version without the second gave one number."""
        sources, sinks = state if isinstance(state, list) else (None, state)
        self._sources.begin(batch, sources, past)
        self._sinks.begin(batch, sinks, lambda: ())
        if sinks is None and (changes := past()):
            self._record(batch - 1, self._derived(Sides(), changes))
        noted = self._store.read_json(_TOUCHED) or {}
        self._noted = noted if noted.get("batch") == batch else {}

    def derive(self, batch: int, changes: Sequence[SchemaChange]) -> Sequence[SchemaChange]:
        """The sink's changes. Raises ChangeRefused for what must not be carried out, EngineError.

        Of the first batch of a run also those that edited routes make.
        """
        self.held, self.asked, self.wanted, self.renamed, self.resumed = Counter(), (), (), (), ()
        self.expected, self.not_created = (), {}
        self.taken = self._requests.all()
        marks = self._sinks.marks(batch)
        same = marks.routes == self._routing.table.to_json()
        if not changes and not self.taken and same and not self._noted and not self._waits_in_vain(marks):
            return ()
        self._before = dict(self._sinks.at(batch))
        found = self._as_before(batch, Sides(self._sources.at(batch), self._before, marks), changes)
        for held in found.held:
            log.warning("%s: %s", held.table, held.text)
            self.held[f"{'' if held.done else 'held-back '}{held.change} {held.table}"] += 1
        self.expected = found.expected
        self.not_created = {held.table: held.expected for held in found.held if held.expected is not None}
        self._sources.change(batch, changes)
        self._record(batch, found)
        after = found.after.marks
        fresh = {source for source, _ in after.waiting - marks.waiting - after.paused - after.resumed}
        self.asked, self.renamed = sorted(fresh - found.renamed), sorted(fresh & found.renamed)
        self.wanted = [source for source in found.wanted if source not in fresh]
        waiting = {source for source, _ in after.resumed}
        self.resumed = [each for each in self.taken if not each.pause and each.table in waiting]
        return found.changes

    def _as_before(self, batch: int, before: Sides, changes: Sequence[SchemaChange]) -> Derived:
        """The same that an earlier run has come to for the batch, which it may have carried out.

        Where the file was edited since they are others: nobody knows then what is in the copies that those have
        touched, and these begin anew.
        """
        found, noted = self._derived(before, changes, self.taken), self._noted
        touched = {table_from_json(each) for each in noted.get("tables", ())}
        if noted and noted["digest"] != digest(found.changes):
            found = self._derived(before, changes, self.taken, touched)
        self._noted = {}
        tables = touched | {change.table for change in found.changes if isinstance(change, _TOUCHES)}
        if tables:
            names = [table_to_json(table) for table in sorted(tables)]
            self._store.write_json(_TOUCHED, {"batch": batch, "digest": digest(found.changes), "tables": names})
        return found

    def tables_held(self, batch: int) -> HeldTables:
        """The source tables that a batch leaves out, before it is derived."""
        return held_tables(self._sinks.marks(batch), self._requests.all())

    def only(self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange]) -> None:
        """The sink has refused some of the batch's changes: its tables are as those carried out have made them."""
        for change in refused:
            self.held[f"refused-by-sink {change_name(change)} {change.table}"] += 1
        sinks = apply_changes(self._before, carried_out)
        self._sinks.record(batch, sinks, self._sinks.marks(batch))

    def wait(
        self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange], pairs: Iterable[Pair]
    ) -> None:
        """As `only`, and from here on these tables wait for a copy, which has the refused changes behind it."""
        for change in refused:
            self.held[f"refused-by-sink {change_name(change)} {change.table}"] += 1
        marks = self._sinks.marks(batch)
        waiting = frozenset(pairs)
        together = {pair: part for pair, part in marks.together.items() if pair not in waiting}
        marks = replace(marks, waiting=marks.waiting | waiting, together=together)
        self._sinks.record(batch, apply_changes(self._before, carried_out), marks)

    def only_source(self, batch: int, table: TableId) -> TableId | None:
        """The one source table of a sink table that can be replaced by a copy of it.

        None where others go or went there, where it is to stay as it is, and where it has columns that the source table
        does not have any more.
        """
        if self._routing.policy.behavior is Behavior.IGNORE or table in self._sinks.merged(batch):
            return None
        sources = self._sources.at(batch)
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
        there = self._sinks.at(batch).get(table)
        kept = there is not None and {name.casefold() for name in there.names} <= names
        return source if kept else None

    @property
    def before(self) -> Schemas:
        """The sink's tables before the batch that was derived last."""
        return self._before

    def decided(self) -> None:
        """The batch that was derived last is decided. Raises StateError."""
        self._requests.remove(self.taken)

    def state(self) -> list[int]:
        """How many entries hold, of both logs."""
        return [len(self._sources), len(self._sinks)]

    def _derived(
        self,
        before: Sides,
        changes: Sequence[SchemaChange],
        requests: Sequence[TableRequest] = (),
        touched: Iterable[TableId] = (),
    ) -> Derived:
        routing = self._routing
        return derived(routing.table, routing.policy, before, changes, self._copies, requests, touched)

    def _waits_in_vain(self, marks: Marks) -> bool:
        """Whether a copy that is under way is to have a source table that is not copied any more."""
        return self._copies is not None and not all(self._copies(source) for source, _ in marks.together)

    def _record(self, batch: int, found: Derived) -> None:
        self._sinks.record(batch, found.after.sinks, found.after.marks)
