"""Messages that are no rows: with `skip` they are left out and counted, without it the error names their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from debezium_messages import envelope
from kafka_log import Follower, TopicLog
from together import together

from cdc.errors import CorruptLog, SchemaUnknown

KEY = {"id": 1}


def canal(**changed: Any) -> Any:
    message = {
        "type": "INSERT", "database": "s", "table": "t", "data": [{"id": "1", "v": "5"}], "old": None, "es": 1,
        "mysqlType": {"id": "int", "v": "int"}, "pkNames": ["id"], "isDdl": False, "sql": "",
    }  # fmt: skip
    return {**message, **changed}


def maxwell(**changed: Any) -> Any:
    message = {"database": "s", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1, "v": 5}}
    return {**message, "primary_key_columns": ["id"], **changed}


def connect(fields: Any, row: Any) -> Any:
    return {"schema": {"type": "struct", "fields": fields}, "payload": row}


def without(message: Any, name: str) -> Any:
    return {key: value for key, value in message.items() if key != name}


def of_table(table: Any, database: Any = "s") -> Any:
    message = envelope("c", None, {"id": 1, "v": 5})
    message["source"] |= {"table": table, "db": database}
    return message


FIELDS = [{"field": "id", "type": "int32"}, {"field": "v", "type": "int32", "optional": True}]
GOOD = {
    "canal-json": canal(data=[{"id": "7", "v": "5"}]), "maxwell-json": maxwell(data={"id": 7, "v": 5}),
    "json": {"id": 7, "v": 5}, "debezium-json": envelope("c", None, {"id": 7, "v": 5}, table="s.t"),
}  # fmt: skip
POISON: dict[str, tuple[str, Any]] = {
    "a type that is not text": ("canal-json", canal(mysqlType={"id": 0, "v": "int"})),
    "types that are a list": ("canal-json", canal(mysqlType=[1])),
    "types that are no JSON": ("canal-json", json.dumps(canal(mysqlType="~")).replace('"~"', '{"id":0"int"}').encode()),
    "keys that are a number": ("canal-json", canal(pkNames=5)),
    "keys that are numbers": ("canal-json", canal(pkNames=[5])),
    "rows that are no JSON": ("canal-json", json.dumps(canal(data="~")).replace('"~"', '[{"id":"1"}:{}]').encode()),
    "a type that is none, of a value that is none": (
        "canal-json", canal(mysqlType={"id": "int", "v": "something"}, data=[{"id": "1", "v": "x"}]),
    ),
    "a table that is NULL": ("canal-json", canal(table=None)),
    "a table that is missing": ("canal-json", without(canal(), "table")),
    "a table without a name": ("maxwell-json", maxwell(table="")),
    "a database without a name": ("maxwell-json", maxwell(database="")),
    "a table that is an object": ("maxwell-json", maxwell(table={})),
    "a table that is a number": ("debezium-json", of_table(5)),
    "a table of a database that is a list": ("debezium-json", of_table("t", [])),
    "keys of Maxwell that are an object": ("maxwell-json", maxwell(primary_key_columns={"id": 1})),
    "a member without a name": ("json", {"id": 1, "": 5}),
    "a member with a zero byte in its name": ("json", {"id": 1, "a\0": 5}),
    "a member that is another in upper case": ("json", {"id": 1, "V": 5}),
    "a column of Maxwell without a name": ("maxwell-json", maxwell(data={"id": 1, "": 5})),
    "a column of Canal without a name": (
        "canal-json", canal(mysqlType={"id": "int", "": "int"}, data=[{"id": "1", "": "5"}]),
    ),
    "fields that are a text": ("json", connect("x", {"id": 1})),
    "fields that are numbers": ("json", connect([1], {"id": 1})),
    "a field without a type": ("json", connect([{"field": "id"}], {"id": 1})),
    "a field of no type of Connect": ("json", connect([{"field": "id", "type": "int128"}], {"id": 1})),
    "a field without a name": ("json", connect([*FIELDS, {"field": "", "type": "int32"}], {"id": 1})),
    "two fields of one name": ("json", connect([*FIELDS, *FIELDS], {"id": 1})),
    "parameters that are a list": (
        "json", connect([{"field": "id", "type": "int32", "parameters": [1]}], {"id": 1}),
    ),
    "a scale that is a word": (
        "json",
        connect([{"field": "id", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
                  "parameters": {"scale": "two"}}], {"id": "AQ=="}),
    ),
    "a text in a column of numbers": ("json", {"id": 1, "v": "x"}),
    "an object in a column of numbers": ("json", {"id": 1, "v": {}}),
    "true in a column of numbers": ("json", {"id": 1, "v": True}),
    "a number of forty digits": ("json", {"id": 1, "v": 10**40}),
    "a list in a column of Maxwell's": ("maxwell-json", maxwell(data={"id": 1, "v": [1]})),
}  # fmt: skip


def following(folder: Path, value_format: str, **more: Any) -> tuple[TopicLog, Follower]:
    """A source that has read one good message."""
    log = TopicLog(topic=1)
    log.write_keyed("topic", written(GOOD[value_format]))
    found = Follower(log, folder, **{"value.format": value_format, **more})
    assert rows(found) == [7]
    return log, found


def written(value: Any) -> tuple[bytes, bytes]:
    return json.dumps(KEY).encode(), value if isinstance(value, bytes) else json.dumps(value).encode()


def rows(follower: Follower) -> list[Any]:
    return [item[1]["id"] for batch in follower.follow() for item in batch if isinstance(item, tuple)]


@together("value_format", GOOD)
def test_poison_is_left_out_and_counted(tmp_path: Path, value_format: str) -> None:
    log, follower = following(tmp_path, value_format, **{"unreadable-messages": "skip"})
    cases = [value for found, value in POISON.values() if found == value_format]
    for value in cases:
        log.write_keyed("topic", written(value), written(GOOD[value_format]))
    assert rows(follower) == [7] * len(cases)
    assert follower.counts == {"unreadable-message topic": len(cases)}


@together("case", POISON)
def test_poison_is_refused_with_its_place(tmp_path: Path, case: str) -> None:
    value_format, value = POISON[case]
    log, follower = following(tmp_path, value_format)
    log.write_keyed("topic", written(GOOD[value_format]), written(value))
    with pytest.raises((CorruptLog, SchemaUnknown), match="topic-0@2: "):
        follower.follow()


@together("case", sorted(POISON.keys() - {"a member that is another in upper case"}))
def test_poison_that_comes_first_is_left_out_too(tmp_path: Path, case: str) -> None:
    value_format, value = POISON[case]
    log = TopicLog(topic=1)
    log.write_keyed("topic", written(value), written(GOOD[value_format]))
    follower = Follower(log, tmp_path, **{"value.format": value_format, "unreadable-messages": "skip"})
    assert 7 in rows(follower)
    assert set(follower.counts) <= {"unreadable-message topic"}


@together("keys", [[{"k": 1}], [{"k": 1}, {"id": 1}, {"k": 1}], [{}], [{"id": 1, "k": 1}]])
def test_keys_of_other_columns_are_left_out_one_by_one(tmp_path: Path, keys: list[Any]) -> None:
    """Also where the first and the last message at hand have such a key."""
    log, follower = following(tmp_path, "json", **{"unreadable-messages": "skip"})
    log.write_keyed("topic", *((json.dumps(key).encode(), written(GOOD["json"])[1]) for key in keys))
    assert len(rows(follower)) == sum(key == KEY for key in keys)
    assert follower.counts == {"unreadable-message topic": sum(key != KEY for key in keys)}


def test_a_good_number_beside_a_poisonous_flag_is_kept(tmp_path: Path) -> None:
    log, follower = following(tmp_path, "json", **{"unreadable-messages": "skip"})
    values = [{"id": 1, "v": 1}, {"id": 2, "v": True}, {"id": 3, "v": "4"}, {"id": 4, "v": 2}]
    log.write_keyed("topic", *map(written, values))
    assert rows(follower) == [1, 4]


def test_columns_still_widen_among_numbers_and_in_the_first_messages(tmp_path: Path) -> None:
    log, follower = following(tmp_path, "json")
    log.write_keyed("topic", written({"id": 1, "v": 1.5, "w": 1}), written({"id": 2, "v": 2, "w": "x"}))
    assert [item for batch in follower.follow() for item in batch if isinstance(item, tuple)] == [
        ("+U", {"id": 1, "v": 1.5, "w": "1"}), ("+U", {"id": 2, "v": 2.0, "w": "x"}),
    ]  # fmt: skip
