"""Messages that could not be read, copied to a topic of their own. Executor."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.errors import SourceUnavailable
from cdc.retry import RetryPolicy
from connectors.kafka.client import ANSWER_S, KafkaCluster
from connectors.kafka.formats.groups import Messages


class DeadLetterTopic:
    """Writes to the topic; does nothing when there is none. A task that is tried again writes again."""

    def __init__(self, cluster: KafkaCluster, policy: RetryPolicy, topic: str | None) -> None:
        self._cluster, self._policy, self._topic = cluster, policy, topic
        self._producer: Producer | None = None
        self._failed: list[KafkaError] = []

    def add(self, messages: Messages, number: int, reason: str) -> None:
        """Copy one message, with where it was and what is wrong with it as headers."""
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
            except BufferError:  # there is room once some are confirmed
                self._producer.poll(ANSWER_S)
                self._go_on()
        self._producer.poll(0)

    def finish(self) -> None:
        """Wait until everything is there. Raises SourceError."""
        if self._producer is None:
            return
        while self._producer.flush(ANSWER_S):
            self._go_on()
        if self._failed:
            raise self._cluster.error(
                KafkaException(self._failed[0]), "writing dead letters", where=f"topic {self._topic}", need="WRITE"
            )

    def _go_on(self) -> None:
        """Raise SourceUnavailable once the run is asked to stop: what is not in the topic must not count as read."""
        if self._policy.stopping():
            raise SourceUnavailable(
                "the run is to stop, and dead letters are not confirmed yet",
                where=f"{self._cluster.where}: topic {self._topic}",
                hint="the next run reads and writes them again",
            )

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
