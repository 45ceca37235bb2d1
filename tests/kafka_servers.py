"""Where tests get a real Kafka broker from, in this order:

1. an address: `CDC_TEST_KAFKA` = `host:port` (the session's broker only);
2. what `make services` installed;
3. else the test is skipped with the reason - or fails, when `CDC_REQUIRE_SERVICES` names kafka.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

from certificates import certificates
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from servers import missing

from cdc_services.kafka.broker import StartedBroker
from cdc_services.kafka.install import find
from cdc_services.process import free_port

_names = itertools.count(1)
_NO_BROKER = "no Kafka broker: set CDC_TEST_KAFKA=host:port, or run `make services`"
_WAIT_S = 300.0
_LOGINS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram."
    "ScramLoginModule required;",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
    'required user_bo="bo-secret";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}
"""Whoever does not log in may do all; `bo` may do what a test grants. Whoever asks for a topic makes it, as Kafka has
it by default."""


@dataclass
class KafkaServer:
    """A reachable broker, and what tests ask of it. At `login` the user `bo` logs in, who has no rights at first.
    At `tls` there is TLS, with a certificate of `authority`, a PEM file."""

    bootstrap: str
    process: StartedBroker | None = None
    login: str = ""
    tls: str = ""
    authority: Path | None = None

    def new_name(self, prefix: str = "t") -> str:
        """A name for topics and groups that nobody else uses."""
        return f"{prefix}-{os.getpid()}-{next(_names)}-{time.time_ns() % 1_000_000}"

    def new_topic(self, prefix: str = "t", partitions: int = 1, **config: str) -> str:
        """Create an empty topic whose name nobody else uses; its name."""
        name = self.new_name(prefix)
        self.create(name, partitions, **config)
        return name

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; underscores in the names of settings stand for dots."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin = self.admin()
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
            future.result(_WAIT_S)
        _appears(admin, name, partitions)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        admin = self.admin()
        for future in admin.create_partitions([NewPartitions(name, partitions)]).values():
            future.result(_WAIT_S)
        _appears(admin, name, partitions)

    def delete(self, name: str) -> None:
        """Delete a topic; returns once clients are told that it is gone."""
        admin = self.admin()
        for future in admin.delete_topics([name]).values():
            future.result(_WAIT_S)
        deadline = time.monotonic() + _WAIT_S
        while name in self.topics():
            assert time.monotonic() < deadline, f"topic {name} does not go"

    def give_scram_password(self, user: str, password: str) -> None:
        """Let a user log in with SCRAM-SHA-512."""
        kind = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(user, kind, password.encode())
        admin = self.admin()
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(_WAIT_S)

    def forget_group(self, group: str) -> None:
        """Let the broker forget a group's offsets, as it does by itself after a week."""
        admin = self.admin()
        for future in admin.delete_consumer_groups([group]).values():
            future.result(_WAIT_S)

    def ends(self, topic: str, partition: int = 0) -> int:
        """Where a partition ends, with the markers of transactions, for readers that see everything."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "none", "isolation.level": "read_uncommitted"}
        )
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)[1])
        finally:
            consumer.close()

    def admin(self) -> AdminClient:
        """An admin client; keep it until what it was asked is answered."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def topics(self) -> set[str]:
        """The names of all topics but Kafka's own."""
        return {name for name in self.admin().list_topics(timeout=60).topics if not name.startswith("__")}

    def produce(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Write records (`value`, `key`, `partition`, `headers`, `timestamp`, as `Producer.produce` has them)."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        failed: list[object] = []
        for record in records:
            producer.produce(topic, on_delivery=lambda error, _: error and failed.append(error), **record)
        assert (producer.flush(_WAIT_S), failed) == (0, [])

    def read(self, *topics: str, isolation: str = "read_committed") -> list[Message]:
        """All records of topics up to their ends as of now, in the order of partitions."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap, "group.id": self.new_name("reader"), "isolation.level": isolation,
                "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            }
        )  # fmt: skip
        try:
            return list(_to_the_end(consumer, topics))
        finally:
            consumer.close()


def _appears(admin: AdminClient, name: str, partitions: int) -> None:
    """The controller has it; clients ask brokers, which hear of it a moment later."""
    deadline = time.monotonic() + _WAIT_S
    while len(admin.list_topics(name, timeout=60).topics[name].partitions) != partitions:
        assert time.monotonic() < deadline, f"topic {name} does not appear"


BrokerFactory = Callable[..., KafkaServer]


@contextmanager
def shared_broker() -> Iterator[KafkaServer]:
    """The broker that all tests of the session share: take `new_topic`, never stop it."""
    with ExitStack() as stack:
        address = os.environ.get("CDC_TEST_KAFKA")
        yield KafkaServer(address) if address else _started(stack, {})


@contextmanager
def own_brokers() -> Iterator[BrokerFactory]:
    """A function that starts brokers for one test: `broker_factory({"message.max.bytes": "2000"})`."""
    with ExitStack() as stack:
        yield lambda settings=None: _started(stack, settings or {})


def missing_broker() -> NoReturn:
    """Skip, or fail where Kafka is required. Never returns."""
    missing("kafka", _NO_BROKER)


def _started(stack: ExitStack, settings: Mapping[str, str]) -> KafkaServer:
    installation = find()
    if installation is None:
        missing_broker()
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="broker-tls-")))
    authority, identity = certificates(folder)
    broker = StartedBroker(
        installation, {**_LOGINS, **settings}, login_port=free_port(), tls_port=free_port(), identity=identity
    )
    stack.callback(broker.close)
    login, tls = (f"127.0.0.1:{port}" for port in (broker.login_port, broker.tls_port))
    return KafkaServer(broker.bootstrap, broker, login, tls, authority)


def _to_the_end(consumer: Consumer, topics: Sequence[str]) -> Iterator[Message]:
    for topic in topics:
        for partition in sorted(consumer.list_topics(topic, timeout=60).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            deadline = time.monotonic() + _WAIT_S
            while True:
                message = consumer.poll(1.0)
                assert time.monotonic() < deadline, f"{topic} [{partition}] has no end"
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == -191:  # the end of the partition
                    break
                else:
                    raise KafkaException(error)
