"""The rows that a sink table should have: those of its source tables, processed as in the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.route import Target
from cdc.schema import TableId, TableSchema
from cdc.sink import StoredTable
from cdc.sink_columns import Coercion, with_source
from cdc.source import Count, CurrentTables

if TYPE_CHECKING:
    from cdc.transform.rules import Rules

Rows = Callable[[pa.RecordBatch | None], Iterator[pa.RecordBatch]]
"""Reads one side of a comparison: all rows, or at least those with the given keys. May be called repeatedly."""


@dataclass(frozen=True)
class SourceTable:
    """A source table of a sink table. `keys`: its columns that are the sink's key; empty when its rows cannot be read
    by that key."""

    table: TableId
    target: Target
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Expected:
    """The rows of a sink table, computed from its source tables.

    Attributes:
        now: reads the source.
        source_tables: the source tables.
        schema: the sink table's schema.
        stored: converts rows to the values that the sink stores.
        columns: the compared columns, in this order.
        count: counts values that are changed on the way.
    """

    now: CurrentTables
    source_tables: tuple[SourceTable, ...]
    schema: TableSchema
    stored: StoredTable
    columns: tuple[str, ...]
    rules: Rules | None
    coercion: Coercion
    count: Count

    def __call__(self, keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Read rows; see `Rows`."""
        moment = datetime.now(UTC)
        coercion = replace(self.coercion, lost="null")
        for feed in self.source_tables:
            selected = keys.select(list(feed.keys)) if keys is not None and feed.keys else None
            for block in self._after_rules(self.now.rows(feed.table, selected, self.count), moment):
                routed = replace(with_source(block, feed.target), table=feed.target.table)
                rows = coercion(routed, self.schema, self.count).rows
                yield self.stored.as_stored(rows).select(list(self.columns))

    def _after_rules(self, blocks: Iterator[ChangeBlock], moment: datetime) -> Iterator[ChangeBlock]:
        """Apply the tables' rules to the blocks. Rows that a rule rejects are not written to dead letters again."""
        if self.rules is None:
            yield from blocks
            return
        from cdc.transform.runner import RuleRunner  # imports the engine, which is only needed with rules

        with RuleRunner(self.rules) as runner:
            for block in blocks:
                yield runner.apply(block, moment)
                runner.counts.dead_letters.clear()

    @property
    def by_key(self) -> bool:
        """Whether rows can be read by their keys."""
        return all(feed.keys for feed in self.source_tables)


def sink_rows(stored: StoredTable, columns: Sequence[str]) -> Rows:
    """Return a reader of the sink table's rows."""

    def read(keys: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        return (batch.select(list(columns)) for batch in stored.rows(keys))

    return read
