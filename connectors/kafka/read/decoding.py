"""Decode messages to change blocks, with the schemas of their batch. Runs in executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.block import ChangeBlock
from cdc.errors import CorruptLog, SchemaUnknown, SourceUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import TableSchema
from cdc.source import Count
from connectors.kafka.client import ANSWER_S, SOURCE, KafkaCluster
from connectors.kafka.formats.blocks import block_of
from connectors.kafka.formats.groups import Format, Messages, TableGroup
from connectors.kafka.read.detect import Formats
from connectors.kafka.read.history import HistoryState
from connectors.kafka.read.offset import sequence_base
from connectors.kafka.read.statements import concerns, is_left_out, partition_offset
from connectors.kafka.read.tables import TopicTables
from connectors.kafka.source_options import KafkaSourceOptions

NOT_CARRIED_OUT = "ddl-not-carried-out"


class MessageDecoder:
    """Decodes the messages of one split.

    Args:
        known: the state of the history at the end of the batch.

    Attributes:
        formats: the formats of the topics.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        policy: RetryPolicy,
        options: KafkaSourceOptions,
        known: HistoryState,
        count: Count,
    ) -> None:
        self._options, self._known, self._count = options, known, count
        self.formats, self._tables = Formats(options, options.registry(policy, SOURCE)), TopicTables(options)
        self._letters = DeadLetterTopic(cluster, policy, options.dead_letter_topic)

    def finish(self) -> None:
        """Send the remaining dead letters. Raises SourceError."""
        self._letters.finish()

    def blocks(self, messages: Messages, number: int) -> Iterator[ChangeBlock]:
        """The changes in messages of one topic; `number` is the partition's number. Raises SourceError."""
        written = self.formats.of(messages.topic, messages)
        reading = written.read(messages, self._known.table_of(messages.topic))
        sequences = sequence_base(number) + messages.offsets
        self._refuse(messages, reading.unreadable)
        skipped = sum(
            concerns(statement, self._tables)
            and is_left_out(statement, partition_offset(messages, statement) in self._known.carried)
            for statement in reading.statements
        )
        if skipped:
            self._count(f"{NOT_CARRIED_OUT} {messages.topic}", skipped)
        for reason, times in reading.counts.items():
            self._count(reason, times)
        for group in reading.groups:
            if self._tables.captures(group.table):
                block = self._block(messages, self._tables.described(group, written), written, sequences)
                if block is not None and len(block):
                    yield block

    def _block(self, messages: Messages, group: TableGroup, written: Format, sequences: Any) -> ChangeBlock | None:
        refused = self._tables.refusal_of(group, self._known)
        if refused is not None:
            self._refuse(messages, dict.fromkeys(group.images.messages.tolist(), f"{group.table}: {refused.message}"))
            return None
        schema = self._schema(group, messages)
        check = self._tables.row_check(group.table, schema)
        block, left_out = block_of(group, schema, written.natural, sequences, self._count, check)
        self._refuse(messages, left_out)
        return block

    def _schema(self, group: TableGroup, messages: Messages) -> TableSchema:
        schema = self._known.schemas.get(group.table)
        if schema is None:
            raise SchemaUnknown(
                f"the schema of {group.table} was not known when the batch was planned",
                where=messages.where(int(group.images.messages[0])),
                hint="the topic has changed since: start over with an empty state directory",
            )
        return schema

    def _refuse(self, messages: Messages, unreadable: Mapping[int, str]) -> None:
        """Handle unreadable messages as `unreadable-messages` says. Raises CorruptLog."""
        if not unreadable:
            return
        if self._options.unreadable == "fail":
            number, reason = min(unreadable.items())
            raise CorruptLog(
                f"a message cannot be read: {reason}",
                where=messages.where(number),
                hint="set unreadable-messages to skip or dead-letter to continue without such messages",
            )
        for number, reason in unreadable.items():
            self._letters.add(messages, number, reason)
        name = "unreadable-message" if self._options.unreadable == "skip" else "unreadable-message-dead-letter"
        self._count(f"{name} {messages.topic}", len(unreadable))


class DeadLetterTopic:
    """Writes dead letters to the topic, if there is one. A task that is tried again writes them again."""

    def __init__(self, cluster: KafkaCluster, policy: RetryPolicy, topic: str | None) -> None:
        self._cluster, self._policy, self._topic = cluster, policy, topic
        self._producer: Producer | None = None
        self._failed: list[KafkaError] = []

    def add(self, messages: Messages, number: int, reason: str) -> None:
        """Copy one message, with its position and the reason as headers."""
        if self._topic is None:
            return
        if self._producer is None:
            self._producer = self._cluster.producer(enable_idempotence=True)
        headers: list[tuple[str, str | bytes | None]] = [
            ("cdc.position", messages.where(number).encode()),
            ("cdc.reason", reason.encode()),
        ]
        value, key = messages.value(number), messages.key(number)
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers, on_delivery=self._on_delivery)
                break
            except BufferError:  # the queue has room again once some are confirmed
                self._producer.poll(ANSWER_S)
                self._go_on()
        self._producer.poll(0)

    def finish(self) -> None:
        """Wait until all dead letters are confirmed. Raises SourceError."""
        if self._producer is None:
            return
        while self._producer.flush(ANSWER_S):
            self._go_on()
        if self._failed:
            raise self._cluster.error(
                KafkaException(self._failed[0]), "writing dead letters", where=f"topic {self._topic}", need="WRITE"
            )

    def _go_on(self) -> None:
        """Raise SourceUnavailable when the run is asked to stop: unconfirmed dead letters must not count as read."""
        if self._policy.stopping():
            raise SourceUnavailable(
                "the run is to stop, and dead letters are not confirmed yet",
                where=f"{self._cluster.where}: topic {self._topic}",
                hint="the next run reads and writes them again",
            )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
