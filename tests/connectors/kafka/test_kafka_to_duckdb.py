"""`pipelines/kafka_to_duckdb.yaml` as users run it, from a real broker, through a kill -9 and from a savepoint."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from cdc_process import Pipeline
from debezium_messages import INT64, TEXT, envelope, text, with_schema
from kafka_servers import KafkaServer
from tiers import EXHAUSTIVE

from cdc.job.savepoint import create_savepoint
from cdc.spec.check import check_file

FILE = Path(__file__).resolve().parents[3] / "pipelines" / "kafka_to_duckdb.yaml"
FIELDS = {"id": INT64, "name": TEXT}


class FromKafka(Pipeline):
    """The pipeline of the file, with the address of the test's broker and topics of its own."""

    def __init__(self, folder: Path, broker: KafkaServer, prefix: str) -> None:
        self.document: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
        super().__init__(folder, self.document["source"], "")
        own = {"properties.bootstrap.servers": broker.bootstrap, "topic-pattern": rf"{prefix}\.shop\..*"}
        self.document["source"].update(own)
        self.document["sink"]["path"] = str(folder / "mirror.duckdb")

    def write(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(self.document), encoding="utf-8")


def change(op: str, before: dict[str, Any] | None, after: dict[str, Any] | None, partition: int) -> dict[str, Any]:
    value = with_schema(FIELDS, envelope(op, before, after), required=("id",))
    return {"value": value, "key": text({"id": (after or before or {})["id"]}), "partition": partition}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=EXHAUSTIVE)])
def test_the_table_is_what_the_messages_tell(kafka_broker: KafkaServer, tmp_path: Path, killed: bool) -> None:
    """A batch of topics that ended before its decision is read again in `tests/conformance/test_kafka_source.py`, and
    whole runs die there in `tests/crash`: both at once are for the exhaustive tier."""
    prefix = kafka_broker.new_name("dbz")
    topic = f"{prefix}.shop.orders"
    kafka_broker.create(topic, partitions=2)
    kafka_broker.produce(topic, [
        *(change("c", None, {"id": number, "name": "a"}, number % 2) for number in range(50)),
        *(change("u", {"id": number, "name": "a"}, {"id": number, "name": "b"}, number % 2) for number in range(10)),
        change("d", {"id": 20, "name": "a"}, None, 0),
    ])  # fmt: skip
    pipeline = FromKafka(tmp_path, kafka_broker, prefix)
    if killed:  # every task has prepared its rows, and the driver dies before it has decided that
        pipeline.start("--until-caught-up", env={"CDC_CRASH_AT": "after-prepare"}).ends(-signal.SIGKILL)
    pipeline.catch_up()
    expected = {number: "b" if number < 10 else "a" for number in range(50) if number != 20}
    assert rows(tmp_path) == expected

    savepoint = create_savepoint(check_file(str(pipeline.file)).spec, pipeline.state)
    shutil.rmtree(pipeline.state)
    kafka_broker.produce(topic, [
        change("u", {"id": 3, "name": "b"}, {"id": 3, "name": "c"}, 1),
        change("d", {"id": 4, "name": "b"}, None, 0),
        change("c", None, {"id": 50, "name": "a"}, 0),
    ])  # fmt: skip
    pipeline.start("--until-caught-up", "--from-savepoint", str(savepoint)).ends(0)
    del expected[4]
    assert rows(tmp_path) == expected | {3: "c", 50: "a"}
    assert "there is a state directory already" in pipeline.start("--from-savepoint", str(savepoint)).ends(5)


def rows(folder: Path) -> dict[int, str]:
    with duckdb.connect(str(folder / "mirror.duckdb"), read_only=True) as database:
        found = database.execute("SELECT id, name FROM shop.orders").fetchall()
    assert len(found) == len({number for number, _ in found})
    return dict(found)
