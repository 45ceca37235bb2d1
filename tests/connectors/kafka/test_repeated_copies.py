"""A task that copies rows has committed them, and nobody was told: its repeat reads the table at a later moment.

What counts is the place of the log at which the committed rows were read, or changes up to the repeat are left out.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cdc_process import Pipeline, mysql_pipeline
from direct import DirectRuns
from kafka_servers import KafkaServer

from cdc.offsets import numbered
from cdc.sink import Sink, TaskAttempt
from cdc.source import Context, Limits
from cdc.spec.check import check_file
from cdc.state.reports import Reports
from cdc.state.store import LocalStore
from cdc.testing import FailAt
from cdc.testing.crashes import Crash
from cdc.testing.local_pipeline import LocalPipeline
from cdc_services.server import MySqlServer
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka

_LIMITS = Limits(1 << 24, 5000)
FIFTY_ROWS = (
    "CREATE TABLE orders (id INT PRIMARY KEY, n INT NOT NULL)",
    f"INSERT INTO orders VALUES {','.join(f'({n}, 0)' for n in range(50))}",
)


@pytest.mark.mysql
def test_changes_between_a_copy_and_its_repeat_are_in_the_topic_once(
    mysql_server: MySqlServer, kafka_broker: KafkaServer, tmp_path: Path
) -> None:
    database = mysql_server.new_database("again")

    def execute(*statements: str) -> Any:
        return mysql_server.execute(*statements, database=database)

    execute(*FIFTY_ROWS)
    topics = {
        "type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap,
        "topic.prefix": kafka_broker.new_name("again"), "topic.create.partitions": 1,
    }  # fmt: skip
    pipeline = IntoKafka(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"), topics)
    steps = iter(range(1, 1000))

    def change() -> None:
        step = next(steps)
        execute(
            "UPDATE orders SET n = n + 1", f"DELETE FROM orders WHERE id = {20 + step}",
            f"UPDATE orders SET id = id + 1000 WHERE id = {step}", f"INSERT INTO orders VALUES ({2000 + step}, 7)",
        )  # fmt: skip

    copy_and_die_in_each_batch(pipeline, change)
    DirectRuns(pipeline, pipeline.name).catch_up(_LIMITS)
    table, changes = read_table(kafka_broker, f"{topics['topic.prefix']}.{database}.orders")
    assert next(steps) > 2, "a batch with the copy has died"
    assert table == dict(execute("SELECT id, n FROM orders"))
    begun = Counter(key for key, operation in changes if operation in "rc")
    assert {key for key, count in begun.items() if count > 1} == set(), "each row is read or inserted once"
    ended = Counter(key for key, operation in changes if operation == "d")
    assert {key for key, count in ended.items() if count > 1} == set()


@pytest.mark.mysql
def test_with_at_least_once_no_change_between_both_is_left_out(
    mysql_server: MySqlServer, kafka_broker: KafkaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt of each task dies before it notes what it has written, so its rows are there beside others."""
    database = mysql_server.new_database("least")
    mysql_server.execute(*FIFTY_ROWS, database=database)
    topics = {
        "type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap, "topic.create.partitions": 1,
        "topic.prefix": kafka_broker.new_name("least"), "sink.delivery-guarantee": "at-least-once",
    }  # fmt: skip
    pipeline = IntoKafka(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"), topics)
    begun = set[tuple[int, int]]()
    real = KafkaSink.prepare

    def change() -> None:
        gone = f"DELETE FROM orders WHERE id = {20 + len(begun)}"
        mysql_server.execute("UPDATE orders SET n = n + 1", gone, database=database)

    def prepare(sink: KafkaSink, task: TaskAttempt, blocks: Any) -> Any:
        if (task.batch, task.partition) in begun:
            return real(sink, task, blocks)
        begun.add((task.batch, task.partition))
        try:
            with patch("connectors.kafka.delivery.fences.Fences.put", side_effect=Crash("before the fence")):
                return real(sink, task, blocks)
        finally:
            change()

    monkeypatch.setattr(KafkaSink, "prepare", prepare)
    copy_and_die_in_each_batch(pipeline, change)
    monkeypatch.setattr(KafkaSink, "prepare", real)
    DirectRuns(pipeline, pipeline.name).catch_up(_LIMITS)
    table, _ = read_table(kafka_broker, f"{topics['topic.prefix']}.{database}.orders")
    assert table == dict(mysql_server.execute("SELECT id, n FROM orders", database=database))


def read_table(broker: KafkaServer, topic: str) -> tuple[dict[int, int], list[tuple[int, str]]]:
    """What a reader of the topic ends with, and the key and operation of each message."""
    table, changes = dict[int, int](), list[tuple[int, str]]()
    for message in broker.read(topic):
        key = json.loads(message.key())["id"]
        value = json.loads(message.value()) if message.value() else {"op": "tombstone", "after": None}
        changes.append((key, value["op"]))
        if value["after"] is None:
            table.pop(key, None)
        else:
            table[key] = value["after"]["n"]
    return table, changes


class IntoKafka(Pipeline):
    """A pipeline whose sink is in topics."""

    def __init__(self, of: Pipeline, topics: dict[str, Any]) -> None:
        super().__init__(of.folder, of.source, of.password)
        self.topics = topics
        self.name: str = topics["topic.prefix"]

    def write(self) -> None:
        document = {"source": self.source, "sink": self.topics, "pipeline": {"name": "proof"}}
        self.file.write_text(json.dumps(document), encoding="utf-8")


def copy_and_die_in_each_batch(pipeline: IntoKafka, change: Any) -> None:
    """A run to the end that the log has now, in which each batch dies several times once its tasks are through;
    `change` is called before it is repeated."""
    pipeline.write()
    with patch.dict(os.environ, {"MYSQL_PASSWORD": pipeline.password}):
        spec: Any = check_file(str(pipeline.file)).spec
    folders = {name: pipeline.state / name for name in ("source", "sink")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    source = spec.source.build(Context(pipeline.name, LocalStore(folders["source"]), metadata=spec.metadata()))
    sink = spec.sink.build(Context(pipeline.name, LocalStore(folders["sink"])))
    source.stop_at_current()

    def restarted() -> Sink:
        change()
        found: Sink = sink
        return found

    at, batch = source.initial_offset(), 0
    lives = LocalPipeline(source, sink, pipeline.state / "engine", numbered(at, 0), restarted)
    while (end := lives.latest(at, batch, _LIMITS)) != at:
        lives.batch(numbered(at, batch), numbered(end, batch + 1), 1, [FailAt.PREPARED] * 4)
        source.commit(end)
        at, batch = end, batch + 1
    lives.finish(batch, at)
    source.stop()


def test_a_repeat_goes_by_the_reports_of_the_attempt_whose_rows_are_committed(
    kafka_broker: KafkaServer, tmp_path: Path
) -> None:
    """Reports that come with the last row; a part without any has none in its repeat."""
    topic = kafka_broker.new_topic()
    given = {"type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap, "topic": topic}
    sink = KafkaSink(KafkaSinkOptions.model_validate(given), Context(topic, LocalStore(tmp_path / "sink")))
    reports = Reports(LocalStore(tmp_path / "reports"))

    def told_by_an_attempt(batch: int, *told: int) -> list[Any]:
        said = list[dict[str, Any]]()
        attempt = reports.of_attempt(batch, 0, said)

        def rows() -> Any:
            yield from ()
            said.extend({"chunk": number} for number in told)

        sink.prepare(TaskAttempt(batch, 0, 0, reports=attempt), rows())
        return [report["chunk"] for report in attempt.told]

    assert told_by_an_attempt(0, 1, 2) == [1, 2]
    assert told_by_an_attempt(0, 3) == [1, 2]
    assert told_by_an_attempt(1) == []
    assert told_by_an_attempt(2, 4) == [4]
    assert told_by_an_attempt(2, 5) == [4]
