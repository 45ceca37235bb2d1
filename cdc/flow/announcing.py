"""Schema changes that were carried out, for a sink that tells its readers of them. Driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdc.evolution.apply import apply_changes
from cdc.retry import RetryPolicy
from cdc.schema import RenameTable, SchemaChange
from cdc.sink import Announced, Sink
from cdc.tables.states import Schemas


def announce(sink: Sink, retry: RetryPolicy, batch: int, before: Schemas, changes: Sequence[SchemaChange]) -> None:
    """Hand the changes of a batch to the sink. `before` is the sink's tables before all of them, also those that
    somebody else has created.

    Repeatable. Raises SinkError.
    """
    found = list(_announced(before, changes))
    retry.call(lambda: sink.announce(batch, found), "schema changes")


def _announced(tables: Schemas, changes: Sequence[SchemaChange]) -> Iterator[Announced]:
    for change in changes:
        after = apply_changes(tables, [change])
        table = change.new_table if isinstance(change, RenameTable) else change.table
        yield Announced(change, tables.get(change.table), after.get(table))
        tables = after
