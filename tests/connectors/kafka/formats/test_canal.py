"""Canal's flat messages: kinds of changes, every type, what is lost, what cannot be read."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from read_messages import Read, messages
from together import together

from cdc.schema import TableId
from connectors.kafka.formats.canal import CanalFormat

TYPES = {"id": "int(11)", "name": "varchar(20)"}


def flat(kind: str, data: list[dict[str, Any]] | None, old: list[dict[str, Any]] | None = None, **more: Any) -> bytes:
    message = {
        "data": data, "database": "shop", "es": 1_700_000_000_000, "gtid": "", "id": 1, "isDdl": False,
        "mysqlType": TYPES, "old": old, "pkNames": ["id"], "sql": "", "sqlType": {}, "table": "orders", "ts": 1,
        "type": kind,
    }  # fmt: skip
    return json.dumps({**message, **more}, ensure_ascii=False).encode()


def test_kinds_of_changes_and_several_rows_in_a_message() -> None:
    values = [
        flat("INSERT", [{"id": "1", "name": "a"}, {"id": "2", "name": None}]),
        flat("UPDATE", [{"id": "1", "name": "b"}, {"id": "3", "name": None}], [{"name": "a"}, {"id": "2"}]),
        flat("DELETE", [{"id": "3", "name": None}]),
    ]
    found = Read(CanalFormat(), messages(values))
    assert found.types == {"id": "INT", "name": "VARCHAR(20)"}
    assert found.schema.primary_key == ("id",)
    assert found.images == [
        ("+I", {"id": 1, "name": "a"}),
        ("+I", {"id": 2, "name": None}),
        ("-U", {"id": 1, "name": "a"}),
        ("+U", {"id": 1, "name": "b"}),
        ("-U", {"id": 2, "name": None}),
        ("+U", {"id": 3, "name": None}),
        ("-D", {"id": 3, "name": None}),
    ]
    assert found.messages == [0, 0, 1, 1, 1, 1, 2]
    assert set(found.times) == {1_700_000_000_000}


def test_a_column_that_becomes_null_had_a_value_before() -> None:
    found = Read(CanalFormat(), messages([flat("UPDATE", [{"id": "1", "name": None}], [{"name": "a"}])]))
    assert found.images == [("-U", {"id": 1, "name": "a"}), ("+U", {"id": 1, "name": None})]
    back = Read(CanalFormat(), messages([flat("UPDATE", [{"id": "1", "name": "a"}], [{"name": None}])]))
    assert back.images == [("-U", {"id": 1, "name": None}), ("+U", {"id": 1, "name": "a"})]


VALUES = [
    ("tinyint(3) unsigned", "255", "TINYINT UNSIGNED", 255),
    ("bigint(20)", str(-(2**63)), "BIGINT", -(2**63)),
    ("bigint(20) unsigned", str(2**64 - 1), "BIGINT UNSIGNED", 2**64 - 1),
    ("decimal(10,2)", "20.0", "DECIMAL(10, 2)", Decimal("20.00")),
    ("decimal(65,30)", "1.5", "DECIMAL(65, 30)", "1.5" + 29 * "0"),
    ("float", "-3.402823E38", "FLOAT", pytest.approx(-3.402823e38)),
    ("bit(1)", "1", "BOOLEAN", True),
    ("bit(12)", "385", "BINARY(2)", b"\x01\x81"),
    ("year(4)", "0000", "INT", 0),
    ("date", "2026-11-20", "DATE", date(2026, 11, 20)),
    ("time(6)", "-838:59:58.999999", "TIME(6)", -timedelta(hours=838, minutes=59, seconds=58, microseconds=999999)),
    ("datetime(3)", "2026-11-20 12:34:56.789", "TIMESTAMP(3)", datetime(2026, 11, 20, 12, 34, 56, 789000)),
    ("timestamp", "2026-11-20 12:34:56", "TIMESTAMP_LTZ(0)", datetime(2026, 11, 20, 12, 34, 56, tzinfo=UTC)),
    ("char(10)", "ü\n😀", "CHAR(10)", "ü\n😀"),
    ("binary(3)", "\x01", "BINARY(3)", b"\x01\0\0"),
    ("blob", "\0ÿ", "BYTES", b"\0\xff"),
    ("enum('red','it''s')", "2", "STRING", "it's"),
    ("enum('red')", "0", "STRING", ""),
    ("set('x','y','z')", "5", "STRING", "x,z"),
    ("json", '{"a": 1}', "JSON", '{"a": 1}'),
    ("point", "\0\0\0\0\x01\x01ð", "GEOMETRY", b"\0\0\0\0\x01\x01\xf0"),
    ("something(new)", "x", "STRING", "x"),
]


@together("mysql_type, written, data_type, value", VALUES)
def test_types(mysql_type: str, written: str, data_type: str, value: object) -> None:
    types = {"id": "int(11)", "c": mysql_type}
    data = [{"id": "1", "c": written}, {"id": "2", "c": None}]
    found = Read(CanalFormat(), messages([flat("INSERT", data, mysqlType=types)]))
    assert found.types["c"] == data_type
    assert [row["c"] for _, row in found.images] == [value, None]


def test_the_clock_of_timestamps_is_the_pipelines() -> None:
    types = {"id": "int", "c": "timestamp"}
    value = flat("INSERT", [{"id": "1", "c": "2026-07-01 12:00:00"}], mysqlType=types)
    found = Read(CanalFormat("Europe/Berlin"), messages([value]))
    assert found.images[0][1]["c"] == datetime(2026, 7, 1, 10, 0, tzinfo=UTC)


def test_what_canal_has_lost_is_counted() -> None:
    types = {"id": "int", "d": "datetime", "t": "varchar(20)"}
    value = flat("INSERT", [{"id": "1", "d": "0000-00-00 00:00:00", "t": "caf�"}], mysqlType=types)
    found = Read(CanalFormat(), messages([value]))
    assert found.images == [("+I", {"id": 1, "d": None, "t": "caf�"})]
    assert found.counts == {
        "invalid-date-to-null shop.orders.d": 1,
        "replacement-characters shop.orders.t": 1,
    }


def test_statements_and_messages_that_cannot_be_read() -> None:
    ddl = flat("TRUNCATE", None, isDdl=True, sql="truncate table orders", mysqlType=None, pkNames=None)
    uneven = flat("UPDATE", [{"id": "1", "name": "b"}], [{"name": "a"}, {"name": "c"}])
    found = Read(CanalFormat(), messages([ddl, uneven, b"[]", flat("INSERT", [{"id": "x", "name": "a"}]), None]))
    assert [statement.sql for statement in found.reading.statements] == ["truncate table orders"]
    assert found.unreadable == {
        1: "1 rows, and 2 in `old`",
        2: "no JSON object (byte 0)",
        3: "column id: 'x' is not a whole number of 64 bits",
    }


def test_rows_of_which_ticdc_has_written_the_key_alone() -> None:
    key = {"data": [{"id": "1"}], "mysqlType": {"id": "int(11)"}}
    values = [flat("UPDATE", old=[{"id": "1"}], **key, _tidb={"onlyHandleKey": True}),
              flat("INSERT", **key, _tidb={"claimCheckLocation": "s3://b/1.json"}),
              flat("DELETE", **key, _tidb={"onlyHandleKey": True}),
              flat("INSERT", [{"id": "2", "name": "b"}], _tidb={"commitTs": 1})]  # fmt: skip
    found = Read(CanalFormat(), messages(values))
    assert {number: why.partition(" as the")[0] for number, why in found.unreadable.items()} == dict.fromkeys(
        (0, 1), "TiCDC has written the key of this row alone,"
    )
    assert [kind for kind, _ in found.images] == ["-D", "+I"]


def test_tables_take_turns_in_one_topic() -> None:
    other = flat("INSERT", [{"a": "1"}], table="items", mysqlType={"a": "bigint"}, pkNames=None)
    orders = flat("INSERT", [{"id": "1", "name": "a"}])
    found = Read(CanalFormat(), messages([orders, other, orders, other]))
    assert found.schemas.keys() == {TableId("shop", "orders"), TableId("shop", "items")}
    assert found.messages == [0, 2, 1, 3]
    assert found.schemas[TableId("shop", "items")].primary_key == ()
