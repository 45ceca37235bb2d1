"""What a user reads when the cluster cannot be reached, or says no."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from certificates import certificates
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource
from kafka_servers import KafkaServer
from together import together

from cdc.errors import SinkError, SinkUnavailable, SourceError, SourceUnavailable
from cdc.retry import RetryPolicy
from cdc.schema import TableId
from connectors.kafka import client
from connectors.kafka.client import SINK, SOURCE, KafkaCluster
from connectors.kafka.delivery.transaction import Producing, TransactionWriter
from connectors.kafka.encoding.encoder import EncodedMessages
from connectors.kafka.read.topic_ids import TopicIds
from connectors.kafka.settings import KafkaSettings

ONCE = RetryPolicy(timeout_s=0)


@pytest.mark.kafka
def test_tls_is_named_where_the_ids_of_topics_get_no_answer(
    kafka_broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a broker whose certificate is replaced during a run, which went on to wait for an answer."""
    if not kafka_broker.tls:
        pytest.skip("the broker at CDC_TEST_KAFKA has no TLS that is known")
    monkeypatch.setattr(client, "ANSWER_S", 1.0)
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(certificates(tmp_path)[0])}
    ids = TopicIds(KafkaCluster(KafkaSettings(kafka_broker.tls, tls), SOURCE), RetryPolicy(timeout_s=3.0))
    with pytest.raises(SourceError, match=r"asking for its id: TLS fails: .*certificate verify failed"):
        ids.fetch(["t"])


@pytest.mark.kafka
def test_topics_are_listed(kafka_broker: KafkaServer) -> None:
    topic = kafka_broker.new_topic(partitions=3)
    assert KafkaCluster(KafkaSettings(kafka_broker.bootstrap), SOURCE).partitions(ONCE)[topic] == 3


def test_a_broker_that_is_not_there_is_waited_for_and_named() -> None:
    told: list[str] = []
    refused = RetryPolicy(first_pause_s=0.01, stopping=lambda: "refused" in "".join(told), waiting=told.append)
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        cluster = KafkaCluster(KafkaSettings(f"127.0.0.1:{port}"), SOURCE)
        admin = cluster.admin()
        with pytest.raises(
            SourceUnavailable,
            match=rf"Kafka 127.0.0.1:{port}.*no answer.*refused.*bootstrap.servers.*security.protocol",
        ):
            cluster.retrying(refused, "asking for the topics", lambda: admin.list_topics(timeout=0.3), admin)
    assert "asking for the topics" in told[0]


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(SinkError, match=r"a setting is refused: .*\"lingers\".*properties\.") as caught:
        KafkaCluster(KafkaSettings("k:1", {"lingers": "5"}), SINK).admin()
    assert not caught.value.retryable


@together(
    "code, kind, text",
    [
        (KafkaError._RESOLVE, SinkUnavailable, "properties.bootstrap.servers"),
        (KafkaError.NOT_ENOUGH_REPLICAS, SinkUnavailable, "no answer"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, SinkUnavailable, "no answer"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, SinkError, "the login is refused"),
        (KafkaError._SSL, SinkError, "properties.security.protocol"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SinkError, "grant WRITE on the topic"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, SinkError, "--transactional-id"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, SinkError, "create the topic"),
        (KafkaError._FENCED, SinkError, "two runs of one pipeline"),
        (KafkaError.INVALID_CONFIG, SinkError, "INVALID_CONFIG"),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, SinkError, "set properties.transaction.timeout.ms"),
        (KafkaError.INVALID_RECORD, SinkError, "a compacted topic takes no message without a key"),
    ],
)
def test_each_refusal_has_its_own_next_step(code: int, kind: type[SinkError], text: str) -> None:
    found = KafkaCluster(KafkaSettings("k:1"), SINK).error(KafkaException(KafkaError(code, "said")), "writing")
    assert type(found) is kind
    assert text in str(found)
    assert str(found).startswith("Kafka k:1: writing: ")


@together("code", [KafkaError._STATE, KafkaError._FATAL])
def test_records_that_a_failed_transaction_refuses_say_why_it_has_failed(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Producer:
        begun = False

        def __len__(self) -> int:
            return 0

        def poll(self, _: float) -> int:
            return 0

        def begin_transaction(self) -> None:
            if self.begun:
                raise KafkaException(KafkaError(KafkaError._FENCED, "old epoch", fatal=True))
            self.begun = True

        def produce_batch(self, _: str, records: list[dict[str, Any]], __: int) -> int:
            records[0]["_error"] = KafkaError(code)
            return 0

    monkeypatch.setattr(KafkaCluster, "producer", lambda *_, **__: Producer())
    settings = KafkaSettings("k:1", {"transaction.timeout.ms": "0"})
    writer = TransactionWriter(KafkaCluster(settings, SINK), Producing(True), ONCE, name="id")
    with pytest.raises(SinkUnavailable, match=r"was open for 0 s.*properties.transaction.timeout.ms"):
        writer.send("t", EncodedMessages(TableId("a", "t"), [{"value": b""}], np.ones(1, np.int64), {}, False), 0)


def test_a_source_is_told_to_grant_what_a_source_needs() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "said")
    found = KafkaCluster(KafkaSettings("k:1"), SOURCE).error(refused, "asking for its id", where="topic t")
    assert str(found).startswith("topic t: asking for its id: a right is missing")
    assert "grant READ and DESCRIBE on the topic" in str(found)


def as_bo(broker: KafkaServer, password: str) -> KafkaSettings:
    """The settings of the user who has no rights."""
    if not broker.login:
        pytest.skip("the broker at CDC_TEST_KAFKA has no user bo")
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "bo"}
    return KafkaSettings(broker.login, {**login, "sasl.password": password})


@pytest.mark.kafka
def test_a_wrong_password_is_said_at_once(kafka_broker: KafkaServer) -> None:
    with pytest.raises(SourceError, match="the login is refused") as caught:
        KafkaCluster(as_bo(kafka_broker, "guessed"), SOURCE).partitions(RetryPolicy(timeout_s=60))
    assert "guessed" not in str(caught.value)


@pytest.mark.kafka
def test_a_missing_right_is_said(kafka_broker: KafkaServer) -> None:
    topic = kafka_broker.new_topic()
    cluster = KafkaCluster(as_bo(kafka_broker, "bo-secret"), SINK)
    assert topic not in cluster.partitions(ONCE)
    admin = cluster.admin()
    asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
    with pytest.raises(KafkaException) as refused:
        next(iter(asked.values())).result(60)
    error = cluster.error(refused.value, "describing a topic", need="DESCRIBE_CONFIGS")
    assert type(error) is SinkError
    assert "a right is missing" in str(error)
    assert "grant DESCRIBE_CONFIGS on the topic" in str(error)
