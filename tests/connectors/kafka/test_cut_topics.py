"""A log that a broker has lost the end of: the next offset to read comes to stand for another message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_log import Follower, TopicLog

from cdc.errors import PositionLost
from cdc.source import Limits

PLAIN: dict[str, Any] = {"value.format": "json", "primary-keys": {"t": ["id"]}}
ON: dict[str, Any] = {**PLAIN, "scan.on-lost": "earliest"}


def cut_log(folder: Path) -> tuple[TopicLog, Follower]:
    """Five messages are read, and then there are two others."""
    log = TopicLog(t=1)
    log.write("t", *(json.dumps({"id": number}).encode() for number in range(5)))
    first = Follower(log, folder, **PLAIN)
    first.follow()
    log.logs["t", 0][:] = [(None, b'{"id":100}'), (None, b'{"id":101}')]
    return log, first


@pytest.mark.parametrize("bounded", [False, True])
def test_it_is_told_or_read_from_its_beginning(tmp_path: Path, bounded: bool) -> None:
    log, first = cut_log(tmp_path)
    for more in (PLAIN, ON):
        again = Follower(log, tmp_path, at=first.at, **more)
        if bounded:
            again.source.stop_at_current()
        if more is PLAIN:
            with pytest.raises(PositionLost, match=r"t-0: .* offset 5.*its broker has lost messages"):
                again.follow()
    (batch,) = again.follow()
    assert [row["id"] for _, row in (item for item in batch if isinstance(item, tuple))] == [100, 101]
    assert "t/0: the partition ends at offset 2, before offset 5" in again.notices[0]
    assert Follower(log, tmp_path, at=again.at, **PLAIN).follow() == []


def test_a_task_does_not_read_what_is_before_its_range(tmp_path: Path) -> None:
    """Its batch ends without it: the plan of the next one begins with the log again."""
    log, first = cut_log(tmp_path)
    log.write("t", *[b'{"id":7}'] * 5)
    end = first.source.latest_offset(first.at, Limits(1000, 1 << 20), 0.01)
    (split,) = first.source.splits(first.at, end, 1)
    del log.logs["t", 0][2:]
    with pytest.raises(PositionLost, match=r"set scan\.on-lost: earliest"):
        list(Follower(log, tmp_path, at=first.at, **PLAIN).source.read(split, lambda *_: None, print))
    again, counts = Follower(log, tmp_path, at=end, **ON), dict[str, int]()
    assert list(again.source.read(split, counts.__setitem__, print)) == []
    assert counts == {"messages-lost t": 2}
    (batch,) = again.follow()
    assert len([item for item in batch if isinstance(item, tuple)]) == 2
