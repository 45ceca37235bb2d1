"""From the schema changes of the source to those of the sink: a chain of stages. Driver.

    source's changes --RuleStage--> behind the transform rules --RouteStage--> with the sink's tables --> sink.apply

Each stage takes the changes that the one before gives, and says what they make of the tables. What all of them come to
is one entry of the log of tables, which the tasks read. A batch that runs again, and the first one of a run, start from
the entries that the decision before says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cdc.evolution.journal import digest
from cdc.schema import SchemaChange
from cdc.schema_json import change_name
from cdc.tables.entry import TableViews, Try
from cdc.tables.log import TableLog


class Stage(Protocol):
    """One step on the way of schema changes."""

    def begin(self, tries: Sequence[Try]) -> None:
        """Get ready for the first batch of a run, of which an earlier run may have made these tries. Repeatable."""

    def derive(
        self, batch: int, before: TableViews, after: TableViews, changes: Sequence[SchemaChange]
    ) -> tuple[Sequence[SchemaChange], TableViews]:
        """The changes of a batch behind the stage, and the tables behind them; for every batch, also without changes.

        `before` are the tables before the batch, `after` is what the stages before have made of them. The first batch
        of a run may have more changes: what an edited pipeline file makes different. Raises CdcError; nothing of the
        batch has been applied by then.
        """


class Derivation:
    """The whole chain."""

    def __init__(self, stages: Sequence[Stage], log: TableLog) -> None:
        self._stages, self._log = tuple(stages), log

    def begin(self, batch: int, entries: int) -> None:
        """Get ready for the first batch of a run; `entries` of the log hold before it. Raises StateError."""
        self._log.begin(batch, entries)
        tries = self._log.tries(batch)
        for stage in self._stages:
            stage.begin(tries)

    def derive(self, batch: int, changes: Sequence[SchemaChange]) -> Sequence[SchemaChange]:
        """Derive through all stages, as `Stage.derive`; the log has the result."""
        before = after = self._log.at(batch - 1)
        for stage in self._stages:
            changes, after = stage.derive(batch, before, after, changes)
        self._log.write(batch, after, asked(changes))
        return changes

    @property
    def entries(self) -> int:
        """How many entries hold behind the batch that was derived last."""
        return len(self._log)


def asked(changes: Sequence[SchemaChange]) -> Try:
    """The operations that the sink is asked for, as the log keeps them."""
    if not changes:
        return Try()
    return Try(tuple((change_name(change), change.table) for change in changes), digest(changes))
