"""From the events of the source to the operations of the sink, one batch after another. Driver.

    source's events --RuleStage--> behind the transform rules --RouteStage--> operations --> sink.apply

What a batch makes of the tables is one entry of the log of tables, which the tasks read. A batch that runs again, and
the first one of a run, start from the entries that the decision before says.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cdc.events import SourceEvent, TableLeft
from cdc.flow.route_stage import RouteStage, asked
from cdc.flow.rule_stage import RENAMED, RuleStage
from cdc.route import RouteGuard
from cdc.schema import SchemaChange
from cdc.source import Snapshots, Source
from cdc.tables.events import SnapshotRequested
from cdc.tables.log import TableLog
from cdc.tables.states import NO_MEMBER, Tables, TableState

log = logging.getLogger(__name__)


class Derivation:
    """Derives batches through both stages."""

    def __init__(
        self,
        rules: RuleStage,
        routes: RouteStage,
        log: TableLog,
        guard: RouteGuard,
        source: Source,
    ) -> None:
        self._rules, self._routes, self._log, self._guard, self._source = rules, routes, log, guard, source
        self._first = False

    def begin(self, batch: int, entries: int) -> None:
        """Get ready for the first batch of a run; `entries` of the log hold before it. Repeatable.

        Raises StateError, SpecError for tables that the sink could not tell apart by the routes of now.
        """
        self._log.begin(batch, entries)
        self._guard.check(self._log.at(batch - 1).source)
        self._rules.begin()
        self._routes.begin(self._log.tries(batch))
        self._first = True

    def derive(self, batch: int, told: Sequence[SourceEvent]) -> Sequence[SchemaChange]:
        """The operations of a batch; for every batch, also without events. The log has the result.

        The first batch of a run may have more: what an edited pipeline file makes different. Raises CdcError; nothing
        of the batch has been applied by then.
        """
        before = self._log.at(batch - 1)
        left = self._left(before.tables) if self._first else []
        made, after = self._rules.derive(before, [*left, *told])
        self._guard.check(after.source)
        operations, after = self._routes.derive(batch, before, after, [*made, *self._renamed()])
        self._first = False
        self._log.write(batch, after, asked(operations))
        return operations

    def _left(self, tables: Tables) -> list[SourceEvent]:
        """Tables that are excluded since the last run; one that is paused stays so, nothing of it comes anyhow."""
        away = NO_MEMBER | {TableState.PAUSED, TableState.RESUMED}
        followed = {source for (source, _), pair in tables.pairs.items() if pair.state not in away}
        gone = sorted(table for table in followed if table in tables.sources and not self._source.captures(table))
        return [TableLeft(table, "the source leaves it out") for table in gone]

    def _renamed(self) -> list[SnapshotRequested]:
        """Requests for tables whose rows are those of another rule since their names are others."""
        found = []
        for table in sorted(self._rules.renamed):
            if self._source.snapshots(table) is Snapshots.ALWAYS:
                found.append(SnapshotRequested(table, RENAMED, by_user=False))
            else:
                log.warning(
                    "%s: %s: those that are there stay; `cdc resync FILE %s` copies it anew", table, RENAMED, table
                )
        return found

    @property
    def entries(self) -> int:
        """How many entries hold behind the batch that was derived last."""
        return len(self._log)
