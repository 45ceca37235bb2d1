"""What tests do with a sink: create a table, prepare and commit batches, read the suite's values back."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from cdc.block import ChangeBlock
from cdc.schema import CreateTable, DataType, TableId, TableSchema
from cdc.sink import Prepared, Sink, TaskAttempt
from cdc.testing.sink_conformance import VALUES

S = TypeVar("S", bound=Sink)
TYPES = {f"c{index}": DataType.parse(text) for index, (text, _) in enumerate(VALUES)}
"""The columns of the suite's table `types`."""


def created(sink: S, table: TableId, schema: TableSchema) -> S:
    """The sink, with this table."""
    sink.apply(0, [CreateTable(table, schema)])
    return sink


def prepared(sink: Sink, batch: int, *blocks: ChangeBlock, partition: int = 0, **attempt: Any) -> list[Prepared]:
    return list(sink.prepare(TaskAttempt(batch, partition, 0, **attempt), iter(blocks)))


def commit(sink: Sink, batch: int, *blocks: ChangeBlock, **attempt: Any) -> None:
    sink.commit(batch, prepared(sink, batch, *blocks, **attempt))


def span(text: str) -> timedelta:
    """A TIME that a sink has as text."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    span = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 10**6))
    return -span if text.startswith("-") else span
