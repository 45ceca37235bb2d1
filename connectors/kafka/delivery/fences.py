"""Fences: which batch each part of a pipeline wrote last, as offsets of a consumer group that commit with the records.

The group is named after the pipeline. Offset N + 1 of partition p + 1 of the fence topic means that task p has written
batch N; partition 0 is the driver's, for schema changes. No record is ever written to that topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from cdc.errors import SinkError
from cdc.flow.retry import RetryPolicy
from connectors.kafka.client import ANSWER_S, Cluster
from connectors.kafka.delivery.topics import Topics

DRIVER = 0
"""The part of the fence topic that is about schema changes."""

PARTITIONS = 32
"""Of a new fence topic; it gets more when a batch has more tasks."""

NEVER = -1
"""What is read where nothing was ever written."""


def part_of(task: int) -> int:
    """The partition of the fence topic that is about a task."""
    return task + 1


class Fences:
    """Reads fences, and names what is to be committed. Opens a connection of its own; close it."""

    def __init__(self, cluster: Cluster, topics: Topics, retry: RetryPolicy, *, topic: str, group: str) -> None:
        self._cluster, self._topics, self._retry, self._topic = cluster, topics, retry, topic
        self._consumer: Consumer = cluster.consumer(group_id=group, enable_auto_commit=False)

    def close(self) -> None:
        """Give the connection back."""
        self._consumer.close()

    def batches(self, parts: Sequence[int]) -> list[int]:
        """The last batch that each part wrote, NEVER for none.

        What another transaction is committing at this moment may not be seen yet; what this producer's predecessor
        left is decided once `init_transactions` is through. Raises the sink's errors.
        """
        self._topics.ensure(self._topic, max(PARTITIONS, max(parts) + 1), grow=True)
        wanted = [TopicPartition(self._topic, part) for part in parts]
        doing = "asking which batches are written"
        found = self._cluster.retrying(self._retry, doing, lambda: self._committed(wanted))
        return [NEVER if partition.offset < 0 else partition.offset - 1 for partition in found]

    def _committed(self, wanted: Sequence[TopicPartition]) -> list[TopicPartition]:
        found: list[TopicPartition] = self._consumer.committed(list(wanted), timeout=ANSWER_S)
        for partition in found:
            if partition.error is not None:
                raise KafkaException(partition.error)
        return found

    def mark(self, part: int, batch: int) -> tuple[list[TopicPartition], Any]:
        """What to send with the transaction that writes a batch: offsets, and the group they are of."""
        return [TopicPartition(self._topic, part, batch + 1)], self._consumer.consumer_group_metadata()

    def put(self, part: int, batch: int) -> None:
        """Commit the mark without a transaction. Raises the sink's errors."""
        offsets, _ = self.mark(part, batch)

        def commit() -> None:
            self._consumer.commit(offsets=offsets, asynchronous=False)

        self._cluster.retrying(self._retry, "noting a written batch", commit)


def check_not_ahead(batch: int, written: int, where: str) -> None:
    """Raise SinkError when Kafka holds a later batch of the pipeline than the one that is to be written."""
    if written > batch:
        raise SinkError(
            f"batch {written} of this pipeline was written already, and the state directory is at batch {batch}: it is "
            "an older copy",
            where=where,
            hint="restore the newest state directory, or start anew with another --state-dir and empty topics",
        )
