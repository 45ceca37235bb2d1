"""The Kafka source over a real broker: partitions, where it starts, what is lost, what cannot be read, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from debezium_messages import INT64, TEXT, envelope, text, with_schema
from kafka_servers import BrokerFactory, KafkaServer

from cdc.errors import CorruptLog, PositionLost, SchemaUnknown, SourceError, SourceUnavailable, UnsupportedChange
from cdc.offsets import numbered
from cdc.schema import AddColumn, TableId
from cdc.source import Context, Limits
from cdc.state.store import LocalStore
from cdc.testing import FailAt, run_in_memory
from cdc.testing.local_pipeline import LocalPipeline, MemoryRun
from cdc.testing.source_conformance import ReadBatch, all_images, drain
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink
from connectors.kafka.source import KafkaSource
from connectors.kafka.source_options import KafkaSourceOptions

pytestmark = pytest.mark.kafka

FIELDS = {"id": INT64, "name": TEXT}
WIDER = {**FIELDS, "note": TEXT}


class Topics:
    """A source on topics of a test's own."""

    def __init__(self, broker: KafkaServer, folder: Path) -> None:
        self.broker, self.folder = broker, folder

    def source(self, *topics: str, **more: Any) -> KafkaSource:
        given = {"type": "kafka", "properties.bootstrap.servers": self.broker.bootstrap, **more}
        if topics:
            given["topics"] = ",".join(topics)
        options = KafkaSourceOptions.model_validate(given)
        assert list(options.problems()) == []
        return KafkaSource(options, Context("pipeline-1", LocalStore(self.folder)))

    def sink(self) -> DuckDbSink:
        options = DuckDbSinkOptions.model_validate({"type": "duckdb", "path": str(self.folder / "out.duckdb")})
        return DuckDbSink(options, Context("pipeline-1", LocalStore(self.folder / "sink")))

    def run(self, source: KafkaSource, before: MemoryRun | None = None, **more: Any) -> MemoryRun:
        """Read what there is now into the database, going on where a run before has ended."""
        start = source.initial_offset() if before is None else before.offset
        source.stop_at_current()
        done = 0 if before is None else before.batches
        state = self.folder / "engine"
        return run_in_memory(source, self.sink(), start=start, first_batch=done, state=state, **more)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "out.duckdb"), read_only=True) as database:
            return database.execute(query).fetchall()


@pytest.fixture
def topics(kafka_broker: KafkaServer, tmp_path: Path) -> Topics:
    return Topics(kafka_broker, tmp_path)


def insert(
    id_: int, name: str | None = None, *, partition: int = 0, fields: Any = FIELDS, **more: Any
) -> dict[str, Any]:
    row = {"id": id_, "name": name, **more}
    value = with_schema(fields, envelope("c", None, row), required=("id",))
    return {"value": value, "key": text({"id": id_}), "partition": partition}


def row(id_: int, name: str | None = None) -> dict[str, Any]:
    return {"value": text({"id": id_, "name": name}), "key": text({"id": id_})}


def ids(batches: Sequence[ReadBatch]) -> list[int]:
    return sorted(image["id"] for _, image in all_images(batches))


def test_a_new_column_in_one_partition_does_not_touch_the_others(topics: Topics) -> None:
    topic = topics.broker.new_topic("orders", partitions=3)
    topics.broker.produce(topic, [
        *(insert(number, "old", partition=number % 3) for number in range(30)),
        *(insert(100 + number, "new", partition=1, fields=WIDER, note="x") for number in range(5)),
        *(insert(200 + number, "old", partition=number % 3) for number in range(9)),
    ])  # fmt: skip
    run = topics.run(topics.source(topic), parallelism=3)
    added = [change for change in run.changes if isinstance(change, AddColumn)]
    assert [change.column.name for change in added] == ["note"]
    assert topics.rows("SELECT count(*), count(note), sum(id) FROM shop.orders") == [
        (44, 5, sum(range(30)) + 5 * 102 + 9 * 204)
    ]


def test_every_crash_leaves_each_change_once(topics: Topics) -> None:
    """Other numbers of tasks after the crash, too: the stored parts are read again."""
    topic = topics.broker.new_topic("log", partitions=2)
    values = [
        {"value": with_schema({"a": INT64}, envelope("c", None, {"a": 1})), "partition": number % 2}
        for number in range(40)
    ]
    topics.broker.produce(topic, values)
    source = topics.source(topic)
    at, number = source.initial_offset(), 0
    pipeline = LocalPipeline(source, topics.sink(), topics.folder / "engine", numbered(at, 0), topics.sink)
    source.stop_at_current()
    while (end := source.latest_offset(at, Limits(1 << 30, 15), 0.0)) != at:
        pipeline.batch(numbered(at, number), numbered(end, number + 1), 1 + number % 2, list(FailAt))
        at, number = end, number + 1
    pipeline.finish(number, at)
    source.stop()
    assert number > 1
    assert topics.rows("SELECT count(*) FROM shop.orders") == [(40,)]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, [1, 2, 3, 4]),
        ({"scan.startup.mode": "latest-offset"}, []),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": 3000}, [3, 4]),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": 9000}, []),
        ({"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "TOPIC:0:1"}, [2, 3, 4]),
        ({"scan.startup.mode": "group-offsets", "properties.group.id": "GROUP"}, [4]),
    ],
    ids=["earliest", "latest", "timestamp", "late timestamp", "specific", "group"],
)
def test_where_it_starts(topics: Topics, more: dict[str, Any], wanted: list[int]) -> None:
    topic = topics.broker.new_topic("orders")
    group = topics.broker.new_name("group")
    topics.broker.produce(topic, [{**insert(number), "timestamp": 1000 * number} for number in (1, 2, 3, 4)])
    commit(topics.broker, group, topic, 3)
    named = {
        key: value.replace("TOPIC", topic).replace("GROUP", group) if isinstance(value, str) else value
        for key, value in more.items()
    }
    assert ids(drain(topics.source(topic, **named))) == wanted


