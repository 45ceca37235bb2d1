"""Copies of messages that could not be read: all are in the topic before the batch counts."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cdc.errors import SourceUnavailable
from cdc.retry import RetryPolicy
from connectors.kafka.client import KafkaCluster
from connectors.kafka.formats.groups import Messages
from connectors.kafka.read.decoding import DeadLetterTopic


class FakeProducer:
    """Has room for so many messages, which `poll` makes free; a slow one confirms none."""

    def __init__(self, room: int = 10, *, slow: bool = False) -> None:
        self._room, self._slow = room, slow
        self.waiting = 0
        self.confirmed = 0

    def produce(self, topic: str, value: bytes, key: bytes, **_: Any) -> None:
        if self.waiting == self._room:
            raise BufferError("Local: Queue full")
        self.waiting += 1

    def poll(self, seconds: float) -> None:
        if seconds and not self._slow:
            self.confirmed, self.waiting = self.confirmed + self.waiting, 0

    def flush(self, seconds: float) -> int:
        self.poll(seconds)
        return self.waiting


class FakeCluster:
    where = "broker:9092"

    def __init__(self, producer: FakeProducer) -> None:
        self._producer = producer

    def producer(self, **_: Any) -> FakeProducer:
        return self._producer


class OneMessage:
    def value(self, number: int) -> bytes:
        return b"{"

    key = value

    def where(self, number: int) -> str:
        return f"in-0:{number}"


def letters(producer: FakeProducer, *, stopping: bool = False) -> DeadLetterTopic:
    cluster = cast("KafkaCluster", FakeCluster(producer))
    return DeadLetterTopic(cluster, RetryPolicy(stopping=lambda: stopping), "dead")


MESSAGE = cast("Messages", OneMessage())


def test_a_run_that_is_to_stop_does_not_count_what_the_broker_has_not_confirmed() -> None:
    made = letters(FakeProducer(slow=True), stopping=True)
    made.add(MESSAGE, 0, "no JSON")
    with pytest.raises(SourceUnavailable, match="dead letters are not confirmed yet"):
        made.finish()


def test_more_messages_than_the_producer_has_room_for_are_waited_for() -> None:
    producer = FakeProducer(room=3)
    made = letters(producer)
    for number in range(10):
        made.add(MESSAGE, number, "no JSON")
    made.finish()
    assert producer.confirmed == 10
