"""Debezium's messages in Avro: the values of the JSON messages, and schemas that say the same as Debezium's own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from recorded import blocks, theirs
from schema_registry import SchemaRegistry
from together import together

from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.errors import SinkError
from cdc.retry import RetryPolicy
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from connectors.kafka.avro.registry import Registry, RegistrySettings
from connectors.kafka.avro.schemas import program
from connectors.kafka.avro.unwrapper import WrittenTexts
from connectors.kafka.client import SINK
from connectors.kafka.encoding import avro, debezium
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.layout import MessageLayout, Naming
from connectors.kafka.formats import connect
from connectors.kafka.formats.debezium import row_fields
from connectors.kafka.formats.scan import Texts
from connectors.kafka.modes import EncodingModes
from connectors.kafka.sink_options import KafkaSinkOptions

NAMING = Naming("dbz", "1")


def records(block: ChangeBlock, layout: MessageLayout) -> list[dict[str, bytes]]:
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 1_700_000_000_000)
    return [record for messages in encoder.encode(block) for record in messages.records]


def in_avro(block: ChangeBlock, modes: EncodingModes) -> tuple[list[dict[str, bytes]], dict[int, Any]]:
    """The records, and the schemas by their numbers."""
    schemas: dict[int, Any] = {}

    def register(part: str, schema: Any) -> int:
        schemas[len(schemas) + 1] = schema
        return len(schemas)

    return records(block, avro.layout(block.table, block.schema, NAMING, modes, register)), schemas


def as_json(message: bytes, schemas: dict[int, Any]) -> Any:
    """A message in Avro, as the source reads it."""
    made = program(json.dumps(schemas[int.from_bytes(message[1:5], "big")]), rows=0)
    written = WrittenTexts(len(message), 1)
    assert written.add(made, Texts.of([message]), np.arange(1)) == []
    return json.loads(written.texts([]).bytes_of(0))


@pytest.mark.parametrize("modes", [EncodingModes(), EncodingModes("string", "precise", "hex", "connect")])
def test_messages_hold_what_the_json_messages_hold(modes: EncodingModes) -> None:
    count = 0
    for block in blocks("mysql"):
        found, schemas = in_avro(block, modes)
        wanted = records(block, debezium.layout(block.table, block.schema, NAMING, modes, with_schema=True))
        for ours, theirs_ in zip(found, wanted, strict=True):
            assert ours.keys() == theirs_.keys()
            for part, message in ours.items():
                assert as_json(message, schemas) == json.loads(theirs_[part])["payload"]
                count += 1
    assert count > 40


def test_schemas_say_what_those_that_debezium_registered_say() -> None:
    """Types of columns and keys are equal, and so are the envelopes around them."""
    recorded = [json.loads(line["schema"]) for line in theirs("debezium-avro.jsonl") if "schema_id" in line]
    own = {
        (schema["name"], schema["namespace"]): schema
        for schema in recorded
        if schema["namespace"] in ("dbz.types_db.all_types", "dbz.shop.log_no_key")
    }
    met = 0
    for block in blocks("mysql"):
        for schema in in_avro(block, EncodingModes())[1].values():
            other = own.get((schema["name"], schema["namespace"]))
            if other is not None:
                ours, wanted = program(json.dumps(schema)).connect, program(json.dumps(other)).connect
                learn = row_fields if schema["name"] == "Envelope" else connect.fields_of
                assert learn(ours) == learn(wanted)
                assert [item["field"] for item in ours["fields"]] == [item["field"] for item in wanted["fields"]]
                met += 1
    assert met >= 3


def block(*columns: Column, rows: list[dict[str, Any]]) -> ChangeBlock:
    schema, count = TableSchema(columns, (columns[0].name,)), len(rows)
    return ChangeBlock(
        table=TableId("shop", "my-orders"), schema=schema,
        rows=pa.RecordBatch.from_pylist(rows, arrow_schema(schema)),
        kinds=pa.array([RowKind.INSERT] * count, pa.uint8()), sequence=pa.array(range(count), pa.int64()),
        row=pa.array([0] * count, pa.int32()), timestamps_ms=pa.array([0] * count, pa.int64()),
    )  # fmt: skip


ID = Column("id", DataType(Kind.INT), nullable=False)


def test_names_are_those_that_avro_takes_and_may_not_fall_together() -> None:
    odd = Column("1st price", DataType(Kind.DOUBLE))
    found, schemas = in_avro(block(ID, odd, rows=[{"id": 1, "1st price": 2.5}]), EncodingModes())
    assert as_json(found[0]["value"], schemas)["after"] == {"id": 1, "_1st_price": 2.5}
    assert schemas[1]["namespace"] == "dbz.shop.my_orders"
    with pytest.raises(SinkError, match="a-b and a_b have the same name in Avro"):
        in_avro(block(ID, Column("a-b", odd.type), Column("a_b", odd.type), rows=[]), EncodingModes())


def test_null_where_the_schema_takes_none_stops_the_run() -> None:
    with pytest.raises(SinkError, match="NULL in a column that is NOT NULL"):
        in_avro(
            block(ID, Column("qty", DataType(Kind.INT), nullable=False), rows=[{"id": 1, "qty": None}]), EncodingModes()
        )


@pytest.mark.parametrize(("source_type", "data"), [("point", bytes(4)), ("geometry", b"ab")])
def test_bytes_that_are_no_shape_stop_the_run(source_type: str, data: bytes) -> None:
    place = Column("at", DataType(Kind.GEOMETRY), source_type=source_type)
    with pytest.raises(SinkError, match=f"{len(data)} bytes that are not a shape"):
        in_avro(block(ID, place, rows=[{"id": 1, "at": None}, {"id": 2, "at": data}]), EncodingModes())


def test_a_subject_has_every_version_and_one_that_is_refused_stops_the_run() -> None:
    with SchemaRegistry() as server:
        registry = Registry(RegistrySettings((server.url,)), RetryPolicy(timeout_s=0.0), SINK)
        one = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
        assert registry.register("orders", "value", one) == registry.register("orders", "value", one)
        server.refuses.add("orders-value")
        with pytest.raises(SinkError, match="the schema is refused: HTTP 409") as caught:
            registry.register("orders", "value", {**one, "name": "S"})
        assert "compatibility" in caught.value.hint
    assert server.subjects == {"orders-value": [1]}


@together(
    "more, said",
    [
        ({}, "schema-registry.url is missing"),
        ({"schema-registry.url": "http://h:1", "key.format": "csv"}, "key.format is Avro"),
        (
            {"schema-registry.url": "http://h:1", "debezium-json.decimal.handling.mode": "double"},
            "double is not written",
        ),
        ({"schema-registry.url": "http://h:1", "sink.schema-changes": "topic"}, "schema changes are not written"),
        ({"schema-registry.url": "http://h:1", "value.format": "json"}, "has no effect with value.format: json"),
    ],
)
def test_options_that_mean_nothing_in_avro_are_told(more: dict[str, Any], said: str) -> None:
    given = {"type": "kafka", "properties.bootstrap.servers": "h:1", "value.format": "debezium-avro", **more}
    options = KafkaSinkOptions.model_validate(given)
    assert any(said in f"{remark.key} {remark.message}" for remark in options.problems())
