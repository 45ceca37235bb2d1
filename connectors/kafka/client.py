"""Clients of a Kafka cluster, and their errors made understandable: what failed, where, next step. Any process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from cdc.errors import CdcError, SinkError, SinkUnavailable, SourceError, SourceUnavailable
from cdc.retry import RetryPolicy
from connectors.kafka.settings import KafkaSettings

if TYPE_CHECKING:
    from connectors.kafka.fetch.fetcher import Fetcher

T = TypeVar("T")

log = logging.getLogger(__name__)

ANSWER_S = 10.0
"""How long one answer may take, in seconds."""


@dataclass(frozen=True, slots=True)
class ErrorSide:
    """The classes of errors to raise: those of a source or of a sink.

    Attributes:
        no_topic: for a missing topic. A source only names topics that it has seen, and a broker that is starting or
            taking over a partition does not know them for a moment.
        need: the right that most calls need.
    """

    refused: type[CdcError]
    unavailable: type[CdcError]
    no_topic: type[CdcError]
    need: str


SOURCE = ErrorSide(SourceError, SourceUnavailable, SourceUnavailable, "READ and DESCRIBE")
SINK = ErrorSide(SinkError, SinkUnavailable, SinkError, "WRITE")

_AWAY = frozenset({
    KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT,
    KafkaError._RESOLVE, KafkaError._WAIT_COORD, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.BROKER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR, KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.INCONSISTENT_TOPIC_ID, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE, KafkaError.REBOOTSTRAP_REQUIRED,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, KafkaError.UNSTABLE_OFFSET_COMMIT,
})  # fmt: skip
"""Errors with which the cluster cannot answer now, but may later."""

_LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
"""Errors that mean that another producer with the same transactional id has begun after this one."""
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_RIGHTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "grant {need} on the topic to this user: kafka-acls --add",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant READ on the group to this user: kafka-acls --add --group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant {need} on the cluster to this user: kafka-acls --add --cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "grant WRITE and DESCRIBE on the transactional ids to this "
    "user: kafka-acls --add --transactional-id",
}
_STEPS = {
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "set properties.transaction.timeout.ms to at most the brokers' "
    "transaction.max.timeout.ms",
    KafkaError.INVALID_RECORD: "a compacted topic takes no message without a key: give the table one (primary-keys), "
    "or the topic cleanup.policy=delete",
}
"""Hints for errors that need no further details."""
_TLS_HINT = (
    "see properties.security.protocol, properties.ssl.ca.location and the port: TLS and plain are on different ones; "
    "`openssl s_client -connect HOST:PORT` shows whether the certificate has expired, and the names in it"
)
_AT_ONCE = {"enable.sparse.connections": False}
"""Connect at once instead of with the first request: a task's clients only live for a moment, and connecting to the
coordinator late takes 50 to 500 ms instead of 3."""
_AWAY_HINT = (
    "see properties.bootstrap.servers, that its port speaks properties.security.protocol (plaintext where it is not "
    "set), and that the broker runs and advertises an address that works from here"
)


@dataclass(slots=True)
class KafkaCluster:
    """A cluster as one side of a pipeline uses it: makes clients, and converts their errors. Picklable.

    Every client reports the errors of its connections here, so that a call that runs into its time limit can say why.
    """

    settings: KafkaSettings
    side: ErrorSide
    _errors: list[tuple[int, str]] = field(default_factory=list)

    def __reduce__(self) -> tuple[object, ...]:
        return (KafkaCluster, (self.settings, self.side))

    @property
    def where(self) -> str:
        """The name of the cluster in messages."""
        return f"Kafka {self.settings.bootstrap}"

    def admin(self, **own: Any) -> AdminClient:
        """An admin client; keep it until its answers have come. Names in `own` have underscores for dots."""
        return self._create_client(lambda: AdminClient(self._config(own)))

    def consumer(self, **own: Any) -> Consumer:
        """A consumer. Names in `own` have underscores for dots."""
        return self._create_client(lambda: Consumer(self._config(own)))

    def fetcher(self, **own: Any) -> Fetcher:
        """A consumer that returns columns. Names in `own` have underscores for dots."""
        from connectors.kafka.fetch.fetcher import Fetcher

        return self._create_client(lambda: Fetcher(self.settings.config(**own), self._on_error))

    def producer(self, **own: Any) -> Producer:
        """A producer. Names in `own` have underscores for dots."""
        return self._create_client(lambda: Producer(self._config(own)))

    def retrying(
        self, policy: RetryPolicy, doing: str, call: Callable[[], T], polled: AdminClient | Producer | None = None
    ) -> T:
        """The result of `call`, repeated by the policy while the cluster is away. Raises the side's errors.

        `polled` is the client of the call, which is polled for the errors of its connections. A consumer reports those
        with its records.
        """

        def attempt() -> T:
            try:
                return call()
            except KafkaException as error:
                if polled is not None:
                    polled.poll(0)
                raise self.error(error, doing) from error

        self._errors.clear()
        return policy.call(attempt, f"{self.where}: {doing}")

    def partitions(self, policy: RetryPolicy) -> dict[str, int]:
        """The topics that this user may see, with their numbers of partitions. Raises the side's errors."""
        admin = self.admin()
        listed = self.retrying(policy, "asking for the topics", lambda: self.topic_metadata(admin), admin)
        return {name: len(topic.partitions) for name, topic in listed.topics.items() if topic.error is None}

    def topic_ids(self, admin: AdminClient, topics: Collection[str]) -> dict[str, str]:
        """The ids of the topics that exist; empty for brokers before 2.8. Raises KafkaException."""
        answers = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=ANSWER_S)
        found: dict[str, str] = {}
        for topic, answer in answers.items():
            try:
                id_ = answer.result().topic_id
            except KafkaException as error:
                if error.args[0].code() not in UNKNOWN_TOPIC:
                    admin.poll(0)
                    raise self.error(error, "asking for its id", where=f"topic {topic}") from error
            else:
                bits = (id_.get_most_significant_bits(), id_.get_least_significant_bits())
                found[topic] = str(id_) if any(bits) else ""
        return found

    def error(self, error: KafkaException | KafkaError, doing: str, *, where: str = "", need: str = "") -> CdcError:
        """The error to raise for an error of the client.

        `doing` is the operation that failed; `need` the right that it needs if that is not the side's usual one.
        """
        found = error.args[0] if isinstance(error, KafkaException) else error
        code, text = found.code(), found.str()
        if code in _AWAY and self._errors:
            # A timeout does not tell the cause, but the earlier errors of the connections do.
            code, text = self._errors[-1]
        refused, unavailable = self.side.refused, self.side.unavailable
        where = where or self.where
        if code in _LOGIN:
            hint = "see properties.sasl.mechanism, properties.sasl.username and the password"
            return refused(f"{doing}: the login is refused: {text}", where=where, hint=hint)
        if code == KafkaError._SSL:
            return refused(f"{doing}: TLS fails: {text}", where=where, hint=_TLS_HINT)
        if code in _RIGHTS:
            return refused(
                f"{doing}: a right is missing: {text}",
                where=where,
                hint=_RIGHTS[code].format(need=need or self.side.need),
            )
        if code in UNKNOWN_TOPIC:
            hint = "create the topic, or check the spelling of its name"
            return self.side.no_topic(f"{doing}: there is no such topic or partition", where=where, hint=hint)
        if code in FENCED:
            hint = "two runs of one pipeline write at the same time: stop one of them"
            return refused(
                f"{doing}: another producer with the same transactional id has begun", where=where, hint=hint
            )
        if code in _AWAY or found.retriable():
            return unavailable(f"{doing}: no answer: {text}", where=where, hint=_AWAY_HINT)
        hint = _STEPS.get(code, f"Kafka's error {found.name()}")
        return refused(f"{doing}: {text}", where=where, hint=hint)

    def topic_metadata(self, admin: AdminClient | Producer, topic: str | None = None) -> Any:
        """The cluster's metadata of one topic, or of all. Raises KafkaException."""
        # A refused login also ends in a timeout, so a short limit first shows it soon.
        try:
            return _topics(admin, topic, min(1.0, ANSWER_S))
        except KafkaException:
            admin.poll(0)
            if self._errors and self._errors[-1][0] not in _AWAY:
                raise
            return _topics(admin, topic, ANSWER_S)

    def _create_client(self, make: Callable[[], T]) -> T:
        try:
            return make()
        except KafkaException as error:
            found = error.args[0]
            hint = "the keys after properties. are librdkafka's: CONFIGURATION.md of librdkafka lists them"
            raise self.side.refused(f"a setting is refused: {found.str()}", where=self.where, hint=hint) from error

    def _config(self, own: dict[str, Any]) -> dict[str, Any]:
        # The retry policy already logs lost connections, once.
        # Asking about a missing topic must not create it, which is the brokers' default for all but consumers.
        fixed = {"error_cb": self._on_error, "logger": log, "log_level": 0, "allow.auto.create.topics": False}
        if self.side is SINK:
            fixed |= _AT_ONCE
        return {**fixed, **self.settings.config(**own)}

    def _on_error(self, error: KafkaError) -> None:
        # Keep the first reason, which tells the cause; "all brokers are down" follows it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self._errors:
            self._errors[:] = [(error.code(), error.str())]


def _topics(admin: AdminClient | Producer, topic: str | None, timeout_s: float) -> Any:
    return admin.list_topics(timeout=timeout_s) if topic is None else admin.list_topics(topic, timeout=timeout_s)
