"""Messages off the broker as columns, and what becomes of them: joined, cut, told apart by how they begin."""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from debezium_messages import INT64, TEXT, envelope, text, with_schema
from kafka_servers import KafkaServer
from together import together

from cdc.errors import SourceError
from cdc.process.memory import trim_memory
from connectors.kafka.client import SOURCE, KafkaCluster
from connectors.kafka.fetch import fetcher as fetch
from connectors.kafka.fetch.fetcher import Fetcher
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.groups import Messages
from connectors.kafka.formats.plain import PlainFormat
from connectors.kafka.formats.scan import Heads
from connectors.kafka.read import consumers
from connectors.kafka.read.detect import Formats
from connectors.kafka.read.pending import Pending
from connectors.kafka.read.warm import warm_avro, warm_kernels
from connectors.kafka.settings import KafkaSettings
from connectors.kafka.source_options import KafkaSourceOptions

_VALUES = [b"first", None, b"", "dritte \N{SNOWMAN}".encode()]
_KEYS = [None, b"k2", b"", b"k4"]


def fetcher(bootstrap: str, **more: str) -> Fetcher:
    return KafkaCluster(KafkaSettings(bootstrap, more), SOURCE).fetcher(
        group_id="g", enable_auto_commit=False, auto_offset_reset="error", enable_partition_eof=True
    )


def read_all(reader: Fetcher, topic: str, at_once: int) -> list[Messages]:
    """The messages of partition 0, as calls for so many bring them."""
    reader.assign([(topic, 0, 0)])
    found: list[Messages] = []
    while True:
        fetched = reader.fetch(at_once, 5.0)
        found += fetched.messages
        if fetched.failures:
            return found


def rows_and_columns(messages: Messages) -> list[tuple[Any, ...]]:
    """What Debezium's format makes of messages, and those that it cannot read."""
    reading = DebeziumFormat().read(messages)
    found: list[tuple[Any, ...]] = [tuple(reading.unreadable)]
    for group in reading.groups:
        images = group.images
        rows = tuple(images.rows.bytes_of(row) for row in range(len(images)))
        found.append((group.fields, group.key, images.messages.tolist(), images.kinds.tolist(), rows))
    return found