def commit(broker: KafkaServer, group: str, topic: str, offset: int) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_new_partitions_and_topics_are_found(topics: Topics) -> None:
    prefix = topics.broker.new_name("found")
    topics.broker.create(f"{prefix}.a")
    topics.broker.produce(f"{prefix}.a", [insert(1)])
    pattern = {"topic-pattern": rf"{prefix}\..*", "scan.topic-partition-discovery.interval": "100 ms"}
    source = topics.source(**pattern)
    first = drain(source)
    topics.broker.create(f"{prefix}.b", partitions=2)
    topics.broker.produce(f"{prefix}.b", [insert(2), insert(3, partition=1)])
    rest = drain(topics.source(**pattern), first[-1].end)
    assert (ids(first), ids(rest)) == ([1], [2, 3])
    assert topics.source(**pattern).position_text(all_sequences(rest)[-1]) == f"{prefix}.b-1@0"


def all_sequences(batches: Sequence[ReadBatch]) -> list[int]:
    return [at for batch in batches for block in batch.blocks for at in block.sequence.to_pylist()]


def test_a_topic_pattern_that_matches_nothing_says_so_at_once(topics: Topics) -> None:
    prefix = topics.broker.new_name("none")
    topics.broker.create(f"{prefix}.a")
    source = topics.source(**{"topic-pattern": rf"{prefix}\\.\.*"})
    for begin in (source.tables, source.initial_offset):
        with pytest.raises(SourceError, match=r"no topic matches .* it may see: .*a usual regular expression"):
            begin()


def test_messages_that_retention_removed(topics: Topics) -> None:
    topic = topics.broker.new_topic("orders")
    topics.broker.produce(topic, [insert(number) for number in range(10)])
    start = drain(topics.source(topic), limits=Limits(1 << 30, 2))[0].end
    admin = topics.broker.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, 7)]).values():
        future.result(120)
    with pytest.raises(PositionLost, match=r"the messages from offset \d+ on are gone .*scan.on-lost: earliest"):
        drain(topics.source(topic), start)
    source = topics.source(topic, **{"scan.on-lost": "earliest"})
    assert ids(drain(source, start)) == [7, 8, 9]
    lag = source.lag()
    assert lag is not None
    assert "are missing" in lag.notices[0]


