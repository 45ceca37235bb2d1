"""Messages through a format and into rows, without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cdc.block import RowKind
from cdc.schema import TableId, TableSchema
from connectors.kafka.formats.blocks import block_of
from connectors.kafka.formats.groups import Format, Messages, Reading
from connectors.kafka.read.tables import TopicTables
from connectors.kafka.source_options import KafkaSourceOptions


def messages(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> Messages:
    """Values of one partition, from offset 0 on."""
    return Messages.of("topic", 0, keys or [None] * len(values), values)


def options(**more: Any) -> KafkaSourceOptions:
    """Options with what is needed filled in."""
    given = {"type": "kafka", "topics": "topic", "properties.bootstrap.servers": "127.0.0.1:1", **more}
    return KafkaSourceOptions.model_validate(given)


class Read:
    """What one reading gives: schemas, row images, counted remarks, refused messages."""

    def __init__(self, found: Format, given: Messages, **more: Any) -> None:
        self.reading: Reading = found.read(given)
        self.schemas: dict[TableId, TableSchema] = {}
        self.counts: dict[str, int] = dict(self.reading.counts)
        self.unreadable: dict[int, str] = dict(self.reading.unreadable)
        self.images: list[tuple[str, dict[str, Any]]] = []
        self.messages: list[int] = []
        self.times: list[int] = []
        tables = TopicTables(options(**more))
        for group in self.reading.groups:
            self.schemas[group.table] = tables.needed(tables.described(group, found), self.schemas.get(group.table))
        sequences = np.arange(len(given))
        for group in self.reading.groups:
            described, schema = tables.described(group, found), self.schemas[group.table]
            check = tables.row_check(group.table, schema)
            block, left_out = block_of(described, schema, found.natural, sequences, self._count, check)
            self.unreadable.update(left_out)
            symbols = [RowKind(kind).symbol for kind in block.kinds.to_pylist()]
            self.images += zip(symbols, block.rows.to_pylist(), strict=True)
            self.messages += block.sequence.to_pylist()
            self.times += block.timestamps_ms.to_pylist()

    def _count(self, reason: str, number: int) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + number

    @property
    def schema(self) -> TableSchema:
        """The one table's."""
        (found,) = self.schemas.values()
        return found

    @property
    def types(self) -> dict[str, str]:
        """The one table's columns."""
        return {column.name: str(column.type) for column in self.schema.columns}
