"""Debezium's messages with Connect's schema: kinds of changes, every type, what cannot be read."""

from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from debezium_messages import INT64, TEXT, envelope, key_with_schema, logical, text, with_schema
from read_messages import Read, messages
from together import together

from cdc.schema import TableId, TruncateTable
from connectors.kafka.formats.blocks import Columns
from connectors.kafka.formats.convert import BadValue
from connectors.kafka.formats.debezium import DebeziumFormat
from connectors.kafka.formats.fields import decoded

FIELDS = {"id": INT64, "name": TEXT}
KEY = {"id": INT64}


def change(op: str, before: dict | None, after: dict | None, **more: object) -> bytes:
    return with_schema(FIELDS, envelope(op, before, after, **more), required=("id",))


def key(number: int) -> bytes:
    return key_with_schema(KEY, {"id": number})


def test_kinds_of_changes() -> None:
    values = [
        change("r", None, {"id": 1, "name": "a"}),
        change("c", None, {"id": 2, "name": "ü\n\"😀"}),
        change("u", {"id": 1, "name": "a"}, {"id": 1, "name": None}),
        change("d", {"id": 2, "name": "b"}, None),
        None,
    ]  # fmt: skip
    found = Read(DebeziumFormat(), messages(values, [key(1), key(2), key(1), key(2), key(2)]))
    assert found.schemas.keys() == {TableId("shop", "orders")}
    assert found.schema.primary_key == ("id",)
    assert found.images == [
        ("+I", {"id": 1, "name": "a"}),
        ("+I", {"id": 2, "name": "ü\n\"😀"}),
        ("-U", {"id": 1, "name": "a"}),
        ("+U", {"id": 1, "name": None}),
        ("-D", {"id": 2, "name": "b"}),
    ]  # fmt: skip
    assert found.messages == [0, 1, 2, 2, 3]
    assert set(found.times) == {1_700_000_000_000}
    assert not found.unreadable


def test_rows_before_that_are_missing() -> None:
    """PostgreSQL sends the row before only where REPLICA IDENTITY says so: the key finds the row."""
    values = [change("u", None, {"id": 1, "name": "b"}), change("d", None, None)]
    found = Read(DebeziumFormat(), messages(values, [key(1), key(7)]))
    assert found.images == [("+U", {"id": 1, "name": "b"}), ("-D", {"id": 7, "name": None})]


def test_a_key_that_is_half_of_one_with_a_schema_names_no_row() -> None:
    values = [change("c", None, {"id": 1, "name": "a"}), change("d", None, None)]
    found = Read(DebeziumFormat(), messages(values, [key(1), text({"payload": {"id": 1}})]))
    assert (found.messages, found.unreadable.keys()) == ([0], {1})


def test_keys_with_a_schema_that_is_none_are_keys_of_the_rows_before() -> None:
    odd = text({"schema": {"type": "int64"}, "payload": {"id": 1}})
    given = messages([change("c", None, {"id": 1, "name": "a"}), None, None], [key(1), odd, odd])
    reading = DebeziumFormat().read(given, TableId("shop", "orders"))
    assert [group.images.messages.tolist() for group in reading.groups] == [[0, 1, 2]]


def test_a_delete_of_nothing_known_is_refused() -> None:
    found = Read(DebeziumFormat(), messages([change("c", None, {"id": 1, "name": "a"}), change("d", None, None)]))
    assert found.unreadable == {1: "a delete with neither the row before nor a key to find it by"}
    assert len(found.images) == 1


def test_tables_and_schemas_take_turns() -> None:
    wider = {**FIELDS, "qty": INT64}
    values = [
        change("c", None, {"id": 1, "name": "a"}),
        with_schema(FIELDS, envelope("c", None, {"id": 5, "name": "x"}, table="shop.items")),
        with_schema(wider, envelope("c", None, {"id": 2, "name": "b", "qty": 3})),
        change("c", None, {"id": 3, "name": "c"}),
    ]
    found = Read(DebeziumFormat(), messages(values))
    orders = [row for _, row in found.images if "qty" in row]
    assert orders == [
        {"id": 1, "name": "a", "qty": None},
        {"id": 2, "name": "b", "qty": 3},
        {"id": 3, "name": "c", "qty": None},
    ]
    assert found.schemas[TableId("shop", "items")].names == ("id", "name")


