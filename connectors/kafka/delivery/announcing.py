"""Write the messages about a batch's schema changes to their topics, in one transaction with the driver's fence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cdc.schema import Kind, TableId, TableSchema
from cdc.sink import Announced
from cdc.types.kinds import INTEGERS, TEXTS
from connectors.kafka.delivery.fences import DRIVER, Fences, WrittenBatch, is_written
from connectors.kafka.delivery.partitioner import partition_of
from connectors.kafka.delivery.too_large import OversizedRecords
from connectors.kafka.delivery.topics import Topics, now_ms
from connectors.kafka.delivery.transaction import TransactionWriter
from connectors.kafka.encoding.encoder import EncodedMessages, size_of
from connectors.kafka.encoding.formats import naming_of
from connectors.kafka.encoding.records import Record
from connectors.kafka.encoding.schema_messages import SchemaMessage, schema_messages
from connectors.kafka.sink_options import KafkaSinkOptions
from connectors.kafka.topic_names import TopicNames


def messages_about(changes: Sequence[Announced], options: KafkaSinkOptions, version: str) -> list[SchemaMessage]:
    """The messages about the changes of a batch, as far as the options want them. `version` is this tool's. Driver."""
    return list(schema_messages(changes, options, naming_of(options, version), now_ms()))


def respelled_keys(changes: Sequence[Announced], value_format: str) -> Iterator[TableId]:
    """The tables whose rows have other message keys from now on, so that readers by key see such rows twice."""
    respelled = dict.fromkeys(TEXTS, "text")
    if not value_format.startswith("debezium-avro"):  # its keys name their schema
        respelled |= dict.fromkeys(INTEGERS - {Kind.BIGINT_UNSIGNED}, "number")

    def spelling(table: TableSchema) -> list[tuple[str, str]]:
        types = {column.name: column.type for column in table.columns}
        return [(name, respelled.get(types[name].kind, str(types[name]))) for name in table.primary_key]

    for change in changes:
        if change.before is not None and change.after is not None and spelling(change.before) != spelling(change.after):
            yield change.change.table


class Announcing:
    """Writes the schema change messages of one batch. Driver."""

    def __init__(self, topics: Topics, names: TopicNames, options: KafkaSinkOptions) -> None:
        self._topics, self._names, self._options = topics, names, options
        self._too_large = OversizedRecords(options.largest_message, None, "", 0)

    def write(
        self, writer: TransactionWriter, fences: Fences, batch: int, found: Sequence[SchemaMessage], where: str
    ) -> None:
        """Write the messages, unless the fence tells that they are written already. Raises SinkError."""
        batch_written, before = WrittenBatch(batch), fences.last_written([DRIVER])[0]
        if is_written(batch_written, before, where):
            return
        for message in found:
            topic, partition = self._target(message)
            writer.send(topic, self._too_large.without_oversized(topic, self._messages(message)), partition)
        writer.commit(fences, DRIVER, replace(batch_written, before=before.batch))

    def _target(self, message: SchemaMessage) -> tuple[str, int]:
        schema_topic = self._options.schema_topic()
        if schema_topic is not None and not message.of_rows:
            self._topics.ensure(schema_topic, 1, grow=False)
            return schema_topic, 0
        topic = self._names.topic(message.table)
        count = self._topics.partitions(topic)
        to_zero = self._options.partition_strategy == "all-to-zero"
        return topic, 0 if to_zero else partition_of(message.table, count)

    def _messages(self, message: SchemaMessage) -> EncodedMessages:
        record: Record = {"value": message.value}
        if message.key is not None:
            record["key"] = message.key
        headers = self._options.headers(message.table)
        sizes = np.array([sum(map(len, record.values())) + size_of(headers)], np.int64)
        return EncodedMessages(message.table, [record], sizes, {0: headers} if headers else {}, message.key is not None)
