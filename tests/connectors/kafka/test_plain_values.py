"""Rows as plain JSON, where no recording says what they are."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError
from together import together

from cdc.block import ChangeBlock, Stream, arrow_schema
from cdc.errors import SinkError
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.testing.blocks import block
from connectors.kafka.encoding import flink, maxwell, plain
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.formats import layout_of
from connectors.kafka.encoding.layout import MessageLayout
from connectors.kafka.sink_options import KafkaSinkOptions

TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    (Column("id", DataType(Kind.INT), False), Column("doc", DataType(Kind.JSON), source_type="json")), ("id",)
)


def written(layout: MessageLayout, found: ChangeBlock) -> list[tuple[Any, Any]]:
    """Key and value of each message."""
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 0)
    return [
        (_read(record.get("key")), _read(record.get("value")))
        for messages in encoder.encode(found)
        for record in messages.records
    ]


def _read(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def test_rows_of_a_snapshot_are_maxwells_bootstrap() -> None:
    found = replace(
        block(TABLE, SCHEMA, [("+I", {"id": 1, "doc": '{"a": [1]}'})]), streams=frozenset({Stream.SNAPSHOT_ROWS})
    )
    ((key, value),) = written(maxwell.layout(TABLE, SCHEMA), found)
    assert key == {"database": "shop", "table": "orders", "pk.id": 1}
    assert (value["type"], value["data"]) == ("bootstrap-insert", {"id": 1, "doc": {"a": [1]}})


def test_a_plain_row_is_the_value_and_a_delete_has_none() -> None:
    first, second, moved = ({"id": number, "doc": doc} for number, doc in ((1, "1"), (1, "null"), (2, "null")))
    changes = [("+I", first), ("-U", first), ("+U", second), ("-U", second), ("+U", moved), ("-D", moved)]
    assert written(plain.layout(SCHEMA), block(TABLE, SCHEMA, changes)) == [
        ({"id": 1}, {"id": 1, "doc": 1}), ({"id": 1}, {"id": 1, "doc": None}), ({"id": 1}, None),
        ({"id": 2}, {"id": 2, "doc": None}), ({"id": 2}, None),
    ]  # fmt: skip


def test_plain_rows_say_that_instants_are_utc() -> None:
    at = datetime(2026, 11, 20, 12, 34, 56, 789000)
    kinds = {"local": DataType(Kind.TIMESTAMP, 3), "utc": DataType(Kind.TIMESTAMP_LTZ, 3)}
    schema = TableSchema(tuple(Column(name, kind) for name, kind in kinds.items()))
    found = block(TABLE, schema, [("+I", {"local": at, "utc": at.replace(tzinfo=UTC)})])
    assert written(plain.layout(schema), found) == [
        (None, {"local": "2026-11-20 12:34:56.789", "utc": "2026-11-20T12:34:56.789Z"})
    ]


@pytest.mark.parametrize("changes", [[("-D", {"n": 1})], [("-U", {"n": 1}), ("+U", {"n": 2})]])
def test_plain_rows_of_a_table_without_a_key_can_only_be_inserted(changes: list[tuple[str, dict[str, Any]]]) -> None:
    schema = TableSchema((Column("n", DataType(Kind.INT)),))
    assert written(plain.layout(schema), block(TABLE, schema, [("+I", {"n": 1})])) == [(None, {"n": 1})]
    with pytest.raises(SinkError, match=r"shop\.orders: rows of a table without a key were updated or deleted"):
        written(plain.layout(schema), block(TABLE, schema, changes))


@together("value_format", ["debezium-json", "canal-json", "maxwell-json", "json"])
def test_a_key_as_csv_has_the_table_and_the_values(value_format: str) -> None:
    kinds = {"id": DataType(Kind.BIGINT), "name": DataType(Kind.VARCHAR, 20), "raw": DataType(Kind.VARBINARY, 9)}
    schema = TableSchema(tuple(Column(name, kind, False) for name, kind in kinds.items()), ("id", "name", "raw"))
    table = TableId("shop", 'a"b')
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "key.format": "csv", "value.format": value_format}
    layout = layout_of(table, schema, KafkaSinkOptions.model_validate(given), "1")
    found = block(table, schema, [("+I", {"id": -7, "name": 'O"Hara, é\n', "raw": b'"\xff'})])
    ((record,),) = [messages.records for messages in Encoder(layout, tombstones=True, now_ms=lambda: 0).encode(found)]
    key = record["key"]
    ((name, number, *rest),) = csv.reader(io.StringIO(key.decode(), newline=""))
    assert (name, number, rest) == ('shop.a"b', "-7", ['O"Hara, é\n', "Iv8="])


@together(
    "value_format",
    ["debezium-json", "canal-json", "maxwell-json", "json", "debezium-json-flink", "canal-json-flink"],
)
def test_numbers_that_json_lacks_are_words_as_java_writes_them(value_format: str) -> None:
    kinds = {"d": DataType(Kind.DOUBLE), "f": DataType(Kind.FLOAT), "v": DataType(Kind.VECTOR, 2)}
    schema = TableSchema(tuple(Column(name, kind, name != "d") for name, kind in kinds.items()), ("d",))
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "value.format": value_format}
    layout = layout_of(TABLE, schema, KafkaSinkOptions.model_validate(given), "1")
    rows = [
        {"d": math.nan, "f": -math.inf, "v": [1.0, math.nan]},
        {"d": -math.inf, "f": math.nan, "v": [math.inf, -0.0]},
        {"d": 1.7976931348623157e308, "f": math.inf, "v": None},
    ]
    found = written(layout, block(TABLE, schema, [("+I", row) for row in rows]))
    values = [value.get("after") or value.get("data") or value for _, value in found]
    read = [value[0] if isinstance(value, list) else value for value in values]
    numbers = [[float(row["d"]), float(row["f"])] for row in read]
    assert repr(numbers) == "[[nan, -inf], [-inf, nan], [1.7976931348623157e+308, inf]]"
    assert (read[0]["d"], read[0]["f"]) == ("NaN", "-Infinity")
    vectors = [json.loads(each) if isinstance(each, str) else each for each in (read[0]["v"], read[1]["v"])]
    assert repr([[float(item) for item in each] for each in vectors]) == "[[1.0, nan], [inf, -0.0]]"
    assert [float(next(reversed(key.values()))) for key, _ in found][1:] == [-math.inf, 1.7976931348623157e308]


FAR = [  # days and microseconds since 1970, and their texts
    (2_932_896, 253_402_300_799_999_999, "9999-12-31", "9999-12-31T23:59:59.999999"),
    (2_932_897, 253_402_300_800_000_000, "+10000-01-01", "+10000-01-01T00:00:00.000000"),
    (-719_528, -62_167_219_200_000_000, "0000-01-01", "0000-01-01T00:00:00.000000"),
    (-719_529, -62_167_219_200_000_001, "-0001-12-31", "-0001-12-31T23:59:59.999999"),
    (2**31 - 1, 2**63 - 1, "+5881580-07-11", "+294247-01-10T04:00:54.775807"),
    (-(2**31), -(2**63) + 1, "-5877641-06-23", "-290308-12-21T19:59:05.224193"),
]


@together("value_format", ["json", "canal-json", "debezium-json-flink"])
def test_years_beyond_four_digits_have_a_sign_as_java_writes_them(value_format: str) -> None:
    kinds = {"day": DataType(Kind.DATE), "at": DataType(Kind.TIMESTAMP, 6), "instant": DataType(Kind.TIMESTAMP_LTZ, 6)}
    schema = TableSchema(tuple(Column(name, kind) for name, kind in kinds.items()), ("day",))
    arrow = arrow_schema(schema)
    days, moments = pa.array([row[0] for row in FAR], pa.int32()), pa.array([row[1] for row in FAR], pa.int64())
    columns = [days.view(arrow.field(0).type), moments.view(arrow.field(1).type), moments.view(arrow.field(2).type)]
    row = {"day": date(2026, 1, 1), "at": None, "instant": None}
    found = replace(
        block(TABLE, schema, [("+I", row)] * len(FAR)), rows=pa.RecordBatch.from_arrays(columns, schema=arrow)
    )
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "value.format": value_format}
    layout = layout_of(TABLE, schema, KafkaSinkOptions.model_validate(given), "1")
    read = [value.get("after") or value.get("data") or value for _, value in written(layout, found)]
    texts = [each[0] if isinstance(each, list) else each for each in read]
    assert [each["day"] for each in texts] == [day for *_, day, _ in FAR]
    assert [each["at"] for each in texts] == [at.replace("T", " ") for *_, at in FAR]
    assert [each["instant"].replace(" ", "T").rstrip("Z") for each in texts] == [at for *_, at in FAR]


def test_a_table_without_a_key_has_none_as_csv_either() -> None:
    schema = TableSchema((Column("n", DataType(Kind.INT)),))
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "key.format": "csv"}
    assert layout_of(TABLE, schema, KafkaSinkOptions.model_validate(given), "1").key is None


def test_messages_have_the_headers_that_were_asked_for() -> None:
    given = {
        "type": "kafka", "properties.bootstrap.servers": "h:1", "sink.add-tableId-to-header-enabled": "true",
        "sink.custom-header": "region:eu, team : a:b",
    }  # fmt: skip
    options = KafkaSinkOptions.model_validate(given)
    wanted = [
        ("namespace", b""),
        ("schemaName", b"shop"),
        ("tableName", b"orders"),
        ("region", b"eu"),
        ("team", b"a:b"),
    ]
    layout = layout_of(TABLE, SCHEMA, options, "1")
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 0, headers=options.headers(TABLE))
    found = block(TABLE, SCHEMA, [("-U", {"id": 1}), ("+U", {"id": 2})])
    (messages,) = encoder.encode(found)
    old, new = ("__debezium.newkey", b'{"id":2}'), ("__debezium.oldkey", b'{"id":1}')
    assert messages.headers == {0: [*wanted, old], 1: [*wanted, old], 2: [*wanted, new]}


@together(
    "text, wanted",
    [("a:b,c:d", {"a": b"b", "c": b"d"}), ("a:b,c;d:e", {"a": b"b,c", "d": b"e"}), ("", {}), ("a:", {"a": b""})],
)
def test_headers_are_separated_by_commas_or_by_semicolons(text: str, wanted: dict[str, bytes]) -> None:
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "sink.custom-header": text}
    assert dict(KafkaSinkOptions.model_validate(given).headers(TABLE)) == wanted


@together("text", ["a", "a:b,c", ":b"])
def test_a_header_without_a_name_or_a_value_is_refused(text: str) -> None:
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "sink.custom-header": text}
    with pytest.raises(ValidationError, match="must be name:value"):
        KafkaSinkOptions.model_validate(given)


STOCK = TableSchema(
    (
        Column("id", DataType(Kind.INT), False), Column("price", DataType(Kind.DECIMAL, 10, 2)),
        Column("day", DataType(Kind.DATE)), Column("at", DataType(Kind.TIMESTAMP_LTZ, 0)),
        Column("bits", DataType(Kind.BINARY, 2), source_type="bit(12)"), Column("on", DataType(Kind.BOOLEAN)),
    ),
    ("id",),
)  # fmt: skip
OLD = {
    "id": 7, "price": Decimal("1.50"), "day": date(1970, 4, 11), "at": datetime(2023, 1, 1, tzinfo=UTC),
    "bits": b"\x01\x02", "on": True,
}  # fmt: skip
OLD_AS_JSON = {
    "id": 7, "price": 1.5, "day": "1970-04-11", "at": "2023-01-01 00:00:00Z", "bits": "AgE=", "on": True,
}  # fmt: skip
CHANGES = [("+I", OLD), ("-U", OLD), ("+U", {"id": 8}), ("-D", {"id": 8})]
NEW_AS_JSON = {"id": 8, **dict.fromkeys(("price", "day", "at", "bits", "on"))}
KEYS = [{"TableId": "shop.orders", "id": number} for number in (7, 8, 8)]


def test_flink_cdcs_debezium_messages() -> None:
    source = {"source": {"db": "shop", "table": "orders"}}
    found = replace(block(TABLE, STOCK, CHANGES), streams=frozenset({Stream.SNAPSHOT_ROWS}))
    assert written(flink.debezium(TABLE, STOCK), found) == [
        (KEYS[0], {"before": None, "after": OLD_AS_JSON, "op": "c", **source}),
        (KEYS[1], {"before": OLD_AS_JSON, "after": NEW_AS_JSON, "op": "u", **source}),
        (KEYS[2], {"before": NEW_AS_JSON, "after": None, "op": "d", **source}),
    ]


def test_flink_cdcs_canal_messages() -> None:
    table = {"database": "shop", "table": "orders", "pkNames": ["id"]}
    assert written(flink.canal(TABLE, STOCK), block(TABLE, STOCK, CHANGES)) == [
        (KEYS[0], {"old": None, "data": [OLD_AS_JSON], "type": "INSERT", **table}),
        (KEYS[1], {"old": [OLD_AS_JSON], "data": [NEW_AS_JSON], "type": "UPDATE", **table}),
        (KEYS[2], {"old": None, "data": [NEW_AS_JSON], "type": "DELETE", **table}),
    ]


def test_flink_cdcs_key_of_a_table_without_one_is_the_table() -> None:
    schema = TableSchema((Column("n", DataType(Kind.INT)),))
    ((key, _),) = written(flink.canal(TABLE, schema), block(TABLE, schema, [("+I", {"n": 1})]))
    assert key == {"TableId": "shop.orders"}
    given = {
        "type": "kafka", "properties.bootstrap.servers": "h:1", "key.format": "csv", "value.format": "canal-json-flink",
    }  # fmt: skip
    assert layout_of(TABLE, schema, KafkaSinkOptions.model_validate(given), "1").key == (b'"shop.orders"',)


def test_flink_cdcs_debezium_messages_have_no_schema() -> None:
    given = {
        "type": "kafka", "properties.bootstrap.servers": "h:1", "value.format": "debezium-json-flink",
        "debezium-json.include-schema.enabled": True,
    }  # fmt: skip
    (remark,) = KafkaSinkOptions.model_validate(given).problems()
    assert "debezium-json has values that obey it" in str(remark)


@together(
    "text, transactional",
    [
        ("exactly_once", True),
        ("EXACTLY-ONCE", True),
        ("AT_LEAST_ONCE", False),
        ("at-least-once", False),
        ("none", False),
    ],
)
def test_a_sink_of_flink_cdc_is_taken_as_it_is(text: str, transactional: bool) -> None:
    given = {
        "type": "kafka", "name": "Kafka Sink", "properties.bootstrap.servers": "h:1", "properties.linger.ms": "5",
        "value.format": "canal-json", "key.format": "csv", "partition.strategy": "all-to-zero", "topic": "all",
        "sink.tableId-to-topic.mapping": "shop.orders:orders;shop.\\.*:rest", "sink.delivery-guarantee": text,
        "sink.add-tableId-to-header-enabled": "true", "sink.custom-header": "region:eu;team:orders",
        "debezium-json.include-schema.enabled": "true",
    }  # fmt: skip
    options = KafkaSinkOptions.model_validate(given)
    assert list(options.problems()) == []
    assert options.transactional() is transactional


def test_bytes_that_are_no_shape_stop_the_run_with_the_columns_name() -> None:
    schema = TableSchema((Column("id", DataType(Kind.INT), False), Column("at", DataType(Kind.GEOMETRY))), ("id",))
    found = block(TABLE, schema, [("+I", {"id": 1, "at": b"\0\0\0\0\1"})])
    with pytest.raises(SinkError, match="column at GEOMETRY: 5 bytes that are not a shape"):
        written(maxwell.layout(TABLE, schema), found)


@together("value_format", ["debezium-json", "canal-json", "maxwell-json", "json", "debezium-json-flink"])
@together("value, text", [(7.0, "7.0"), (-0.0, "-0.0"), (1e15, "1000000000000000.0"), (1.5, "1.5"), (1e300, "1e300")])
def test_a_double_has_a_point_or_an_exponent(value_format: str, value: float, text: str) -> None:
    """Debezium, Canal and Maxwell write `7.0`: readers that tell types by values take `7` for a whole number."""
    schema = TableSchema((Column("id", DataType(Kind.INT), False), Column("d", DataType(Kind.DOUBLE))), ("id",))
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "value.format": value_format}
    layout = layout_of(TABLE, schema, KafkaSinkOptions.model_validate(given), "1")
    found = block(TABLE, schema, [("+I", {"id": 1, "d": value})])
    ((record,),) = [messages.records for messages in Encoder(layout, tombstones=True, now_ms=lambda: 0).encode(found)]
    written, *_ = re.findall(r'"d":"?(-?[0-9][^,"}]*)', record["value"].decode())
    assert (written.lower(), float(written)) == (text, value)