TYPES = [
    ({"type": "int16"}, -5, "SMALLINT", -5),
    ({"type": "int64"}, -(2**63), "BIGINT", -(2**63)),
    ({"type": "boolean"}, True, "BOOLEAN", True),
    ({"type": "float"}, 1.5, "FLOAT", 1.5),
    ({"type": "double"}, -1.7976931348623157e308, "DOUBLE", -1.7976931348623157e308),
    ({"type": "bytes"}, "AP8=", "BYTES", b"\0\xff"),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="2", connect_decimal_precision="10"), "7Sl5",
     "DECIMAL(10, 2)", Decimal("-12345.67")),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="30", connect_decimal_precision="65"),
     "HgK8HpeFi9xsuVBY80JNfTp/7HsD4maOPwrS", "DECIMAL(65, 30)",
     "12345678901234567890123456789012345.123456789012345678901234567890"),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="2", connect_decimal_precision="10"), 1234,
     "DECIMAL(10, 2)", Decimal("1234.00")),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="-2", connect_decimal_precision="5"), "z8c=",
     "DECIMAL(7, 0)", Decimal("-1234500")),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="-2"), 1.23e4, "DECIMAL(38, 0)", Decimal(12300)),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="-40"), "BQ==", "DECIMAL(41, 0)", f"5{'0' * 40}"),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="5", connect_decimal_precision="2"), "Yw==",
     "DECIMAL(5, 5)", Decimal("0.00099")),
    (logical("bytes", "org.apache.kafka.connect.data.Decimal", scale="127"), "+w==", "STRING", f"-0.{'0' * 126}5"),
    (logical("bytes", "io.debezium.data.Bits", length="12"), "gQE=", "BINARY(2)", b"\x01\x81"),
    (logical("bytes", "io.debezium.data.Bits", length="2147483647"), "gQEC", "BYTES", b"\x02\x01\x81"),
    (logical("int32", "io.debezium.time.Date"), -354285, "DATE", date(1000, 1, 1)),
    (logical("int32", "org.apache.kafka.connect.data.Time"), 45296789, "TIME(3)", timedelta(seconds=45296.789)),
    (logical("int64", "io.debezium.time.MicroTime"), -45296789012, "TIME(6)", timedelta(microseconds=-45296789012)),
    (logical("int64", "io.debezium.time.Timestamp"), 1795178096789, "TIMESTAMP(3)",
     datetime(2026, 11, 20, 12, 34, 56, 789000)),
    (logical("int64", "io.debezium.time.MicroTimestamp"), 1795178096789012, "TIMESTAMP(6)",
     datetime(2026, 11, 20, 12, 34, 56, 789012)),
    (logical("int64", "io.debezium.time.NanoTimestamp"), 1795178096789012345, "TIMESTAMP(6)",
     datetime(2026, 11, 20, 12, 34, 56, 789012)),
    (logical("string", "io.debezium.time.ZonedTimestamp"), "2026-11-20T14:34:56.789+02:00", "TIMESTAMP_LTZ(6)",
     datetime(2026, 11, 20, 12, 34, 56, 789000, UTC)),
    (logical("string", "io.debezium.time.ZonedTimestamp"), "2026-11-20 12:34:56-0130", "TIMESTAMP_LTZ(6)",
     datetime(2026, 11, 20, 14, 4, 56, 0, UTC)),
    (logical("string", "io.debezium.time.ZonedTimestamp"), "2026-11-20 12:34:56.5+02", "TIMESTAMP_LTZ(6)",
     datetime(2026, 11, 20, 10, 34, 56, 500000, UTC)),
    (logical("int32", "io.debezium.time.Year"), 2026, "INT", 2026),
    (logical("string", "io.debezium.data.EnumSet", allowed="x,y"), "x,y", "STRING", "x,y"),
    (logical("string", "io.debezium.data.Json"), '{"a": 1}', "JSON", '{"a": 1}'),
    (logical("struct", "io.debezium.data.VariableScaleDecimal"), {"scale": 3, "value": "/h3A"}, "STRING", "-123.456"),
    (logical("struct", "io.debezium.data.VariableScaleDecimal"), {"scale": -2, "value": "BQ=="}, "STRING", "500"),
    (logical("struct", "io.debezium.data.geometry.Geometry"), {"wkb": "AQE=", "srid": 4326}, "GEOMETRY",
     b"\xe6\x10\0\0\x01\x01"),
    (logical("struct", "io.debezium.data.geometry.Geography"), {"wkb": "AQcAACDmEAAAAAAAAA==", "srid": 4326},
     "GEOMETRY", b"\xe6\x10\0\0\x01\x07\0\0\0\0\0\0\0"),
    (logical("array", "io.debezium.data.FloatVector"), [1.0, 2.5], "VECTOR(2048)", [1.0, 2.5]),
    ({"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}}, -1, "BIGINT UNSIGNED",
     2**64 - 1),
    ({"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED ZEROFILL"}}, -1,
     "BIGINT UNSIGNED", 2**64 - 1),
    ({"type": "int64", "parameters": {"__debezium.source.column.type": "INT8 UNSIGNED"}}, -2, "BIGINT UNSIGNED",
     2**64 - 2),
    ({"type": "int64", "parameters": {"__debezium.source.column.type": "INTEGER UNSIGNED"}}, 5, "INT UNSIGNED", 5),
    ({"type": "int64", "parameters": {"__debezium.source.column.type": "BIGSERIAL"}}, -1, "BIGINT", -1),
    ({"type": "array", "items": {"type": "int32"}}, [1, 2], "JSON", "[1,2]"),
]  # fmt: skip


