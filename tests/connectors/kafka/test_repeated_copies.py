"""A task that copies rows has committed them, and nobody was told: its repeat reads the table at a later moment.

What counts is the place of the log at which the committed rows were read, or changes up to the repeat are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cdc_process import mysql_pipeline
from direct import DirectRuns
from kafka_servers import KafkaServer
from repeated_copies import FIFTY_ROWS, LIMITS, PipelineInto, copy_and_die_in_each_batch

from cdc.sink import TaskAttempt
from cdc.source import Context
from cdc.state.reports import Reports
from cdc.state.store import LocalStore
from cdc.testing.crashes import Crash
from cdc_services.server import MySqlServer
from connectors.kafka.sink import KafkaSink
from connectors.kafka.sink_options import KafkaSinkOptions

pytestmark = pytest.mark.kafka


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
    pipeline = PipelineInto(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"), database, topics)
    steps = iter(range(1, 1000))

    def change() -> None:
        step = next(steps)
        execute(
            "UPDATE orders SET n = n + 1", f"DELETE FROM orders WHERE id = {20 + step}",
            f"UPDATE orders SET id = id + 1000 WHERE id = {step}", f"INSERT INTO orders VALUES ({2000 + step}, 7)",
        )  # fmt: skip

    copy_and_die_in_each_batch(pipeline, change)
    DirectRuns(pipeline, pipeline.name).catch_up(LIMITS)
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
    pipeline = PipelineInto(mysql_pipeline(tmp_path, mysql_server, rf"{database}.\.*"), database, topics)
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
    DirectRuns(pipeline, pipeline.name).catch_up(LIMITS)
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
        return [report["chunk"] for report in attempt.reports]

    assert told_by_an_attempt(0, 1, 2) == [1, 2]
    assert told_by_an_attempt(0, 3) == [1, 2]
    assert told_by_an_attempt(1) == []
    assert told_by_an_attempt(2, 4) == [4]
    assert told_by_an_attempt(2, 5) == [4]