@pytest.mark.kafka
def test_a_schema_that_values_share_is_kept_once_and_nothing_of_them_is_lost(kafka_broker: KafkaServer) -> None:
    fields = [{"id": INT64}, {"id": INT64, "name": TEXT}]
    values: list[bytes | None] = [
        with_schema(fields[number // 10 % 2], envelope("c", None, dict.fromkeys(fields[number // 10 % 2], number)))
        for number in range(40)
    ]
    values[5], values[6], values[7] = None, text(envelope("c", None, {"id": 6})), b"no JSON }"
    first = values[8] or b""
    values[8], values[9] = first[:-1] + b',"more":1}', first.replace(b'"payload":', b'"payload" :')
    values[15], values[16] = first[: first.index(b'"payload":')] + b'"payload":null}', b'{"schema":null,"payload":{}}'
    topic = kafka_broker.new_topic()
    kafka_broker.produce(topic, [{"value": value, "key": b"k"} for value in values])
    reader = fetcher(kafka_broker.bootstrap)
    parts = read_all(reader, topic, 3)
    reader.close()
    whole = Messages.of(topic, 0, [b"k"] * 40, values)
    found = Messages.concat(parts)
    assert [found.value(number) for number in range(40)] == values
    assert found.size < whole.size / 2
    assert rows_and_columns(found) == rows_and_columns(whole)
    assert rows_and_columns(found.part(12, 31)) == rows_and_columns(whole.part(12, 31))


@pytest.mark.kafka
@pytest.mark.parametrize("value_format", ["canal-json", "maxwell-json", "auto"])
def test_other_formats_see_values_with_their_schema(kafka_broker: KafkaServer, value_format: str) -> None:
    value = with_schema({"id": INT64}, envelope("c", None, {"id": 1}))
    topic = kafka_broker.new_topic()
    kafka_broker.produce(topic, [{"value": value}] * 6)
    options = {"type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap, "topics": topic}
    formats = Formats(KafkaSourceOptions.model_validate({**options, "value.format": value_format}))
    reader = fetcher(kafka_broker.bootstrap)
    *_, last = read_all(reader, topic, 2)
    reader.close()
    assert last.size < len(value)
    whole = Messages.of(topic, 0, [None] * len(last), [value] * len(last))
    found = formats.of(topic, last).read(last)
    expected = formats.of(topic, whole).read(whole)
    assert (found.unreadable, len(found.groups)) == (expected.unreadable, len(expected.groups))
    assert value_format == "auto" or len(found.unreadable) == len(last)


def test_values_of_two_clients_are_joined_with_what_each_left_out() -> None:
    def headed(head: bytes) -> Messages:
        found = Messages.of("t", 0, [None] * 3, [b"rest", None, b"all"])
        values = replace(found.values, heads=Heads([head], np.array([0, -1, -1], np.int32)))
        return replace(found, values=values)

    joined = Messages.concat([headed(b"one "), headed(b"other ")])
    assert [joined.value(number) for number in range(6)] == [b"one rest", None, b"all", b"other rest", None, b"all"]


@pytest.mark.kafka
def test_values_keys_and_times_come_as_they_were_written(kafka_broker: KafkaServer) -> None:
    topic = kafka_broker.new_topic(partitions=2)
    kafka_broker.produce(topic, [
        {"value": value, "key": key, "partition": number % 2, "timestamp": 1000 + number}
        for number, (value, key) in enumerate(zip(_VALUES, _KEYS, strict=True))
    ])  # fmt: skip
    reader = fetcher(kafka_broker.bootstrap)
    reader.assign([(topic, 0, 0), (topic, 1, 1)])
    pending = {number: Pending(topic, number, 0) for number in range(2)}
    ended: set[int] = set()
    while len(ended) < 2:
        found = reader.fetch(100, 5.0)
        for messages in found.messages:
            pending[messages.partition].add(messages)
        ended |= {failure.partition for failure in found.failures}
    assert reader.marks(topic, 0) == (0, 2)
    reader.close()
    first, second = (pending[number].messages() for number in range(2))
    assert [first.value(0), first.value(1)] == [b"first", b""]
    assert [first.key(0), first.key(1)] == [None, b""]
    assert first.times_ms.tolist() == [1000, 1002]
    assert (second.value(0), second.key(0), second.offsets.tolist()) == (_VALUES[3], b"k4", [1])
    assert second.where(0) == f"{topic}-1@1"


@pytest.mark.kafka
def test_what_much_reading_left_behind_is_given_back_once(
    kafka_broker: KafkaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[None] = []
    monkeypatch.setattr(fetch, "trim_memory", lambda: given_back.append(None))
    topic = kafka_broker.new_topic()
    kafka_broker.produce(topic, [{"value": bytes(100_000)} for _ in range(200)])
    reader = fetcher(kafka_broker.bootstrap)
    reader.assign([(topic, 0, 0)])
    assert reader.fetch(1, 60.0).count == 1
    reader.release_memory()
    assert not given_back
    read = 1
    while read < 200:
        read += reader.fetch(200, 5.0).count
    reader.release_memory()
    reader.close()
    assert len(given_back) == 1


@pytest.mark.kafka
@pytest.mark.parametrize(
    "more",
    [{}, {"message.max.bytes": "5000000"}, {"fetch.message.max.bytes": "1000"}, {"fetch.max.bytes": "50000"}],
)
def test_a_message_larger_than_what_is_fetched_at_once_is_read(kafka_broker: KafkaServer, more: dict[str, str]) -> None:
    topic = kafka_broker.new_topic()
    values = [bytes([number]) * size for number, size in enumerate((900_000, 10, 600_000))]
    kafka_broker.produce(topic, [{"value": value} for value in values])
    reader = consumers.fetcher(KafkaCluster(KafkaSettings(kafka_broker.bootstrap, more), SOURCE), "large")
    (whole,) = [Messages.concat(read_all(reader, topic, 100))]
    assert [whole.value(number) for number in range(3)] == values


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give memory back by themselves")
def test_memory_that_is_freed_in_a_place_of_its_own_goes_back_to_the_system() -> None:
    kept = [b"x" * (100_000 + number) for number in range(600)]
    last = b"x" * 100_000  # after them: the system gets nothing back by itself
    before = _anonymous_mb()
    kept.clear()
    trim_memory()
    assert _anonymous_mb() < before - 30
    assert len(last) == 100_000


def _anonymous_mb() -> float:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no such line")


@pytest.mark.kafka
def test_closing_from_another_thread_ends_a_wait_for_messages(kafka_broker: KafkaServer) -> None:
    reader = fetcher(kafka_broker.bootstrap)
    reader.assign([(kafka_broker.new_topic(), 0, 0)])
    closer = threading.Thread(target=reader.close)
    closer.start()
    while reader.marks("t", 0) is not None or closer.is_alive():
        reader.fetch(1, 0.05)
    closer.join()
    assert not reader.fetch(10, 60.0)
    assert reader.marks("t", 0) is None


def test_a_client_whose_queue_was_full_fetches_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(KafkaCluster, "fetcher", lambda self, **own: made.append(self.settings.config(**own)))
    for more in ({}, {"fetch.queue.backoff.ms": "700"}):
        consumers.fetcher(KafkaCluster(KafkaSettings("k:1", more), SOURCE), "p")
    assert int(made[0]["fetch.queue.backoff.ms"]) < 50  # the client's own default is a second
    assert made[1]["fetch.queue.backoff.ms"] == "700"


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(SourceError, match=r'a setting is refused: .*"lingers".*properties\.'):
        fetcher("k:1", lingers="5")


def test_a_client_without_the_library_says_what_to_install() -> None:
    other = ModuleType("cimpl")
    other.__file__ = ctypes.__file__
    with pytest.raises(SourceError, match=r"librdkafka's functions are not found.*install confluent-kafka"):
        fetch._library_of(other)
    assert fetch._library_of(sys.modules["confluent_kafka.cimpl"]).address("message_destroy")


def test_joined_messages_hold_what_their_parts_hold() -> None:
    parts = [Messages.of("t", 0, _KEYS, _VALUES), Messages.of("t", 0, _KEYS, _VALUES, first=7).part(1, 4)]
    joined = Messages.concat(parts)
    assert [joined.value(number) for number in range(7)] == [*_VALUES, *_VALUES[1:]]
    assert [joined.key(number) for number in range(7)] == [*_KEYS, *_KEYS[1:]]
    assert joined.offsets.tolist() == [0, 1, 2, 3, 8, 9, 10]


def test_what_is_cut_off_and_what_is_dropped_is_gone_from_the_size() -> None:
    pending = Pending("t", 0, 0)
    for first in (0, 4):
        pending.add(Messages.of("t", 0, _KEYS, _VALUES, first))
    pending.drop_from(5)
    assert (len(pending), pending.position, pending.bytes) == (5, 5, 5 + 10 + 5)
    assert pending.drop(1) == 5
    assert (len(pending), pending.bytes) == (4, 15)
    pending.drop_from(0)
    assert (len(pending), pending.bytes) == (0, 0)


def test_values_of_several_schemas_in_turn_are_told_apart() -> None:
    fields = [{"id": INT64}, {"id": INT64, "name": TEXT}]
    values = [
        with_schema(fields[number % 2], envelope("c", None, dict.fromkeys(fields[number % 2], 1)))
        for number in range(6)
    ]
    values[3] = text(envelope("c", None, {"id": 3}))
    reading = DebeziumFormat().read(Messages.of("t", 0, [None] * 6, values))
    found = [(len(group.fields or ()), group.images.messages.tolist()) for group in reading.groups]
    assert found == [(1, [0]), (2, [1]), (1, [2]), (0, [3]), (1, [4]), (2, [5])]


@together("value", [b'{"schema":1,"b":2}', b'{"payload":"x"}', b' { "payload" : 7 }', b'{"p":1}'])
def test_rows_whose_first_column_is_called_as_connects_members_are_rows(value: bytes) -> None:
    reading = PlainFormat().read(Messages.of("t", 0, [None], [value]))
    (group,) = reading.groups
    assert group.images.rows.bytes_of(0) == value
    assert reading.unreadable == {}


def test_a_delete_among_rows_stays_in_their_order() -> None:
    values = [text({"id": 1, "a": 1}), None, text({"id": 2, "a": 2}), None, b"[]"]
    keys = [text({"id": number}) for number in (1, 1, 2)]
    reading = PlainFormat().read(Messages.of("t", 0, [*keys, None, None], values))
    (group,) = reading.groups
    assert group.images.messages.tolist() == [0, 1, 2]
    assert group.images.rows.bytes_of(1) == b'{"id": 1}'
    assert sorted(reading.unreadable) == [3, 4]


def test_what_a_worker_reads_to_get_ready_is_readable() -> None:
    assert warm_kernels() == 2
    assert warm_avro() == 0