@together("about, written, data_type, value", TYPES)
def test_types(about: dict, written: object, data_type: str, value: object) -> None:
    fields = {"id": INT64, "c": about}
    rows = [{"id": 1, "c": written}, {"id": 2, "c": None}]
    found = Read(DebeziumFormat(), messages([with_schema(fields, envelope("c", None, row)) for row in rows]))
    assert found.types["c"] == data_type
    assert [row["c"] for _, row in found.images] == [value, None]


def test_values_that_cannot_be_read_are_left_out_with_the_reason() -> None:
    fields = {"id": INT64, "c": logical("string", "io.debezium.time.ZonedTimestamp")}
    rows = [{"id": 1, "c": "2026-01-01T00:00:00Z"}, {"id": 2, "c": "soon"}, {"id": 3, "c": None}]
    found = Read(DebeziumFormat(), messages([with_schema(fields, envelope("c", None, row)) for row in rows]))
    assert found.unreadable == {1: "column c: 'soon' is no date or time"}
    assert [row["id"] for _, row in found.images] == [1, 3]
    fields["c"] = logical("bytes", "io.debezium.data.Bits", length="12")
    found = Read(DebeziumFormat(), messages([with_schema(fields, envelope("c", None, {"id": 1, "c": 1234}))]))
    assert found.unreadable == {0: "column c: is a number, not bytes as text"}, "its digits are base64, too"
    bits = [{"id": 1, "c": "gQEB"}, {"id": 2, "c": "gQEA"}]
    found = Read(DebeziumFormat(), messages([with_schema(fields, envelope("c", None, row)) for row in bits]))
    assert found.unreadable == {0: "column c: has more bits than its type"}
    assert found.images == [("+I", {"id": 2, "c": b"\x01\x81"})], "leading zeros are no bits"
    fields["c"] = logical("struct", "io.debezium.data.geometry.Geometry")
    shapes = [None, {"wkb": "AQE=", "srid": 1}, {"wkb": "AQE=", "srid": 2**40}, {"wkb": "AQE=", "srid": [1]}, 7]
    values = [with_schema(fields, envelope("c", None, {"id": id_, "c": shape})) for id_, shape in enumerate(shapes)]
    found = Read(DebeziumFormat(), messages(values))
    assert found.unreadable == dict.fromkeys((2, 3, 4), "column c: is not a geometry")
    assert [row["c"] for _, row in found.images] == [None, b"\1\0\0\0\1\1"]


