"""`pipelines/mysql_to_kafka.yaml` as users run it, from a real MySQL into a real broker, through a kill -9."""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_process import Pipeline
from kafka_servers import KafkaServer

from cdc_services.server import MySqlServer

FILE = Path(__file__).resolve().parents[3] / "pipelines" / "mysql_to_kafka.yaml"


class ToKafka(Pipeline):
    """The pipeline of the file, with the addresses of the test's servers."""

    def __init__(self, folder: Path, server: MySqlServer, database: str, broker: KafkaServer) -> None:
        self.document: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        super().__init__(folder, self.document["source"], server.password)
        own = {"hostname": server.host, "port": server.port, "username": server.user, "tables": f"{database}.\\.*"}
        self.document["source"].update(own)
        self.document["sink"]["properties.bootstrap.servers"] = broker.bootstrap

    def write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(self.document), encoding="utf-8")


@pytest.mark.exhaustive
@pytest.mark.mysql
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("killed", [False, True])
def test_readers_end_with_what_the_table_holds(
    mysql_server: MySqlServer, kafka_broker: KafkaServer, tmp_path: Path, killed: bool
) -> None:
    """`make test` has whole runs into Kafka in `tests/crash/test_several_sinks.py`, what readers find in `test_sink.py`
    and `tests/differential/test_kafka_round_trip.py`."""
    database = mysql_server.new_database("kafka")

    def execute(*statements: str) -> Any:
        return mysql_server.execute(*statements, database=database)

    execute(
        "CREATE TABLE orders (id INT PRIMARY KEY, n INT NOT NULL)",
        f"INSERT INTO orders VALUES {','.join(f'({n}, 0)' for n in range(50))}",
    )
    pipeline = ToKafka(tmp_path, mysql_server, database, kafka_broker)
    pipeline.catch_up()
    execute(
        "UPDATE orders SET n = n + 1", "UPDATE orders SET id = id + 100 WHERE id < 10",
        "DELETE FROM orders WHERE id = 20", "UPDATE orders SET n = n + 1",
    )  # fmt: skip
    if killed:  # every task has committed what it wrote, and the driver dies before it has decided that
        pipeline.start("--until-caught-up", env={"CDC_CRASH_AT": "after-prepare"}).ends(-signal.SIGKILL)
    pipeline.catch_up()
    topic = f"live.{database}.orders"
    table: dict[int, int] = {}
    seen: dict[int, list[str]] = defaultdict(list)
    for message in kafka_broker.read(topic):
        key, value = json.loads(message.key())["id"], message.value()
        seen[key].append(json.loads(value)["op"] if value else "tombstone")
        if value is None:
            table.pop(key, None)
        elif json.loads(value)["after"] is not None:
            table[key] = json.loads(value)["after"]["n"]
    assert table == dict(execute("SELECT id, n FROM orders"))
    assert seen[1] == ["r", "u", "d", "tombstone"]
    assert seen[101] == ["c", "u"]
    assert seen[20] == ["r", "u", "d", "tombstone"]
    assert seen[30] == ["r", "u", "u"]
    assert len(kafka_broker.admin().list_topics(topic, timeout=60).topics[topic].partitions) == 4
