"""What a run with the Kafka sink finds out before it begins, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_servers import KafkaServer
from schema_registry import SchemaRegistry

from cdc.errors import SinkError, SinkUnavailable
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.state.waits import Waits
from cdc_services.process import free_port
from connectors.kafka import client
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka


def test_a_schema_registry_that_refuses_the_login_is_told_at_the_start(
    kafka_broker: KafkaServer, tmp_path: Path
) -> None:
    with SchemaRegistry(login="me:word") as server:
        sink(kafka_broker, server.url, "me:word", tmp_path).check()
        with pytest.raises(SinkError, match="the login is refused"):
            sink(kafka_broker, server.url, "me:other", tmp_path).check()


def test_a_cluster_or_registry_that_is_away_at_the_start_is_told_at_once(
    kafka_broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with every other sink; they were waited for."""
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(SinkUnavailable, match="registry"):
        sink(kafka_broker, f"http://{nobody}", "me:word", tmp_path, **{"retry-timeout": "3 s"}).check()
    monkeypatch.setattr(client, "ANSWER_S", 0.2)
    more = {"properties.bootstrap.servers": nobody, "retry-timeout": "3 s"}
    with pytest.raises(SinkUnavailable, match=rf"Kafka {nobody}: .*no answer.*properties.bootstrap.servers"):
        sink(kafka_broker, "http://127.0.0.1:1", "me:word", tmp_path, **more).check()
    assert Waits(LocalStore(tmp_path)).current() == ""


def test_a_topic_that_tables_would_share_is_refused_where_messages_do_not_name_theirs(
    kafka_broker: KafkaServer, tmp_path: Path
) -> None:
    """Both of `größe` and `gr__e` have `gr__e`; a mapping says which topic is meant."""
    given = {"type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap, "value.format": "json"}
    schema = TableSchema((Column("id", DataType.parse("INT"), nullable=False),), ("id",))
    table = TableId(kafka_broker.new_name("shop"), "größe")

    def apply(**more: str) -> None:
        context = Context("p", LocalStore(tmp_path))
        KafkaSink(KafkaSinkOptions.model_validate(given | more), context).apply(0, [CreateTable(table, schema)])

    with pytest.raises(SinkError, match=r"größe: its topic would be .*\.gr__e, as that of other tables"):
        apply()
    apply(**{"sink.tableId-to-topic.mapping": f"{table}:{table.database}.sizes"})
    apply(**{"value.format": "maxwell-json"})


def sink(broker: KafkaServer, url: str, login: str, folder: Path, **more: str) -> KafkaSink:
    given = {
        "type": "kafka", "properties.bootstrap.servers": broker.bootstrap, "value.format": "debezium-avro",
        "schema-registry.url": url, "schema-registry.basic-auth.user-info": login, **more,
    }  # fmt: skip
    return KafkaSink(KafkaSinkOptions.model_validate(given), Context(broker.new_name("c"), LocalStore(folder)))
