"""The last stage on the way of schema changes: from source tables to sink tables, as far as the behavior goes.

<state>/routed_schemas.jsonl   the tables before routing, batch by batch
<state>/sink_schemas.jsonl     the sink's tables, which the tasks read
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from cdc.evolution.apply import apply_changes
from cdc.flow.derive import Past
from cdc.flow.routing import Routing
from cdc.flow.sink_changes import Derived, Sides, derived
from cdc.flow.sink_schemas import Schemas, SinkSchemas
from cdc.schema import SchemaChange
from cdc.schema_json import change_name
from cdc.state.store import Store

log = logging.getLogger(__name__)


class RouteStage:
    """See `cdc.flow.derive.Stage`. `held` counts what the last batch held back, by change and sink table."""

    name = "sink"

    def __init__(self, routing: Routing, store: Store) -> None:
        self._routing = routing
        self._sources = SinkSchemas(store, "routed_schemas.jsonl", "log of schemas before routing")
        self._sinks = SinkSchemas(store)
        self._before: Schemas = {}
        self.held: Counter[str] = Counter()

    def begin(self, batch: int, state: Any, past: Past) -> None:
        """`state` is how many entries of the two logs hold; a version without the second gave one number."""
        sources, sinks = state if isinstance(state, list) else (None, state)
        self._sources.begin(batch, sources, past)
        self._sinks.begin(batch, sinks, lambda: ())
        if sinks is None:
            self._record(batch - 1, self._derived(Sides(), past()))

    def derive(self, batch: int, changes: Sequence[SchemaChange]) -> Sequence[SchemaChange]:
        """The sink's changes. Raises ChangeRefused for what must not be carried out, EngineError."""
        self.held = Counter()
        if not changes:
            return ()
        self._before = dict(self._sinks.at(batch))
        merged, over = self._sinks.merged(batch), self._sinks.written_over(batch)
        found = self._derived(Sides(self._sources.at(batch), self._before, merged, over), changes)
        for held in found.held:
            log.warning("%s: %s", held.table, held.text)
            self.held[f"held-back {held.change} {held.table}"] += 1
        self._sources.change(batch, changes)
        self._record(batch, found)
        return found.changes

    def only(self, batch: int, carried_out: Sequence[SchemaChange], refused: Sequence[SchemaChange]) -> None:
        """The sink has refused some of the batch's changes: its tables are as those carried out have made them."""
        for change in refused:
            self.held[f"refused-by-sink {change_name(change)} {change.table}"] += 1
        sinks, merged = apply_changes(self._before, carried_out), self._sinks.merged(batch)
        self._sinks.record(batch, sinks, merged, self._sinks.written_over(batch))

    @property
    def before(self) -> Schemas:
        """The sink's tables before the batch that was derived last."""
        return self._before

    def state(self) -> list[int]:
        """How many entries hold, of both logs."""
        return [len(self._sources), len(self._sinks)]

    def _derived(self, before: Sides, changes: Sequence[SchemaChange]) -> Derived:
        return derived(self._routing.table, self._routing.policy, before, changes)

    def _record(self, batch: int, found: Derived) -> None:
        self._sinks.record(batch, found.after.sinks, found.after.merged, found.after.over)