def test_open_and_aborted_transactions_are_not_read(topics: Topics) -> None:
    from confluent_kafka import Producer

    topic = topics.broker.new_topic("orders")
    producer = Producer({"bootstrap.servers": topics.broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for id_, end in ((1, producer.commit_transaction), (2, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, **insert(id_))
        producer.flush(30)
        end(30)
    assert ids(drain(topics.source(topic))) == [1]


def test_messages_that_cannot_be_read(topics: Topics) -> None:
    topic, letters = topics.broker.new_topic("orders"), topics.broker.new_topic("letters")
    topics.broker.produce(topic, [insert(1), {"value": b"hello", "key": b"k"}, insert(2)])
    with pytest.raises(CorruptLog, match=rf"{topic}-0@1: a message cannot be read: no JSON object .*dead-letter"):
        drain(topics.source(topic))
    more = {"unreadable-messages": "dead-letter", "dead-letter.topic": letters}
    run = topics.run(topics.source(topic, **more))
    assert run.reasons == {f"unreadable-message-dead-letter {topic}": 1}
    assert topics.rows("SELECT id FROM shop.orders ORDER BY id") == [(1,), (2,)]
    (letter,) = topics.broker.read(letters)
    assert (letter.key(), letter.value()) == (b"k", b"hello")
    assert dict(letter.headers() or [])["cdc.position"] == f"{topic}-0@1".encode()


def test_types_from_values_are_widened_before_the_rows_that_need_it(topics: Topics) -> None:
    topic = topics.broker.new_topic("plain")
    more = {"value.format": "json", "primary-keys": {topic: ["id"]}}
    topics.broker.produce(topic, [{"value": text({"id": 1, "n": 1})}, {"value": text({"id": 2, "n": 2})}])
    run = topics.run(topics.source(topic, **more))
    topics.broker.produce(topic, [{"value": text({"id": 1, "n": 1.5, "late": True})}, {"value": text({"id": 3})}])
    topics.run(topics.source(topic, **more), run)
    assert topics.rows(f'SELECT id, n, late FROM "{topic}" ORDER BY id') == [
        (1, 1.5, True),
        (2, 2, None),
        (3, None, None),
    ]


def test_a_key_that_changes_stops(topics: Topics) -> None:
    topic = topics.broker.new_topic("orders")
    topics.broker.produce(topic, [insert(1), {**insert(2), "key": text({"name": "x"})}])
    with pytest.raises(SchemaUnknown, match=r"the key columns of the messages are \(name\), the table's are \(id\)"):
        drain(topics.source(topic), limits=Limits(1 << 30, 1))


def test_a_topic_of_no_known_format(topics: Topics) -> None:
    topic = topics.broker.new_topic("rows")
    topics.broker.produce(topic, [row(1)])
    with pytest.raises(
        UnsupportedChange, match=rf"{topic}-0@0: the format .* is not known: its members are .*value.format"
    ):
        drain(topics.source(topic))
    assert topics.source(topic, **{"value.format": "json"}).tables().keys() == {TableId("", topic)}


def test_a_topic_that_is_not_there(topics: Topics) -> None:
    with pytest.raises(SourceError, match=r"topic no-such-topic: there is no such topic.*source.topics"):
        topics.source("no-such-topic").initial_offset()


def test_an_address_where_no_broker_is(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.kafka.client.ANSWER_S", 0.3)
    more = {"properties.bootstrap.servers": "127.0.0.1:1", "retry-timeout": "0 s"}
    with pytest.raises(SourceUnavailable, match=r"Kafka 127.0.0.1:1: .*properties.bootstrap.servers"):
        topics.source("orders", **more).initial_offset()


def test_a_right_that_is_missing(topics: Topics) -> None:
    if not topics.broker.login:
        pytest.skip("this broker has no users")
    topic = topics.broker.new_topic("orders")
    topics.broker.produce(topic, [insert(1)])
    grant(topics.broker.admin(), topic, AclOperation.DESCRIBE)
    source = topics.source(topic, **login(topics.broker))
    with pytest.raises(SourceError, match=r"a right is missing.*grant READ and DESCRIBE on the topic"):
        drain(source)
    grant(topics.broker.admin(), topic, AclOperation.READ)
    assert ids(drain(topics.source(topic, **login(topics.broker)))) == [1]


def login(broker: KafkaServer) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": broker.login,
        "properties.security.protocol": "sasl_plaintext",
        "properties.sasl.mechanism": "PLAIN",
        "properties.sasl.username": "bo",
        "properties.sasl.password": "bo-secret",
    }


def grant(admin: AdminClient, topic: str, operation: AclOperation) -> None:
    binding = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:bo", "*", operation, AclPermissionType.ALLOW
    )
    for future in admin.create_acls([binding]).values():
        future.result(120)


@pytest.mark.slow
def test_a_broker_that_is_away_is_waited_for(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    broker = broker_factory()
    assert broker.process is not None
    topics = Topics(broker, tmp_path)
    topic = broker.new_topic("orders")
    broker.produce(topic, [insert(number) for number in range(5)])
    planner, reader = (topics.source(topic, **{"retry-timeout": "100 s"}) for _ in range(2))
    at = planner.initial_offset()
    planner.stop_at_current()
    end = planner.latest_offset(at, None, 0.0)
    (split,) = planner.splits(at, end, 1)
    planner.stop()
    broker.process.kill9()
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(lambda: list(reader.read(split, lambda *_: None, print)))
        broker.process.restart()
        found = [row["id"] for block in reading.result() for row in block.rows.to_pylist()]
    assert found == [0, 1, 2, 3, 4]


def test_a_topic_that_was_recreated_is_not_taken_for_the_old_one(topics: Topics) -> None:
    topic = topics.broker.new_topic("orders")
    topics.broker.produce(topic, [insert(number) for number in range(5)])
    source = topics.source(topic)
    at = source.initial_offset()
    source.stop_at_current()
    end = source.latest_offset(at, None, 0.0)
    (split,) = source.splits(at, end, 1)
    source.stop()
    again = topics.source(topic)
    split.payload["ranges"][0][-1] = 9
    with pytest.raises(PositionLost, match=r"the topic ends at offset 5, and held messages up to 9"):
        list(again.read(split, lambda *_: None, print))
    going_on, counts = topics.source(topic, **{"scan.on-lost": "earliest"}), dict[str, int]()
    assert sum(block.rows.num_rows for block in going_on.read(split, counts.__setitem__, print)) == 5
    assert counts == {f"messages-lost {topic}": 4}


def test_what_the_source_says_of_itself(topics: Topics) -> None:
    topic = topics.broker.new_topic("orders")
    topics.broker.produce(
        topic, [insert(1), {"value": json.dumps({"status": "BEGIN", "id": "1", "ts_ms": 1}), "partition": 0}]
    )
    source = topics.source(topic)
    assert source.lag() is None
    (batch,) = drain(source)
    assert [source.position_text(at) for at in all_sequences([batch])] == [f"{topic}-0@0"]
