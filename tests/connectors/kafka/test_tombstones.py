"""A tombstone of Debezium deletes the row of its key once, whether compaction has left its delete or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from debezium_messages import INT64, TEXT, envelope, logical, with_schema
from kafka_log import Follower, TopicLog

from cdc.source import Limits
from connectors.kafka.read import range_reader

FIELDS = {"id": INT64, "name": TEXT}
DEBEZIUM = {"value.format": "debezium-json"}


def key(number: int, *, schema: bool = False) -> bytes:
    fields = [{"field": "id", "type": "int64"}]
    payload = {"id": number}
    return json.dumps(
        {"schema": {"type": "struct", "fields": fields}, "payload": payload} if schema else payload
    ).encode()


def change(op: str, number: int, *, schema: bool = False) -> tuple[bytes, bytes]:
    row = {"id": number, "name": "x"}
    message = envelope(op, row if op == "d" else None, None if op == "d" else row)
    value = with_schema(FIELDS, message, required=("id",)) if schema else json.dumps(message).encode()
    return key(number, schema=schema), value


def rows(follower: Follower, limits: Limits | None = None) -> list[tuple[str, Any]]:
    return [(item[0], item[1]["id"]) for batch in follower.follow() for item in batch if isinstance(item, tuple)]


@pytest.mark.parametrize("schema", [False, True])
def test_a_tombstone_alone_deletes(tmp_path: Path, schema: bool) -> None:
    log = TopicLog(topic=1)
    log.write_keyed(
        "topic", change("c", 1, schema=schema), change("c", 2, schema=schema), (key(1, schema=schema), None)
    )
    follower = Follower(log, tmp_path, **DEBEZIUM)
    assert rows(follower) == [("+I", 1), ("+I", 2), ("-D", 1)]
    log.write_keyed("topic", (key(2, schema=schema), None), change("c", 2, schema=schema))
    assert rows(follower) == [("-D", 2), ("+I", 2)]


def test_one_alone_deletes_a_row_of_postgresql(tmp_path: Path) -> None:
    """It tells no database, and so none that is another's."""
    row = envelope("c", None, {"id": 1}, table="shop.orders")
    row["source"]["schema"] = "public"
    log = TopicLog(topic=1)
    log.write_keyed("topic", (key(1), json.dumps(row).encode()), (key(1), None))
    assert rows(Follower(log, tmp_path, **DEBEZIUM)) == [("+I", 1), ("-D", 1)]


def test_behind_its_delete_it_says_nothing_new(tmp_path: Path) -> None:
    log = TopicLog(topic=1)
    log.write_keyed("topic", change("c", 1), change("d", 1), (key(1), None), change("d", 2), (key(3), None))
    follower = Follower(log, tmp_path, **DEBEZIUM)
    assert rows(follower) == [("+I", 1), ("-D", 1), ("-D", 2), ("-D", 3)]


def test_a_batch_that_begins_between_delete_and_tombstone_deletes_once(tmp_path: Path) -> None:
    log = TopicLog(topic=1)
    log.write_keyed("topic", change("c", 1), change("d", 1))
    follower = Follower(log, tmp_path, **DEBEZIUM)
    assert rows(follower) == [("+I", 1), ("-D", 1)]
    log.write_keyed("topic", (key(1), None), (key(2), None))
    assert rows(follower) == [("-D", 2)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_wherever_answers_are_cut_it_deletes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(range_reader, "_AT_ONCE", at_once)
    log = TopicLog(topic=1)
    log.write_keyed(
        "topic", change("c", 1), change("d", 1), (key(1), None), (key(1), None), change("d", 2), (key(2), None)
    )
    assert rows(Follower(log, tmp_path, **DEBEZIUM)) == [("+I", 1), ("-D", 1), ("-D", 1), ("-D", 2)]


def test_a_key_is_read_as_its_own_schema_says(tmp_path: Path) -> None:
    """A number of days is a date, though no row is there that would say so."""
    day = logical("int32", "io.debezium.time.Date")
    fields = [{**day, "field": "day"}]
    write = json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"day": 20000}}).encode()
    log = TopicLog(topic=1)
    value = with_schema({"day": day, "v": INT64}, envelope("c", None, {"day": 20000, "v": 1}), required=("day",))
    log.write_keyed("topic", (write, value))
    follower = Follower(log, tmp_path, **DEBEZIUM)
    (inserted,) = [item[1]["day"] for batch in follower.follow() for item in batch if isinstance(item, tuple)]
    log.write_keyed("topic", (write, None))
    (deleted,) = [item for batch in follower.follow() for item in batch if isinstance(item, tuple)]
    assert deleted == ("-D", {"day": inserted, "v": None})


def test_one_in_a_topic_of_several_tables_is_counted(tmp_path: Path) -> None:
    log = TopicLog(topic=1)
    other = json.dumps(envelope("c", None, {"id": 5}, table="shop.items")).encode()
    log.write_keyed("topic", change("c", 1), (key(5), other), (key(1), None))
    follower = Follower(log, tmp_path, **DEBEZIUM)
    assert rows(follower) == [("+I", 1), ("+I", 5)]
    assert follower.counts == {"tombstones-left-out topic": 1}


@pytest.mark.parametrize(
    "value",
    [
        {"database": "s", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1}},
        {"database": "s", "table": "t", "type": "INSERT", "isDdl": False, "pkNames": ["id"], "data": [{"id": "1"}]},
    ],
    ids=["Maxwell", "Canal"],
)
def test_one_among_messages_of_others_is_counted(tmp_path: Path, value: dict[str, Any]) -> None:
    log = TopicLog(topic=1)
    log.write_keyed("topic", (b'{"database":"s","table":"t","pk.id":1}', json.dumps(value).encode()), (key(1), None))
    follower = Follower(log, tmp_path)
    assert len(rows(follower)) == 1
    assert follower.counts == {"tombstones-left-out topic": 1}


def test_one_without_a_key_or_of_other_columns_is_no_delete(tmp_path: Path) -> None:
    log = TopicLog(topic=1)
    log.write_keyed("topic", change("c", 1), (None, None), (b'{"other":1}', None), (b"7", None))
    follower = Follower(log, tmp_path, **DEBEZIUM, **{"unreadable-messages": "skip"})
    assert rows(follower) == [("+I", 1)]
    assert follower.counts == {"unreadable-message topic": 2}
