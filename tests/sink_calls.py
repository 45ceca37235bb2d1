"""What tests do with a sink: create a table, prepare and commit batches."""

from __future__ import annotations

from typing import Any, TypeVar

from cdc.block import ChangeBlock
from cdc.schema import CreateTable, TableId, TableSchema
from cdc.sink import Prepared, Sink, TaskAttempt

S = TypeVar("S", bound=Sink)


def created(sink: S, table: TableId, schema: TableSchema) -> S:
    """The sink, with this table."""
    sink.apply(0, [CreateTable(table, schema)])
    return sink


def prepared(sink: Sink, batch: int, *blocks: ChangeBlock, partition: int = 0, **attempt: Any) -> list[Prepared]:
    return list(sink.prepare(TaskAttempt(batch, partition, 0, **attempt), iter(blocks)))


def commit(sink: Sink, batch: int, *blocks: ChangeBlock, **attempt: Any) -> None:
    sink.commit(batch, prepared(sink, batch, *blocks, **attempt))
