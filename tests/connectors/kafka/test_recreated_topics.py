"""A topic that is deleted and recreated has another log: offsets of the old one mean nothing in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka_log import Follower, TopicLog
from kafka_servers import KafkaServer

from cdc.errors import PositionLost, SourceUnavailable
from cdc.source import Context, Limits
from cdc.state.store import LocalStore
from cdc.testing.source_conformance import all_images, drain
from connectors.kafka.read.range_reader import RangeReader
from connectors.kafka.source import KafkaSource
from connectors.kafka.source_options import KafkaSourceOptions

PLAIN = {"value.format": "json", "primary-keys": {"t": ["id"]}}
ON = {**PLAIN, "scan.on-lost": "earliest"}
ANEW = r"topic t: the topic was deleted and recreated.*scan.on-lost: earliest"


def rows(*numbers: int) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in numbers]


def ids(batches: Sequence[Sequence[Any]]) -> list[int]:
    return [item[1]["id"] for batch in batches for item in batch if isinstance(item, tuple)]


def log_of(*numbers: int, partitions: int = 1) -> TopicLog:
    log = TopicLog(t=partitions)
    log.write("t", *rows(*numbers))
    return log


@pytest.mark.parametrize("new", [range(100, 101), range(100, 103), range(100, 140)], ids=["fewer", "as many", "more"])
def test_between_two_runs_it_is_no_place_to_go_on_at(tmp_path: Path, new: range) -> None:
    log = log_of(0, 1, 2)
    first = Follower(log, tmp_path, **PLAIN)
    assert ids(first.follow()) == [0, 1, 2]
    log.recreate("t", *rows(*new))
    with pytest.raises(PositionLost, match=ANEW):
        Follower(log, tmp_path, at=first.at, **PLAIN).follow()
    again = Follower(log, tmp_path, at=first.at, **ON)
    assert ids(again.follow()) == list(new)
    assert len(again.notices) == 1
    assert ids(Follower(log, tmp_path, at=again.at, **PLAIN).follow()) == []


@pytest.mark.parametrize("new", [range(100, 102), range(100, 140)], ids=["fewer", "more"])
def test_while_a_run_goes_on_nothing_of_it_counts_for_the_old_one(tmp_path: Path, new: range) -> None:
    log = log_of(0, 1, 2)
    stops, goes_on = Follower(log, tmp_path / "stops", **PLAIN), Follower(log, tmp_path / "goes on", **ON)
    assert ids(stops.follow()) == ids(goes_on.follow()) == [0, 1, 2]
    log.recreate("t")
    log.write("t", *rows(*new))
    with pytest.raises(PositionLost, match=ANEW):
        stops.source.latest_offset(stops.at, Limits(1000, 1 << 20), 0.01)
    assert ids(goes_on.follow()) == list(new)


def test_partitions_that_the_new_one_has_not_are_forgotten(tmp_path: Path) -> None:
    log = log_of(0, partitions=3)
    log.write("t", *rows(1), partition=2)
    first = Follower(log, tmp_path, **PLAIN)
    assert sorted(ids(first.follow())) == [0, 1]
    log.recreate("t", *rows(7), partitions=2)
    again = Follower(log, tmp_path, at=first.at, **ON)
    assert ids(again.follow()) == [7]
    assert {name for name in again.at if "/" in name} == {"t/0", "t/1"}


def test_a_topic_that_is_left_out_of_the_file_is_read_no_more_and_its_place_is_kept(tmp_path: Path) -> None:
    log = TopicLog(t=1, u=1)
    more = {**PLAIN, "primary-keys": {"t": ["id"], "u": ["id"]}}
    first = Follower(log, tmp_path, **more)
    for topic in ("t", "u"):
        log.write(topic, *rows(1))
    first.follow()
    for topic in ("t", "u"):
        log.write(topic, *rows(2))
    without = Follower(log, tmp_path, at=first.at, **{**more, "topics": "t"})
    del log.ids["u"]
    assert ids(without.follow()) == [2]
    log.ids["u"] = "u-1"
    assert ids(Follower(log, tmp_path, at=without.at, **more).follow()) == [2]


def test_sequences_go_on_rising(tmp_path: Path) -> None:
    """Sinks that keep the row of the highest sequence take those of the new topic."""
    log = log_of(*range(5))
    first = Follower(log, tmp_path, **PLAIN)
    first.follow()
    before = max(sequences(first, {"schemas": 2, "t/0": 0}, first.at))
    log.recreate("t", *rows(0))
    again = Follower(log, tmp_path, at=first.at, **ON)
    end = again.source.latest_offset(again.at, Limits(1000, 1 << 20), 0.01)
    (found,) = sequences(again, again.at, end)
    assert found > before
    assert again.source.position_text(found) == "t-0@0"


def sequences(follower: Follower, start: Any, end: Any) -> Iterator[int]:
    for split in follower.source.splits(start, end, 1):
        for block in follower.source.read(split, lambda *_: None, lambda _: None):
            yield from block.sequence.to_pylist()


def planned(folder: Path, **options: Any) -> tuple[TopicLog, Follower, Any]:
    log = log_of(0, 1, 2)
    follower = Follower(log, folder, **options)
    end = follower.source.latest_offset(follower.at, Limits(1000, 1 << 20), 0.01)
    (split,) = follower.source.splits(follower.at, end, 1)
    return log, follower, split


def test_a_task_does_not_read_the_new_one_for_a_batch_of_the_old(tmp_path: Path) -> None:
    log, follower, split = planned(tmp_path / "stops", **PLAIN)
    log.recreate("t", *rows(*range(100, 140)))
    with pytest.raises(PositionLost, match=ANEW):
        list(follower.source.read(split, lambda *_: None, print))
    log, follower, split = planned(tmp_path / "goes on", **ON)
    log.recreate("t", *rows(*range(100, 140)))
    counts: dict[str, int] = {}
    assert list(follower.source.read(split, counts.__setitem__, print)) == []
    assert counts == {"messages-lost t": 3}


def test_a_task_that_reads_meanwhile_is_tried_again(tmp_path: Path) -> None:
    log, follower, split = planned(tmp_path, **PLAIN)
    blocks = follower.source.read(split, lambda *_: None, print)
    next(blocks)
    log.recreate("t", *rows(*range(100, 140)))
    with pytest.raises(SourceUnavailable, match="topic t: the topic was recreated while it was read"):
        next(blocks)


def test_a_task_whose_messages_go_with_the_old_one_meanwhile_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, follower, split = planned(tmp_path, **ON)

    def gone(*_: object) -> Any:
        log.recreate("t", *rows(7))
        raise PositionLost("the messages from offset 0 on are gone")

    monkeypatch.setattr(RangeReader, "read", gone)
    with pytest.raises(SourceUnavailable, match="topic t: the topic was recreated while it was read"):
        list(follower.source.read(split, lambda *_: None, print))


@pytest.mark.kafka
def test_a_real_broker_tells_the_new_topic_from_the_old_one(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    topic = kafka_broker.new_topic("orders", partitions=2)
    kafka_broker.produce(topic, [{"value": value} for value in rows(*range(20))])
    at = drain(source(kafka_broker, topic, tmp_path))[-1].end
    kafka_broker.delete(topic)
    kafka_broker.create(topic)
    kafka_broker.produce(topic, [{"value": value} for value in rows(*range(100, 140))])
    with pytest.raises(PositionLost, match="was deleted and recreated"):
        drain(source(kafka_broker, topic, tmp_path), at)
    again = drain(source(kafka_broker, topic, tmp_path, **{"scan.on-lost": "earliest"}), at)
    assert sorted(image["id"] for _, image in all_images(again)) == list(range(100, 140))


@pytest.mark.kafka
def test_a_real_topic_that_is_recreated_while_a_run_goes_on(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    topic = kafka_broker.new_topic("orders")
    kafka_broker.produce(topic, [{"value": value} for value in rows(*range(5))])
    live = source(kafka_broker, topic, tmp_path)
    at = live.latest_offset(live.initial_offset(), None, 20.0)
    assert at[f"{topic}/0"] == 5
    kafka_broker.delete(topic)
    kafka_broker.create(topic)
    kafka_broker.produce(topic, [{"value": value} for value in rows(*range(100, 140))])
    with pytest.raises(PositionLost, match="was deleted and recreated"):
        live.latest_offset(at, None, 60.0)
    live.stop()


@pytest.mark.kafka
def test_a_topic_that_is_deleted_is_waited_for_and_then_told(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    gone, there = kafka_broker.new_topic("gone"), kafka_broker.new_topic("there")
    pattern = {"topics": None, "topic-pattern": f"{gone}|{there}", "retry-timeout": "5 s"}
    kafka_broker.produce(gone, [{"value": value} for value in rows(1)])
    at = drain(source(kafka_broker, gone, tmp_path, **pattern))[-1].end
    kafka_broker.delete(gone)
    kafka_broker.produce(there, [{"value": value} for value in rows(2)])
    with pytest.raises(PositionLost, match=f"topic {gone}: the topic was deleted, "):
        drain(source(kafka_broker, gone, tmp_path, **pattern), at)
    goes_on = source(kafka_broker, gone, tmp_path, **pattern, **{"scan.on-lost": "earliest"})
    assert [image["id"] for _, image in all_images(drain(goes_on, at))] == [2]


def source(broker: KafkaServer, topic: str, folder: Path, **more: Any) -> KafkaSource:
    given = {"type": "kafka", "properties.bootstrap.servers": broker.bootstrap, "topics": topic, **more}
    given |= {"value.format": "json", "primary-keys": {r"\.*": ["id"]}}
    options = KafkaSourceOptions.model_validate({key: value for key, value in given.items() if value is not None})
    return KafkaSource(options, Context("pipeline-1", LocalStore(folder)))
