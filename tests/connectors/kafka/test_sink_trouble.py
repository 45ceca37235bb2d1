"""The sink and a broker that goes away, comes back, is reached with TLS, or says no."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from certificates import certificates
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka_servers import BrokerFactory, KafkaServer

from cdc.block import ChangeBlock
from cdc.errors import SinkError, SinkUnavailable
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.state.waits import Waits
from cdc.testing.blocks import block
from cdc_services.kafka.broker import StartedBroker
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions
from connectors.kafka.source import KafkaSource
from connectors.kafka.source_options import KafkaSourceOptions

pytestmark = pytest.mark.kafka
SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False),), ("id",))
TABLE = TableId("shop", "orders")
_LONG_S = 300.0


def sink(bootstrap: str, folder: Path, pipeline: str = "trouble", **options: Any) -> KafkaSink:
    given = {"type": "kafka", "properties.bootstrap.servers": bootstrap, **options}
    return KafkaSink(KafkaSinkOptions.model_validate(given), Context(pipeline, LocalStore(folder)))


def rows(*numbers: int) -> ChangeBlock:
    return block(TABLE, SCHEMA, [("+I", {"id": number}) for number in numbers], sequence=numbers[0])


def wait_until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LONG_S
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_a_broker_that_is_killed_or_restarted_is_waited_for_and_nothing_is_lost_or_written_twice(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    broker = broker_factory()
    process, waits = broker.process, Waits(LocalStore(tmp_path))
    assert isinstance(process, StartedBroker)
    made = sink(broker.bootstrap, tmp_path, **{"properties.reconnect.backoff.max.ms": "500"})
    made.apply(0, [CreateTable(TABLE, SCHEMA)])

    def back_when_waited_for() -> None:
        """Whoever waits has said so."""
        wait_until(lambda: f"Kafka {broker.bootstrap}: " in waits.current() and "no answer" in waits.current())
        process.start()

    def killed_on_the_way() -> Iterator[ChangeBlock]:
        yield rows(1, 2)
        process.kill9()
        starting.append(pool.submit(back_when_waited_for))
        yield rows(3, 4)

    with ThreadPoolExecutor(1) as pool:
        starting = list[Any]()
        made.prepare(TaskAttempt(0, 0, 0), killed_on_the_way())
        starting.pop().result(_LONG_S)
        process.stop()
        LocalStore(tmp_path).remove("waiting.json")
        starting.append(pool.submit(back_when_waited_for))
        made.prepare(TaskAttempt(1, 0, 0), iter([rows(5)]))
        starting.pop().result(_LONG_S)
        # Inside: a server ends with the thread that started it.
        found = [json.loads(message.key())["id"] for message in broker.read(str(TABLE))]
    assert found == [1, 2, 3, 4, 5]


def test_tls_is_spoken_with_a_broker_whose_authority_is_known(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    tls = {"properties.security.protocol": "SSL", "properties.ssl.ca.location": str(_authority(kafka_broker))}
    made = sink(kafka_broker.tls, tmp_path, **tls, topic=kafka_broker.new_topic())
    made.check()
    (handle,) = made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)]))
    assert handle.inserts == 1


def test_a_broker_of_another_authority_is_refused_at_once(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    _authority(kafka_broker)
    other, _ = certificates(tmp_path)
    tls = {"properties.security.protocol": "SSL", "properties.ssl.ca.location": str(other)}
    with pytest.raises(
        SinkError, match=r"TLS fails: .*certificate verify failed.*properties.ssl.ca.location.*has expired"
    ) as caught:
        sink(kafka_broker.tls, tmp_path, **tls).check()
    assert not caught.value.retryable


def test_a_wrong_password_is_said_at_once(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    if not kafka_broker.login:
        pytest.skip("the broker at CDC_TEST_KAFKA has no user bo")
    login = {
        "properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.username": "bo", "properties.sasl.password": "guessed",
    }  # fmt: skip
    with pytest.raises(SinkError, match=r"the login is refused.*properties.sasl.username") as caught:
        sink(kafka_broker.login, tmp_path, **login).check()
    assert not caught.value.retryable
    assert "guessed" not in str(caught.value)


@pytest.mark.parametrize(
    ("mechanism", "login", "password"),
    [
        ("PLAIN", "PlainLoginModule", "bo-secret"), ("SCRAM-SHA-512", "ScramLoginModule", "bo-scram"),
        ("SCRAM-SHA-512", "", "bo-scram"),
    ],
)  # fmt: skip
def test_who_logs_in_writes_and_reads_and_the_password_is_in_no_message(
    kafka_broker: KafkaServer, tmp_path: Path, mechanism: str, login: str, password: str
) -> None:
    """With the Java client's line for user and password, and with librdkafka's two settings."""
    if not kafka_broker.login:
        pytest.skip("the broker at CDC_TEST_KAFKA has no user bo")
    kafka_broker.give_scram_password("bo", "bo-scram")
    topic = kafka_broker.new_topic()
    rights = [(ResourceType.TOPIC, topic), (ResourceType.GROUP, f"cdc-{topic}"), (ResourceType.TOPIC, "cdc-fences")]
    rights.append((ResourceType.TRANSACTIONAL_ID, f"cdc-{topic}-0"))
    admin = kafka_broker.admin()
    settled(admin.create_acls([bound(*right) for right in rights]))
    sink(kafka_broker.bootstrap, tmp_path, topic=topic, pipeline=topic).check()  # makes the fence topic

    def with_password(given: str) -> dict[str, str]:
        how = {"properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": mechanism}
        if not login:
            return {**how, "properties.sasl.username": "bo", "properties.sasl.password": given}
        line = f'org.apache.kafka.common.security.x.{login} required username="bo" password="{given}";'
        return {**how, "properties.sasl.jaas.config": line}

    made = sink(kafka_broker.login, tmp_path, topic=topic, pipeline=topic, **with_password(password))
    made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)]))
    given = {"type": "kafka", "properties.bootstrap.servers": kafka_broker.login, "topics": topic}
    read = KafkaSourceOptions.model_validate({**given, **with_password(password)})
    tables = KafkaSource(read, Context(topic, LocalStore(tmp_path / "source"))).tables()
    assert [(str(table), schema.names) for table, schema in tables.items()] == [(str(TABLE), ("id",))]
    with pytest.raises(SinkError, match=r"the login is refused.*properties.sasl.mechanism") as caught:
        sink(kafka_broker.login, tmp_path, topic=topic, pipeline=topic, **with_password("not-this-one")).check()
    assert not caught.value.retryable
    assert "not-this-one" not in str(caught.value)
    assert password not in f"{made.__dict__} {read!r}"


@pytest.mark.slow
def test_a_transactional_id_that_the_broker_has_forgotten_is_taken_again(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """As after `transactional.id.expiration.ms`, a week: between batches, before a replay, and inside a task."""
    broker = broker_factory({
        "transactional.id.expiration.ms": "1000", "producer.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
        "producer.id.expiration.check.interval.ms": "200",
    })  # fmt: skip
    topic = broker.new_topic()
    made = sink(broker.bootstrap, tmp_path, topic=topic, pipeline=topic)

    def forgotten() -> bool:
        said = [each.value() for each in broker.read("__transaction_state") if topic.encode() in (each.key() or b"")]
        return bool(said) and said[-1] is None

    def standing_still() -> Iterator[ChangeBlock]:
        wait_until(forgotten)
        yield rows(4)

    def written(batch: int, *numbers: int) -> None:
        """Tried again, as Spark does: on a slow machine the id may be forgotten in the middle of any task."""
        for attempt in range(10):
            try:
                made.prepare(TaskAttempt(batch, 0, attempt), iter([rows(*numbers)]))
            except SinkUnavailable:
                continue
            return
        raise AssertionError(f"batch {batch} is not written")

    written(0, 1, 2)
    wait_until(forgotten)
    written(0, 1, 2)  # it is there already, as its fence says
    written(1, 3)
    with pytest.raises(SinkUnavailable, match="not currently assigned to its transactional id"):
        made.prepare(TaskAttempt(2, 0, 0), standing_still())
    written(2, 4)
    assert ids(broker, topic) == [1, 2, 3, 4]


def test_a_note_whose_transaction_does_not_end_is_said_and_not_passed_over(
    kafka_broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker leaves one that is killed between a commit and its markers: what is written is not known then."""
    monkeypatch.setattr("connectors.kafka.delivery.fences.ANSWER_S", 2.0)
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker.bootstrap, tmp_path, topic=topic, pipeline=topic, **{"retry-timeout": "1 s"})
    made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)]))
    other = Producer({"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": f"other-{topic}"})
    group = Consumer({"bootstrap.servers": kafka_broker.bootstrap, "group.id": f"cdc-{topic}"})
    other.init_transactions(_LONG_S)
    other.begin_transaction()
    note = TopicPartition("cdc-fences", 1, 2)
    other.send_offsets_to_transaction([note], group.consumer_group_metadata(), _LONG_S)
    with pytest.raises(SinkUnavailable, match=r"neither committed nor aborted.*find-hanging"):
        made.prepare(TaskAttempt(1, 0, 0), iter([rows(2)]))
    other.abort_transaction(_LONG_S)
    made.prepare(TaskAttempt(1, 0, 0), iter([rows(2)]))
    group.close()
    assert ids(kafka_broker, topic) == [1, 2]


