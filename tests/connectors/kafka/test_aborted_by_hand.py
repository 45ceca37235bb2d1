"""Transactions that an administrator aborts after they were committed, as those that a crashed broker leaves open."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka_administrator import Administrator, administrator
from kafka_servers import KafkaServer

from cdc.errors import LoadsLost, SinkUnavailable
from cdc.schema import AddColumn, Column, DataType, Kind, SourceStatement, TableId, TableSchema
from cdc.sink import Announced, TaskAttempt
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.blocks import block
from connectors.kafka.delivery.transaction import TransactionWriter
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka
SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False),), ("id",))
TABLE = TableId("shop", "orders")


@pytest.fixture(scope="module")
def by_hand(kafka_broker: KafkaServer) -> Iterator[Administrator]:
    with administrator(kafka_broker.bootstrap) as made:
        yield made


def test_a_decided_batch_whose_transaction_is_aborted_later_stops_the_run(
    kafka_broker: KafkaServer, tmp_path: Path, by_hand: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator has committed, and the partitions, that of the fence too, have an abort instead of its end."""
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker, topic, tmp_path)
    made.commit(0, made.prepare(TaskAttempt(0, 0, 0, rows="a"), iter([rows(1)])))
    with monkeypatch.context() as patched:
        before_the_commit(patched, lambda: by_hand.abort_open(topic, "__consumer_offsets"))
        handles = made.prepare(TaskAttempt(1, 0, 0, rows="b"), iter([rows(2)]))
    for _ in range(2):  # as often as a run is started
        with pytest.raises(LoadsLost, match=r"batch 1 is decided.*shop\.orders was aborted since") as caught:
            made.commit(1, handles)
        assert caught.value.uncertain == ("shop.orders",)
        # The next batch is written while that is not seen: its fence tells what it found.
        made.prepare(TaskAttempt(2, 0, 0, rows="c"), iter([rows(3)]))
    assert ids(kafka_broker, topic) == [1, 3]
    made.commit(1, ())  # a copy was asked for, so the rows were let go
    made.commit(2, made.prepare(TaskAttempt(2, 0, 0, rows="c"), iter([rows(3)])))
    assert ids(kafka_broker, topic) == [1, 3]


def test_the_first_batch_counts_too_and_a_batch_that_is_not_decided_is_written_again(
    kafka_broker: KafkaServer, tmp_path: Path, by_hand: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker, topic, tmp_path)
    with monkeypatch.context() as patched:
        before_the_commit(patched, lambda: by_hand.abort_open(topic, "__consumer_offsets"))
        handles = made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)]))
    with pytest.raises(LoadsLost, match="batch 0 is decided"):
        made.commit(0, handles)
    made.commit(0, made.prepare(TaskAttempt(0, 0, 0, again=True), iter([rows(1)])))
    assert ids(kafka_broker, topic) == [1]


def test_a_message_about_a_schema_change_that_is_aborted_is_told_once_its_batch_is_committed(
    kafka_broker: KafkaServer, tmp_path: Path, by_hand: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the run that announced it and by the one that goes on with its decision; the batch has no rows."""
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker, topic, tmp_path, **{"sink.schema-changes": "inline"})
    made.commit(0, made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)])))
    made.announce(1, added("a"))
    assert made.commit(1, ()) == {}
    with monkeypatch.context() as patched:
        before_the_commit(patched, lambda: by_hand.abort_open(topic, "__consumer_offsets"))
        made.announce(2, added("b"))
    told = {"shop.orders: a message about a schema change was aborted by an administrator, after a broker that "
            "crashed had lost its end; readers lack it": 1}  # fmt: skip
    assert made.commit(2, ()) == told
    assert sink(kafka_broker, topic, tmp_path).commit(2, ()) == told
    handles = made.prepare(TaskAttempt(3, 0, 0), iter([rows(2)]))
    assert made.commit(3, handles) == {}
    assert len(kafka_broker.read(topic)) == 3


def test_a_batch_is_not_committed_while_its_schema_changes_are_open(
    kafka_broker: KafkaServer, tmp_path: Path, by_hand: Administrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a broker that crashed has lost the end of: the coordinator's answer was that it is committed."""
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker, topic, tmp_path, **{"sink.schema-changes": "inline"})
    made.commit(0, made.prepare(TaskAttempt(0, 0, 0), iter([rows(1)])))
    with monkeypatch.context() as patched:
        without_the_end(patched)
        made.announce(1, added("a"))
    with pytest.raises(SinkUnavailable, match="neither committed nor aborted"):
        made.commit(1, ())
    assert by_hand.abort_open(topic, "__consumer_offsets") == 2
    assert list(made.commit(1, ()).values()) == [1]


