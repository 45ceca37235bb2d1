"""Messages that do not tell their types: Maxwell's, plain JSON, Debezium's without a schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from debezium_messages import envelope, text
from read_messages import Read, messages

from cdc.schema import TableId
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.maxwell import MaxwellFormat
from connectors.kafka.formats.modes import DecodingModes
from connectors.kafka.formats.plain import PlainFormat


def maxwell(kind: str, data: dict[str, Any], old: dict[str, Any] | None = None, **more: Any) -> bytes:
    message = {"database": "shop", "table": "orders", "type": kind, "ts": 1_700_000_000, "xid": 1, "data": data}
    return json.dumps({**message, **({} if old is None else {"old": old}), **more}).encode()


def test_maxwell_kinds_of_changes() -> None:
    values = [
        maxwell("bootstrap-start", {}),
        maxwell("bootstrap-insert", {"id": 1, "name": "a"}),
        maxwell("insert", {"id": 2, "name": "b"}),
        maxwell("update", {"id": 3, "name": "b"}, {"id": 2}),
        maxwell("delete", {"id": 1, "name": "a"}),
    ]
    keys = [text({"database": "shop", "table": "orders", "pk.id": 1})] * len(values)
    found = Read(MaxwellFormat(), messages(values, keys))
    assert found.schema.primary_key == ("id",)
    assert found.images == [
        ("+I", {"id": 1, "name": "a"}),
        ("+I", {"id": 2, "name": "b"}),
        ("-U", {"id": 2, "name": "b"}),
        ("+U", {"id": 3, "name": "b"}),
        ("-D", {"id": 1, "name": "a"}),
    ]
    assert set(found.times) == {1_700_000_000_000}
    told = Read(MaxwellFormat(), messages([maxwell("insert", {"id": 1}, primary_key_columns=["id"])]))
    assert told.schema.primary_key == ("id",)


def test_types_come_from_values() -> None:
    rows = [
        {"i": 1, "huge": 2**63, "d": 1.5, "b": True, "t": "x", "j": [1, {"a": 2}], "mixed": 1, "none": None},
        {"i": -(2**63), "huge": 1, "d": 2, "b": False, "t": "1", "j": {}, "mixed": "a", "later": 1},
    ]
    found = Read(PlainFormat(), messages([text(row) for row in rows]))
    assert found.types == {
        "i": "BIGINT", "huge": "DECIMAL(38, 0)", "d": "DOUBLE", "b": "BOOLEAN", "t": "STRING", "j": "JSON",
        "mixed": "STRING", "later": "BIGINT",
    }  # fmt: skip
    first, second = (row for _, row in found.images)
    assert first == {
        "i": 1, "huge": Decimal(2**63), "d": 1.5, "b": True, "t": "x", "j": '[1,{"a":2}]', "mixed": "1", "later": None,
    }  # fmt: skip
    assert (second["i"], second["mixed"], second["later"]) == (-(2**63), "a", 1)


def test_plain_rows_stand_for_their_key_and_no_value_deletes() -> None:
    values = [text({"id": 1, "name": "a"}), text({"id": 1, "name": "b"}), None]
    keys = [text({"id": 1})] * 3
    found = Read(PlainFormat(), messages(values, keys))
    assert found.schemas.keys() == {TableId("", "topic")}
    assert found.images == [
        ("+U", {"id": 1, "name": "a"}),
        ("+U", {"id": 1, "name": "b"}),
        ("-D", {"id": 1, "name": None}),
    ]


def test_plain_rows_without_a_key_are_added_and_cannot_be_deleted() -> None:
    found = Read(PlainFormat(), messages([text({"a": 1}), None, text({"a": 1})], [None, b"7", None]))
    assert found.images == [("+I", {"a": 1}), ("+I", {"a": 1})]
    assert found.unreadable == {1: "a delete (no value) whose key is not a JSON object with the key columns"}


def test_a_delete_by_a_key_of_debeziums_router_has_the_declared_key() -> None:
    keys = [text({"__dbz__physicalTableIdentifier": "shop.shard_1", "id": 1})] * 2
    found = Read(PlainFormat(), messages([text({"id": 1, "n": 2}), None], keys), **{"primary-keys": {"topic": ["id"]}})
    assert (found.images, found.unreadable) == ([("+U", {"id": 1, "n": 2}), ("-D", {"id": 1, "n": None})], {})


def test_declared_columns_and_keys() -> None:
    columns = {"topic": {"price": "DECIMAL(10, 2)", "day": "DATE", "at": "TIMESTAMP_LTZ(3)", "later": "INT"}}
    rows = [
        {"id": 1, "price": 9.50, "day": "2026-01-31", "at": "2026-01-31T12:00:00+01:00"},
        {"id": 2, "price": "1.25", "day": 20000, "at": 1_700_000_000_123},
        {"id": 3, "price": "1.234"},
    ]
    options = {"columns": columns, "primary-keys": {"topic": ["id"]}}
    found = Read(PlainFormat(), messages([text(row) for row in rows[:1]]), **options)
    assert found.types == {"id": "BIGINT", **columns["topic"]}
    assert found.schema.primary_key == ("id",)
    assert found.images[0][1] == {
        "id": 1, "price": Decimal("9.50"), "day": date(2026, 1, 31), "at": datetime(2026, 1, 31, 11, tzinfo=UTC),
        "later": None,
    }  # fmt: skip
    counted = Read(PlainFormat(), messages([text(row) for row in rows[1:]]), **options)
    assert counted.images[0][1]["at"] == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert counted.images[0][1]["day"] == date(2024, 10, 4)
    assert "price" in counted.unreadable[1], "a digit too many is not cut off"


def test_debezium_without_a_schema_and_with_declared_columns() -> None:
    row = {"id": 1, "amount": "BBo=", "created": 1795168800123, "raw": "00ff", "day": 20777, "big": "AP//////////"}
    columns = {"shop.orders": {"amount": "DECIMAL(10, 2)", "created": "TIMESTAMP(3)", "raw": "BYTES", "day": "DATE"}}
    columns["shop.orders"]["big"] = "BIGINT UNSIGNED"
    values = [text(envelope("c", None, row))]
    modes = DecodingModes(binary="hex", unsigned="precise")
    found = Read(DebeziumFormat(modes), messages(values, [text({"id": 1})]), columns=columns)
    assert found.images[0][1] == {
        "id": 1, "amount": Decimal("10.50"), "created": datetime(2026, 11, 20, 10, 0, 0, 123000), "raw": b"\0\xff",
        "day": date(2026, 11, 20), "big": 2**64 - 1,
    }  # fmt: skip
    plain = Read(DebeziumFormat(), messages(values))
    assert plain.types == {
        "id": "BIGINT",
        "amount": "STRING",
        "created": "BIGINT",
        "raw": "STRING",
        "day": "BIGINT",
        "big": "STRING",
    }


def test_an_update_of_a_table_without_a_key_needs_the_row_before() -> None:
    values = [text(envelope("u", None, {"a": 1})), text(envelope("u", {"a": 0}, {"a": 1}))]
    found = Read(DebeziumFormat(), messages(values))
    assert found.unreadable == {0: "an update without the row before, of a table without a key"}
    assert found.images == [("-U", {"a": 0}), ("+U", {"a": 1})]


def test_a_statement_of_maxwell_that_is_no_json_is_a_message_that_cannot_be_read() -> None:
    value = maxwell("table-drop", {}, sql="drop table orders").replace(b"drop table", b"drop \\q table")
    found = Read(MaxwellFormat(), messages([value, maxwell("insert", {"id": 1})]))
    assert found.unreadable.keys() == {0}
    assert (found.reading.statements, found.messages) == ([], [1])
    odd = {"database": "shop", "table": "orders", "columns": 7.5}
    sql = "alter table orders drop column a"
    value = maxwell("table-alter", {}, odd, sql=sql, **{"def": odd})
    assert [item.sql for item in Read(MaxwellFormat(), messages([value])).reading.statements] == [sql]