def _authority(broker: KafkaServer) -> Path:
    if broker.authority is None:
        pytest.skip("the broker at CDC_TEST_KAFKA has no TLS that is known")
    return broker.authority


def test_a_transaction_that_ran_into_its_time_limit_is_written_again(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    """As of a process that was stopped and goes on: the broker has ended its transaction, no other run has."""
    topic = kafka_broker.new_topic()
    # Sent at once: what a busy machine has not delivered when the time is up never arrives.
    limit = {"properties.transaction.timeout.ms": "4000", "properties.linger.ms": "0"}
    made = sink(kafka_broker.bootstrap, tmp_path, topic=topic, pipeline=topic, **limit)

    def standing_still() -> Iterator[ChangeBlock]:
        yield rows(1)
        wait_until(lambda: kafka_broker.ends(topic) == 2)  # the record, and the marker of the end
        yield rows(2)

    with pytest.raises(SinkUnavailable, match=r"which was open for 4 s.*transaction\.timeout\.ms"):
        made.prepare(TaskAttempt(0, 0, 0), standing_still())
    made.prepare(TaskAttempt(0, 0, 0), iter([rows(1, 2)]))
    assert ids(kafka_broker, topic) == [1, 2]


def test_a_topic_that_is_deleted_while_records_wait_for_it_is_named(
    kafka_broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSWER_S", "_TELL_S"):
        monkeypatch.setattr(f"connectors.kafka.delivery.transaction.{name}", 0.5)
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker.bootstrap, tmp_path, topic=topic, pipeline=topic)

    def deleting() -> Iterator[ChangeBlock]:
        yield rows(1)
        kafka_broker.delete(topic)
        yield rows(2)

    with pytest.raises(SinkError, match=f"sending records to {topic}: there is no such topic") as caught:
        made.prepare(TaskAttempt(0, 0, 0), deleting())
    assert not caught.value.retryable


def test_a_topic_whose_name_is_too_near_to_another_one_needs_another_name(
    kafka_broker: KafkaServer, tmp_path: Path
) -> None:
    made = sink(kafka_broker.bootstrap, tmp_path, **{"topic.prefix": kafka_broker.new_topic()})
    made.apply(0, [CreateTable(TableId("shop", "order_items"), SCHEMA)])
    with pytest.raises(SinkError, match="collides") as caught:
        made.apply(1, [CreateTable(TableId("shop", "order.items"), SCHEMA)])
    assert "sink.tableId-to-topic.mapping" in caught.value.hint
    assert "beforehand" not in caught.value.hint


def test_a_topic_that_was_deleted_is_made_again_and_said(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker.bootstrap, tmp_path, topic=topic, pipeline=topic)
    (handle,) = made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)]))
    assert handle.counts == {}
    kafka_broker.delete(topic)
    (handle,) = made.prepare(TaskAttempt(1, 0, 0), iter([rows(2)]))
    assert handle.counts == {f"topic {topic} was gone and is made again, without what it had": 1}
    assert ids(kafka_broker, topic) == [2]


