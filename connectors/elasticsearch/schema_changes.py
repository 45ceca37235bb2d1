"""Schema changes carried out in a cluster, each from the indexes as they are. Driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc.errors import ChangeRefused
from cdc.evolution.journal import Journal
from cdc.process.faults import crash_point
from cdc.schema import RenameTable, SchemaChange, shadow_of
from cdc.state.store import Store
from connectors.elasticsearch.client import ErrorAnswer
from connectors.elasticsearch.cluster import HINTS, SearchCluster
from connectors.elasticsearch.indexes import IndexPlanner
from connectors.elasticsearch.options import ElasticsearchSinkOptions
from connectors.elasticsearch.settings import rules_of


@dataclass(frozen=True)
class IndexChanges:
    """Changes of one pipeline's indexes; `store` has the journal of a batch whose changes are carried out in part."""

    cluster: SearchCluster
    options: ElasticsearchSinkOptions
    store: Store

    def plan_text(self, changes: Sequence[SchemaChange]) -> list[str]:
        """The requests that `apply` would send now."""
        planner = self._planner(changes)
        return [f"{request.method} {request.path}" for change in changes for request in planner.plan(change)]

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        """Carry out what is left of a batch's changes, in order. Raises ChangeRefused."""
        journal = Journal(self.store, batch, changes)
        left = changes[journal.done :]
        if not left:
            return
        self.cluster.wait_for_earlier()
        planner = self._planner(left)
        planned = [planner.plan(change) for change in left]
        for change, requests in zip(left, planned, strict=True):
            for request in requests:
                try:
                    self.cluster.carry_out(request)
                except ErrorAnswer as refused:
                    hints = (hint for words, hint in HINTS.items() if words in refused.reason)
                    hint = next(hints, "see the cluster's log")
                    raise ChangeRefused(str(refused), where=str(change.table), hint=hint) from None
                crash_point("mid-apply", batch)
            journal.note(journal.done + 1)

    def _planner(self, changes: Sequence[SchemaChange]) -> IndexPlanner:
        tables = list(dict.fromkeys(change.table for change in changes))
        tables += [change.new_table for change in changes if isinstance(change, RenameTable)]
        wanted = [*tables, *(shadow_of(table) for table in tables)]
        cluster, options = self.cluster, self.options
        # In this order: an index that comes to be in between is behind its alias, and no second one is made.
        highest, behind = cluster.highest(tables), cluster.indexes_behind(wanted)
        rules = rules_of(options, cluster.product()[0])
        return IndexPlanner(cluster.names, rules, cluster.pipeline, behind, highest, options.settings())
