"""The Kafka source passes the behaviours of every source, over a real broker, with Debezium's messages."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_servers import KafkaServer

from cdc.schema import TableId
from cdc.source import Context, Limits
from cdc.state.store import LocalStore
from cdc.testing import SourceConformance
from cdc.testing.source_conformance import drain
from connectors.kafka.source import KafkaSource
from connectors.kafka.source_options import KafkaSourceOptions

pytestmark = pytest.mark.kafka


class KafkaHarness:
    """Writes what Debezium would: one message per row, with Connect's schema."""

    table = TableId("shop", "orders")

    def __init__(self, broker: KafkaServer, folder: Path) -> None:
        self._broker, self._folder = broker, folder
        self._topic = broker.new_topic("orders")
        self._producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        self._fields = [_field("id", "int64", optional=False), _field("name", "string", optional=True)]

    def source(self) -> KafkaSource:
        options = KafkaSourceOptions.model_validate(
            {"type": "kafka", "topics": self._topic, "properties.bootstrap.servers": self._broker.bootstrap}
        )
        return KafkaSource(options, Context("pipeline-1", LocalStore(self._folder)))

    def create(self) -> None:
        """A topic does not say that a table was created: its first row does."""

    def insert(self, *rows: tuple[int, str | None]) -> None:
        self._write(*(("c", None, {"id": id_, "name": name}) for id_, name in rows))

    def update(self, id_: int, old: str, new: str) -> None:
        self._write(("u", {"id": id_, "name": old}, {"id": id_, "name": new}))

    def delete(self, id_: int, old: str) -> None:
        self._write(("d", {"id": id_, "name": old}, None))

    def add_column(self, name: str) -> None:
        self._fields.append(_field(name, "string", optional=True))

    def _write(self, *changes: tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]) -> None:
        row = {"type": "struct", "fields": self._fields, "optional": True, "name": "srv.shop.orders.Value"}
        schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
        source = {"db": "shop", "table": "orders", "ts_ms": 1}
        for op, before, after in changes:
            payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 2}
            key = json.dumps({"id": (after or before or {})["id"]})
            self._producer.produce(self._topic, json.dumps({"schema": schema, "payload": payload}), key)
        assert self._producer.flush(60) == 0


def _field(name: str, kind: str, *, optional: bool) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name}


class TestKafkaSource(SourceConformance):
    @pytest.fixture
    def harness(self, kafka_broker: KafkaServer, tmp_path: Path) -> KafkaHarness:
        return KafkaHarness(kafka_broker, tmp_path)

    def test_a_transaction_is_never_cut(self, harness: KafkaHarness) -> None:  # type: ignore[override]
        """Topics hold no transactions of the source: it is a message that stays whole."""
        harness.insert((1, "a"))
        harness.update(1, "a", "b")
        sizes = [len(batch.images) for batch in drain(harness.source(), limits=Limits(max_bytes=1, max_rows=1))]
        assert [size for size in sizes if size] == [1, 2]

    def test_tables_are_known_before_the_first_row(self, harness: KafkaHarness) -> None:  # type: ignore[override]
        """Of a new pipeline, from the first messages that wait to be read."""
        harness.insert((1, "a"))
        assert harness.source().tables()[harness.table].names == ("id", "name")