def test_a_run_starts_while_schema_changes_of_a_killed_one_are_open(
    kafka_broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the end of its transaction: nobody but the run that announces them again can end that."""
    topic = kafka_broker.new_topic()
    options = {"sink.schema-changes": "inline", "retry-timeout": "1 s"}
    with monkeypatch.context() as patched:
        without_the_end(patched)
        sink(kafka_broker, topic, tmp_path, **options).announce(0, added("a"))
    goes_on = sink(kafka_broker, topic, tmp_path, **options)
    goes_on.check()
    goes_on.announce(0, added("a"))
    assert goes_on.commit(0, ()) == {}
    assert len(kafka_broker.read(topic)) == 1


def test_fences_that_the_broker_forgot_are_no_abort(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    """A run that goes on with a decided batch after a week."""
    topic = kafka_broker.new_topic()
    made = sink(kafka_broker, topic, tmp_path, **{"sink.schema-changes": "inline"})
    for batch in range(2):
        made.commit(batch, made.prepare(TaskAttempt(batch, 0, 0), iter([rows(batch)])))
    handles = made.prepare(TaskAttempt(2, 0, 0), iter([rows(2)]))
    made.announce(3, added("a"))
    kafka_broker.forget_group(f"cdc-{topic}")
    made.commit(2, handles)
    assert made.commit(3, ()) == {}


def sink(broker: KafkaServer, topic: str, folder: Path, **options: Any) -> KafkaSink:
    given = {"type": "kafka", "properties.bootstrap.servers": broker.bootstrap, "topic": topic, **options}
    return KafkaSink(KafkaSinkOptions.model_validate(given), Context(topic, LocalStore(folder)))


def rows(number: int) -> Any:
    return block(TABLE, SCHEMA, [("+I", {"id": number})], sequence=number + 1)


def added(name: str) -> list[Announced]:
    """An ALTER TABLE."""
    column = Column(name, DataType(Kind.INT))
    said = SourceStatement(f"ALTER TABLE orders ADD {name} INT", "binlog.000001", 4, 9, 1_700_000_000_000, 1)
    after = TableSchema((*SCHEMA.columns, column), SCHEMA.primary_key)
    return [Announced(AddColumn(TABLE, column, statement=said), SCHEMA, after)]


def without_the_end(patched: pytest.MonkeyPatch) -> None:
    """The transaction is not committed, and the producer that could end it is gone: who commits takes it for done."""
    asked = TransactionWriter._call

    def around(writer: TransactionWriter, doing: str, call: Any) -> None:
        if doing == "committing a transaction":
            writer._begun = False
        else:
            asked(writer, doing, call)

    patched.setattr(TransactionWriter, "_call", around)


def before_the_commit(patched: pytest.MonkeyPatch, then: Callable[[], int]) -> None:
    """The records and the fence are with the broker, and the transaction is about to be committed."""
    asked = TransactionWriter._call

    def around(writer: TransactionWriter, doing: str, call: Any) -> None:
        if doing == "committing a transaction":
            assert then() == 2
        asked(writer, doing, call)

    patched.setattr(TransactionWriter, "_call", around)


def ids(broker: KafkaServer, topic: str) -> list[int]:
    return [json.loads(message.value())["after"]["id"] for message in broker.read(topic)]