def test_a_right_that_is_taken_away_stops_the_run_and_given_back_nothing_is_lost(
    kafka_broker: KafkaServer, tmp_path: Path
) -> None:
    if not kafka_broker.login:
        pytest.skip("the broker at CDC_TEST_KAFKA has no user bo")
    topic, login = kafka_broker.new_topic(), {
        "properties.security.protocol": "SASL_PLAINTEXT", "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.username": "bo", "properties.sasl.password": "bo-secret",
    }  # fmt: skip
    made = sink(kafka_broker.login, tmp_path, topic=topic, pipeline=topic, **login)
    made_fences = sink(kafka_broker.bootstrap, tmp_path, topic=topic, pipeline=topic)
    made_fences.check()
    admin, whom = kafka_broker.admin(), f"cdc-{topic}"
    write = bound(ResourceType.TOPIC, topic, AclOperation.WRITE)
    rights = [
        write, bound(ResourceType.TOPIC, topic, AclOperation.DESCRIBE), bound(ResourceType.GROUP, whom),
        bound(ResourceType.TOPIC, "cdc-fences"), bound(ResourceType.TRANSACTIONAL_ID, f"{whom}-0"),
    ]  # fmt: skip
    settled(admin.create_acls(rights))
    made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)]))
    settled(admin.delete_acls([bound(ResourceType.TOPIC, topic, AclOperation.WRITE, AclBindingFilter)]))
    with pytest.raises(SinkError, match=r"a right is missing.*grant WRITE on the topic") as caught:
        made.prepare(TaskAttempt(1, 0, 0), iter([rows(2)]))
    assert not caught.value.retryable
    settled(admin.create_acls([write]))
    made.prepare(TaskAttempt(1, 0, 0), iter([rows(2)]))
    assert ids(kafka_broker, topic) == [1, 2]


def bound(
    kind: ResourceType, name: str, operation: AclOperation = AclOperation.ALL, form: type[Any] = AclBinding
) -> Any:
    """A right of the user bo."""
    return form(kind, name, ResourcePatternType.LITERAL, "User:bo", "*", operation, AclPermissionType.ALLOW)


def settled(asked: dict[Any, Any]) -> None:
    for future in asked.values():
        future.result(_LONG_S)


def ids(broker: KafkaServer, topic: str) -> list[int]:
    return [json.loads(message.key())["id"] for message in broker.read(topic)]
