"""Names of columns that JSON escapes are the same columns, whoever writes them and however (RFC 8259, section 8.3)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from debezium_messages import envelope, with_schema
from kafka_log import Follower, TopicLog
from together import together

NAMES = ['a"b', "back\\slash", "aö", "\N{SNOWMAN}", "\U0001f600", "tab\t", "a/b", "\\u00f6", "C:\\new", 'naïve \\ "q"']
INT, KEY = {"type": "int32", "optional": True}, "öid"
Write = Callable[[dict[str, Any]], bytes]


def ascii_(value: Any) -> bytes:
    """As Python's `json.dumps` and Jackson's ESCAPE_NON_ASCII have it."""
    return json.dumps(value).encode()


def utf8(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def all_escaped(value: Any) -> bytes:
    """Every character of every name as an escape."""

    def written(item: Any) -> str:
        if not isinstance(item, dict):
            return json.dumps(item)
        members = ",".join(f'"{_escapes(name)}":{written(inner)}' for name, inner in item.items())
        return f"{{{members}}}"

    return written(value).encode()


def _escapes(name: str) -> str:
    units = name.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def plain(row: dict[str, Any]) -> Any:
    return row


def plain_with_schema(row: dict[str, Any]) -> Any:
    fields = [{"field": name, "type": "int32", "optional": True} for name in row]
    return {"schema": {"type": "struct", "fields": fields}, "payload": row}


def debezium(row: dict[str, Any]) -> Any:
    return envelope("c", None, row)


def debezium_with_schema(row: dict[str, Any]) -> Any:
    return json.loads(with_schema(dict.fromkeys(row, INT), envelope("c", None, row)))


def canal(row: dict[str, Any]) -> Any:
    texts = {name: str(value) for name, value in row.items()}
    return {
        "type": "INSERT", "database": "shop", "table": "orders", "data": [texts], "old": None, "es": 1,
        "mysqlType": dict.fromkeys(row, "int"), "pkNames": [KEY], "isDdl": False, "sql": "",
    }  # fmt: skip


def maxwell(row: dict[str, Any]) -> Any:
    return {"database": "shop", "table": "orders", "type": "insert", "ts": 1, "data": row, "primary_key_columns": [KEY]}


FORMATS = {
    "json": (plain, "json"), "json with schema": (plain_with_schema, "json"),
    "debezium": (debezium, "debezium-json"), "debezium with schema": (debezium_with_schema, "debezium-json"),
    "canal": (canal, "canal-json"), "maxwell": (maxwell, "maxwell-json"),
}  # fmt: skip


@together("kind", FORMATS)
def test_each_way_to_write_a_name_is_the_same_column(tmp_path: Path, kind: str) -> None:
    make, value_format = FORMATS[kind]
    rows = [{KEY: number, **{name: 10 * number + at for at, name in enumerate(NAMES)}} for number in range(4)]
    log = TopicLog(topic=1)
    for number, (row, write) in enumerate(zip(rows, (ascii_, utf8, all_escaped, ascii_), strict=True)):
        log.write_keyed("topic", ((utf8, all_escaped, ascii_, utf8)[number]({KEY: number}), write(make(row))))
    follower = Follower(log, tmp_path, **{"value.format": value_format})
    found = [item for batch in follower.follow() for item in batch]
    assert [item[1] for item in found if isinstance(item, tuple)] == rows
    assert sum(not isinstance(item, tuple) for item in found) == 1, "the table is created, and no column is added"


@together("kind", FORMATS)
def test_a_batch_that_ends_between_two_ways_adds_no_column(tmp_path: Path, kind: str) -> None:
    make, value_format = FORMATS[kind]
    log = TopicLog(topic=1)
    follower = Follower(log, tmp_path, **{"value.format": value_format})
    for number, write in enumerate((ascii_, utf8, all_escaped)):
        log.write_keyed("topic", (write({KEY: number}), write(make({KEY: number, 'a"ö': number}))))
        found = [item for batch in follower.follow() for item in batch]
        assert [item[1] for item in found if isinstance(item, tuple)] == [{KEY: number, 'a"ö': number}]
        assert len(found) == (2 if not number else 1)


def test_a_delete_by_a_key_that_is_escaped(tmp_path: Path) -> None:
    log = TopicLog(topic=1)
    log.write_keyed("topic", (utf8({KEY: 1}), utf8({KEY: 1, "v": 2})), (ascii_({KEY: 1}), None))
    follower = Follower(log, tmp_path, **{"value.format": "json"})
    rows = [item for batch in follower.follow() for item in batch if isinstance(item, tuple)]
    assert [(kind, row[KEY]) for kind, row in rows] == [("+U", 1), ("-D", 1)]
