"""The topics of the sink: looks them up and creates missing ones."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from cdc.errors import SinkError
from cdc.retry import Backoff, RetryPolicy
from connectors.kafka.client import ANSWER_S, KafkaCluster

_THERE = frozenset({KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.INVALID_PARTITIONS})
_BROKERS_CHOICE = -1


@dataclass(frozen=True, slots=True)
class NewTopics:
    """The settings for creating missing topics; None leaves a number to the cluster."""

    create: bool = True
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


class Topics:
    """Knows which topics exist, and creates missing ones. Any process; asks once for each topic.

    Attributes:
        missing: the topics of rows that did not exist and were created.
    """

    def __init__(self, cluster: KafkaCluster, new: NewTopics, retry: RetryPolicy) -> None:
        self._cluster, self._new, self._retry = cluster, new, retry
        self._admin: AdminClient | None = None
        self._known: dict[str, int] = {}
        self._own: dict[str, int] = {}
        self.missing = set[str]()

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; creates the topic if it is missing and may be. Raises SinkError."""
        if topic not in self._known:
            self._known[topic] = self._look(topic) or self._create_missing(topic)
        return self._known[topic]

    def ensure(self, topic: str, partitions: int, *, grow: bool) -> None:
        """Create a topic for the sink's own use unless it exists, with at least that many partitions."""
        have = self._own.get(topic, 0)
        if have >= partitions or (have and not grow):
            return
        have = self._look(topic)
        if have == 0:
            self._create(NewTopic(topic, partitions, self._new.replication or _BROKERS_CHOICE))
            have = self._wait(topic, 1)  # another process may have created it with fewer
        if have < partitions:
            self._call_admin(
                "adding partitions", lambda: self._client().create_partitions([NewPartitions(topic, partitions)])
            )
            have = self._wait(topic, partitions)
        self._own[topic] = have

    def forget(self) -> None:
        """Forget the topics of rows, which may have got more partitions or been deleted."""
        self._known.clear()
        self.missing.clear()

    def _create_missing(self, topic: str) -> int:
        if not self._new.create:
            hint = "create it, or leave topic.create at its default"
            raise SinkError(f"there is no topic {topic}", where=self._cluster.where, hint=hint)
        self.missing.add(topic)
        number = self._new.partitions or _BROKERS_CHOICE
        config = dict(self._new.config)
        self._create(NewTopic(topic, number, self._new.replication or _BROKERS_CHOICE, config=config))
        return self._wait(topic, 1)

    def _create(self, topic: NewTopic) -> None:
        self._call_admin(f"creating topic {topic.topic}", lambda: self._client().create_topics([topic]))

    def _call_admin(self, doing: str, ask: object) -> None:
        def call() -> None:
            for future in ask().values():  # type: ignore[operator]
                try:
                    future.result(2 * ANSWER_S)
                except KafkaException as error:
                    # Another task did it first.
                    if error.args[0].code() not in _THERE:
                        raise

        try:
            self._cluster.retrying(self._retry, doing, call, self._client())
        except SinkError as error:
            if _is_for_its_name(error):
                error.hint = (
                    "give it another name with sink.tableId-to-topic.mapping: names may not differ only in . and _"
                )
            elif not error.retryable and "CREATE" not in error.hint:
                error.hint = f"{error.hint}; or create it beforehand"
            raise

    def _look(self, topic: str) -> int:
        """The number of partitions of a topic; 0 when it does not exist."""
        client = self._client()
        asking = f"asking for topic {topic}"
        found = self._cluster.retrying(self._retry, asking, lambda: self._cluster.topic_metadata(client, topic), client)
        data = found.topics[topic]
        if data.error is None:
            return len(data.partitions)
        if data.error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE):
            return 0
        raise self._cluster.error(data.error, f"asking for topic {topic}", need="DESCRIBE and WRITE")

    def _wait(self, topic: str, partitions: int) -> int:
        """Wait until the brokers know a new topic, which takes them longer than the controller that created it."""
        pauses = Backoff(RetryPolicy(timeout_s=60.0, first_pause_s=0.01, longest_pause_s=0.5), f"topic {topic}")
        while (found := self._look(topic)) < partitions:
            if not pauses.pause("it was made and is not seen yet"):
                raise SinkError(f"topic {topic} was made and does not appear", where=self._cluster.where)
        return found

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = self._cluster.admin()
        return self._admin


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _is_for_its_name(error: SinkError) -> bool:
    """Whether the cluster refuses a topic because of its name, which nobody can create then."""
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError.TOPIC_EXCEPTION
