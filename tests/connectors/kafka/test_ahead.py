"""The next batch is planned while the last one is read: nobody can tell, whatever happens in between."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from debezium_messages import INT64, TEXT, envelope, with_schema
from kafka_log import Follower, LogFetcher, TopicLog

from cdc import events as on
from cdc.errors import SchemaUnknown
from cdc.source import Limits, Offset
from connectors.kafka.fetch.fetcher import Fetched

_NARROW, _WIDE = {"id": INT64}, {"id": INT64, "name": TEXT}
_KEY = b'{"id":1}'


class Watched(TopicLog):
    """Tells when a reader has come to the end of everything."""

    def __init__(self, **partitions: int) -> None:
        super().__init__(**partitions)
        self.read_out = threading.Event()

    def fetcher(self, **settings: object) -> LogFetcher:
        log = self

        class Reader(LogFetcher):
            def fetch(self, most: int, wait_s: float) -> Fetched:
                found = super().fetch(min(most, 3), wait_s)
                if not found and log.logs.keys() == self._at.keys():
                    log.read_out.set()
                return found

        return Reader(self.logs, self.failing)


def _insert(number: int, fields: dict[str, dict[str, object]]) -> bytes:
    return with_schema(fields, envelope("c", None, {name: number if name == "id" else "x" for name in fields}))


def _log(narrow: int, wide: int) -> Watched:
    """Rows of one column, then rows with a second one: a batch of its own begins there."""
    log = Watched(t=1)
    log.write_keyed("t", *((_KEY, _insert(number, _NARROW)) for number in range(narrow)))
    log.write_keyed("t", *((_KEY, _insert(number, _WIDE)) for number in range(narrow, narrow + wide)))
    return log


def _next(follower: Follower, limits: Limits) -> Offset:
    return follower.source.latest_offset(follower.at, limits, 0.05)


_SIX = Limits(1 << 30, 6)


def test_a_full_batch_lets_the_next_one_be_planned_at_once(tmp_path: Path) -> None:
    log = _log(narrow=10, wide=0)
    follower = Follower(log, tmp_path)
    follower.at = _next(follower, _SIX)
    assert follower.at["t/0"] == 6
    assert log.read_out.wait(60)  # nobody has asked for these
    behind = follower.source.lag()
    assert behind is not None
    assert behind.bytes > 0
    assert _next(follower, _SIX) == {**follower.at, "t/0": 10}
    left = follower.source.lag()
    assert left is not None
    assert left.bytes == 0


def test_nothing_is_written_before_it_is_asked_for(tmp_path: Path) -> None:
    log = _log(narrow=6, wide=4)
    follower = Follower(log, tmp_path)
    first = _next(follower, _SIX)
    changes = on.changes(follower.source.events(follower.at, first))
    written = (tmp_path / "schemas.jsonl").read_bytes()
    assert log.read_out.wait(60)
    follower.source.stop_at_current()  # waits for what is planned ahead
    assert (tmp_path / "schemas.jsonl").read_bytes() == written
    follower.at = first
    second = _next(follower, _SIX)
    assert second == {**first, "schemas": first["schemas"] + 1, "t/0": 10}
    changes += on.changes(follower.source.events(first, second))
    assert [type(change).__name__ for change in changes] == ["CreateTable", "AddColumn"]


def test_a_batch_that_is_not_full_leaves_the_next_one_to_who_asks(tmp_path: Path) -> None:
    log = _log(narrow=5, wide=0)
    follower = Follower(log, tmp_path)
    follower.at = _next(follower, _SIX)
    log.write_keyed("t", (_KEY, _insert(5, _NARROW)))
    assert _next(follower, _SIX)["t/0"] == 6


@pytest.mark.parametrize("killed", [False, True])
def test_a_batch_that_is_asked_for_again_is_the_same(tmp_path: Path, killed: bool) -> None:
    log = _log(narrow=6, wide=4)
    follower = Follower(log, tmp_path)
    begin = follower.at
    first = _next(follower, _SIX)
    changes = follower.source.events(begin, first)
    assert log.read_out.wait(60)
    again = Follower(log, tmp_path, at=first) if killed else follower
    assert again.source.events(begin, first) == changes
    (split,) = again.source.splits(begin, first, 1)
    rows = [
        row for block in again.source.read(split, lambda *_: None, lambda _: None) for row in block.rows.to_pylist()
    ]
    assert rows == [{"id": number} for number in range(6)]
    again.at = begin
    assert _next(again, _SIX) == first  # what was planned after it is forgotten
    again.at = first
    assert _next(again, _SIX) == {**first, "schemas": first["schemas"] + 1, "t/0": 10}


def test_what_is_met_ahead_is_raised_where_the_batch_is_asked_for(tmp_path: Path) -> None:
    log = _log(narrow=6, wide=0)
    log.write_keyed("t", (b'{"name":"x"}', _insert(6, _WIDE)))
    follower = Follower(log, tmp_path)
    follower.at = _next(follower, _SIX)
    assert len(follower.source.splits({"schemas": 1, "t/0": 0}, follower.at, 1)) == 1
    for _ in range(2):  # and again when it is asked for again
        with pytest.raises(SchemaUnknown, match="the key columns of the messages are"):
            _next(follower, _SIX)


def test_other_limits_are_kept_to(tmp_path: Path) -> None:
    follower = Follower(_log(narrow=18, wide=0), tmp_path)
    follower.at = _next(follower, _SIX)
    assert _next(follower, Limits(1 << 30, 3))["t/0"] == 9


def test_new_partitions_are_found_while_batches_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, later_s = TopicLog(t=1), [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later_s[0])
    log.write_keyed("t", *((_KEY, _insert(number, _NARROW)) for number in range(60)))
    follower = Follower(log, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("connectors.kafka.read.partitions.time", clock)
        follower.at = _next(follower, _SIX)
        log.logs["t", 1] = [(_KEY, _insert(100, _NARROW))]
        later_s[0] = 31.0  # beyond scan.topic-partition-discovery.interval
        for _ in range(4):
            follower.at = _next(follower, _SIX)
    assert "t/1" in follower.at
    assert follower.at["t/0"] < 60
