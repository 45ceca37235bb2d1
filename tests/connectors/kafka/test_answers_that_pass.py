"""What brokers answer while they start or take partitions over is waited for, as long as `retry-timeout` says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka_log import Follower, TopicLog
from together import together

from cdc.errors import SourceError, SourceUnavailable
from cdc.source import Limits

PLAIN = {"value.format": "json", "primary-keys": {"t": ["id"]}}
PASSING = (
    "UNKNOWN_TOPIC_OR_PART", "NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    "UNKNOWN_TOPIC_ID", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "KAFKA_STORAGE_ERROR",
    "TOPIC_AUTHORIZATION_FAILED", "_UNKNOWN_PARTITION", "_TRANSPORT",
)  # fmt: skip


def rows(*numbers: int) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in numbers]


def following(folder: Path, **more: Any) -> tuple[TopicLog, Follower]:
    log = TopicLog(t=2)
    log.write("t", *rows(1))
    log.write("t", *rows(2), partition=1)
    found = Follower(log, folder, **PLAIN, **more)
    assert len(ids(found)) == 2
    return log, found


def ids(follower: Follower) -> list[int]:
    return [item[1]["id"] for batch in follower.follow() for item in batch if isinstance(item, tuple)]


def test_the_planner_goes_on_behind_an_answer_that_passes(tmp_path: Path) -> None:
    log, follower = following(tmp_path)
    for number, name in enumerate(PASSING, 3):
        log.failing += [getattr(KafkaError, name)] * 3
        log.write("t", *rows(number))
        for _ in range(3):
            follower.source.latest_offset(follower.at, Limits(1000, 1 << 20), 0.0)
        assert ids(follower) == [number], name


def test_a_task_goes_on_behind_an_answer_that_passes(tmp_path: Path) -> None:
    log, follower = following(tmp_path)
    log.write("t", *rows(3))
    end = follower.source.latest_offset(follower.at, Limits(1000, 1 << 20), 0.01)
    (split,) = follower.source.splits(follower.at, end, 1)
    for name in PASSING:
        log.failing += [getattr(KafkaError, name)] * 2
        (block,) = follower.source.read(split, lambda *_: None, print)
        assert block.rows.to_pylist() == [{"id": 3}], name
        assert log.failing == []


@together("name", PASSING)
def test_an_answer_that_does_not_pass_ends_the_run_in_time(tmp_path: Path, name: str) -> None:
    log, follower = following(tmp_path, **{"retry-timeout": "0 s"})
    log.write("t", *rows(3))
    end = follower.source.latest_offset(follower.at, Limits(1000, 1 << 20), 0.01)
    (split,) = follower.source.splits(follower.at, end, 1)
    log.failing += [getattr(KafkaError, name)] * 4
    with pytest.raises(SourceError, match=r"topic t: reading"):
        list(follower.source.read(split, lambda *_: None, print))
    with pytest.raises(SourceError, match=r"topic t: reading"):
        follower.source.latest_offset(end, Limits(1000, 1 << 20), 0.0)


def test_a_right_that_was_never_there_is_told_at_once(tmp_path: Path) -> None:
    log = TopicLog(t=1)
    log.write("t", *rows(1))
    follower = Follower(log, tmp_path, **PLAIN)
    log.failing += [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(SourceError, match="a right is missing") as raised:
        follower.follow()
    assert not isinstance(raised.value, SourceUnavailable)