INFINITY, LAST = 9223372036825200000, 2**63 - 1
FAR_MOMENTS: list[tuple[str, object, int | None]] = [
    ("io.debezium.time.Timestamp", INFINITY // 1000, LAST),
    ("io.debezium.time.Timestamp", INFINITY, LAST),
    ("org.apache.kafka.connect.data.Timestamp", -9223372036832400000, -LAST),
    ("io.debezium.time.Timestamp", -(2**63), None),
    ("io.debezium.time.Timestamp", LAST // 1000 + 1, None),
    ("io.debezium.time.MicroTimestamp", LAST, LAST),
    ("io.debezium.time.MicroTimestamp", -9223372036832400000, -LAST),
    ("io.debezium.time.NanoTimestamp", LAST, LAST),
    ("io.debezium.time.NanoTimestamp", -(2**63), -LAST),
    ("io.debezium.time.NanoTimestamp", LAST - 1, LAST // 1000),
    ("io.debezium.time.ZonedTimestamp", "infinity", LAST),
    ("io.debezium.time.ZonedTimestamp", "-infinity", -LAST),
    ("io.debezium.time.ZonedTimestamp", "+infinity", None),
    ("io.debezium.time.ZonedTimestamp", "+10000-01-01T00:00:00Z", 253_402_300_800_000_000),
    ("io.debezium.time.ZonedTimestamp", "-0001-12-31T23:59:59.999999Z", -62_167_219_200_000_001),
    ("io.debezium.time.ZonedTimestamp", "+294247-01-10T04:00:54.775807Z", LAST),
    ("io.debezium.time.ZonedTimestamp", "+294247-01-10T04:00:54.775807-00:01", None),
    ("io.debezium.time.ZonedTimestamp", "-290308-12-21T19:59:05.224193Z", -LAST),
    ("io.debezium.time.ZonedTimestamp", "-290308-12-21T19:59:05.224192Z", None),
    ("io.debezium.time.ZonedTimestamp", "+1000000-01-01T00:00:00Z", None),
    ("io.debezium.time.ZonedTimestamp", "2026-01-01T00:00:00+5", None),
    ("io.debezium.time.ZonedTimestamp", "2026-01-01T00:00:00+05.30", None),
    ("io.debezium.time.ZonedTimestamp", "2026-01-01T00:00:00+05:30:00", None),
]  # fmt: skip
"""A type, a value of it, and its microseconds; None for one that cannot be read."""


@together("name, written, micros", FAR_MOMENTS)
def test_moments_beyond_the_years_of_a_calendar(name: str, written: object, micros: int | None) -> None:
    fields = {"id": INT64, "c": logical("int64" if isinstance(written, int) else "string", name)}
    given = messages([with_schema(fields, envelope("c", None, {"id": 1, "c": written}))])
    (group,) = DebeziumFormat().read(given).groups
    (field,) = [item for item in group.fields or () if item.name == "c"]
    cells = Columns(group.images, ("c",)).cells("c")
    with nullcontext() if micros is not None else pytest.raises(BadValue):
        found = decoded(field, cells, field.type, lambda reason, number: None)
        assert found.cast(pa.int64()).to_pylist() == [micros]


def test_impossible_dates_are_null_and_counted() -> None:
    fields = {"id": INT64, "c": logical("string", "io.debezium.time.IsoTimestamp")}
    found = Read(DebeziumFormat(), messages([with_schema(fields, envelope("c", None, {"id": 1, "c": "2026-02-30"}))]))
    assert found.images == [("+I", {"id": 1, "c": None})]
    assert found.counts == {"invalid-date-to-null shop.orders.c": 1}


@together(
    "value, reason",
    [
        (b"hello", "no JSON object (byte 0)"),
        (b'{"op":"c"', "no JSON object (byte 9)"),
        (
            b'{"a":1}',
            "neither a change nor a note of Debezium: it has no `op` (rows without an envelope are value.format: json)",
        ),
        (text(envelope("c", None, None)), "op 'c' without a row is not applied"),
    ],
)
def test_messages_that_cannot_be_read(value: bytes, reason: str) -> None:
    good = change("c", None, {"id": 1, "name": "a"})
    found = Read(DebeziumFormat(), messages([good, value, good]))
    assert found.unreadable == {1: reason}
    assert found.messages == [0, 2]


def test_a_truncate_is_a_statement_and_can_be_read() -> None:
    ddl = text({"source": {"db": "shop"}, "databaseName": "shop", "ddl": "create table t (a int)", "tableChanges": []})
    good, other = change("c", None, {"id": 1, "name": "a"}), text(envelope("t", None, None, table="shop.items"))
    found = Read(DebeziumFormat(), messages([good, text(envelope("t", None, None)), other, ddl, good]))
    assert (found.unreadable, found.messages) == ({}, [0, 4])
    assert [(item.message, item.changes) for item in found.reading.statements] == [
        (1, (TruncateTable(TableId("shop", "orders")),)), (2, (TruncateTable(TableId("shop", "items")),)), (3, ()),
    ]  # fmt: skip


def test_notes_without_rows_are_passed_over() -> None:
    values = [
        text({"status": "BEGIN", "id": "x:1", "event_count": None, "data_collections": None, "ts_ms": 1}),
        text({"ts_ms": 1}),
        text({"source": {"db": "shop"}, "databaseName": "shop", "ddl": "drop table t", "tableChanges": []}),
    ]
    found = Read(DebeziumFormat(), messages(values))
    assert (found.images, found.unreadable) == ([], {})
    assert [statement.sql for statement in found.reading.statements] == ["drop table t"]
