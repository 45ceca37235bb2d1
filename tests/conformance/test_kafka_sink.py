"""The Kafka sink does with a batch what every sink does: a table is what a plain reader makes of its messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kafka_servers import KafkaServer

from cdc.schema import TableId
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing.delivery_conformance import DeliveryConformance
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka


class KafkaHarness:
    """Topics of this test alone, by a prefix."""

    def __init__(self, broker: KafkaServer, folder: Path) -> None:
        self._broker, self._folder, self._name = broker, folder, broker.new_name("p")

    def sink(self) -> KafkaSink:
        options = {
            "type": "kafka",
            "properties.bootstrap.servers": self._broker.bootstrap,
            "topic.prefix": self._name,
        }
        context = Context(self._name, LocalStore(self._folder / "state"))
        return KafkaSink(KafkaSinkOptions.model_validate(options), context)

    def rows(self, table: TableId) -> list[dict[str, Any]] | None:
        """The changes that a reader of committed messages finds, applied in order."""
        rows: list[dict[str, Any]] = []
        for message in self._broker.read(f"{self._name}.{table}", isolation="read_committed"):
            fields = json.loads(message.value() or b"null")
            if fields is None:  # the tombstone after a delete
                continue
            if fields["before"] in rows:
                rows.remove(fields["before"])
            if fields["after"] is not None:
                rows.append(fields["after"])
        return rows


class TestKafkaSink(DeliveryConformance):
    @pytest.fixture
    def harness(self, kafka_broker: KafkaServer, tmp_path: Path) -> KafkaHarness:
        return KafkaHarness(kafka_broker, tmp_path)
