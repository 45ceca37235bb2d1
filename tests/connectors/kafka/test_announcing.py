"""Schema changes among the rows, on a real broker: in order, each once, whatever dies in between."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka_servers import KafkaServer

from cdc.schema import (
    AddColumn,
    Column,
    CreateTable,
    DataType,
    SourceStatement,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import FailAt, ListSource, block, run_in_memory
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka
TABLE = TableId("shop", "orders")
OLD = TableSchema((Column("id", DataType.parse("INT"), False),), ("id",))
NEW = replace(OLD, columns=(*OLD.columns, Column("n", DataType.parse("INT"))))


def said(sql: str, begin: int) -> SourceStatement:
    return SourceStatement(sql, "binlog.000001", begin, begin + 9, 1_700_000_000_000, 1)


def published(broker: KafkaServer, folder: Path, value_format: str, name: str, **options: Any) -> None:
    """A run that dies twice: once before the batch of a schema change is decided, once right after the decision."""
    items = [
        CreateTable(TABLE, OLD, statement=said("CREATE TABLE orders (id INT PRIMARY KEY)", 4)),
        block(TABLE, OLD, [("+I", {"id": 1})], sequence=10),
        AddColumn(TABLE, NEW.columns[1], statement=said("ALTER TABLE orders ADD n INT", 20)),
        FailAt.PREPARED,
        block(TABLE, NEW, [("+I", {"id": 2, "n": 3})], sequence=30),
        TruncateTable(TABLE, statement=said("TRUNCATE orders", 40)),
        FailAt.DECIDED,
        block(TABLE, NEW, [("+I", {"id": 4, "n": 5})], sequence=50),
    ]
    wanted = {
        "type": "kafka", "properties.bootstrap.servers": broker.bootstrap, "value.format": value_format, **options
    }  # fmt: skip
    sink = KafkaSink(KafkaSinkOptions.model_validate(wanted), Context(name, LocalStore(folder)))
    run_in_memory(ListSource(items), sink)


def told(broker: KafkaServer, topic: str) -> list[Any]:
    return [json.loads(message.value()) for message in broker.read(topic)]


def test_statements_stand_among_the_rows(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    name = kafka_broker.new_name("inline")
    options = {"sink.schema-changes": "inline", "topic": name, "topic.create.partitions": 1}
    published(kafka_broker, tmp_path, "canal-json", name, **options)
    found = [each["sql"] or each["data"][0]["id"] for each in told(kafka_broker, name)]
    create, alter = "CREATE TABLE orders (id INT PRIMARY KEY)", "ALTER TABLE orders ADD n INT"
    assert found == [create, "1", alter, "2", "TRUNCATE orders", "4"]


def test_statements_have_a_topic_of_their_own(kafka_broker: KafkaServer, tmp_path: Path) -> None:
    name = kafka_broker.new_name("own")
    options = {
        "sink.schema-changes": "topic", "topic.prefix": name, "topic.create.partitions": 3,
        "debezium-json.skipped.operations": "none",
    }  # fmt: skip
    published(kafka_broker, tmp_path, "debezium-json", name, **options)
    changes = [(each["tableChanges"][0]["type"], each["source"]["pos"]) for each in told(kafka_broker, name)]
    assert changes == [("CREATE", 4), ("ALTER", 20)]
    rows = sorted(each["source"]["pos"] for each in told(kafka_broker, f"{name}.{TABLE}") if each["op"] == "t")
    assert rows == [40]
    assert len(kafka_broker.admin().list_topics(name, timeout=60).topics[name].partitions) == 1
