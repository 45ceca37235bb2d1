"""One pipeline into several sinks: each is at its own pace, whatever becomes of the others."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cdc_process import CdcRun, ended, wait_for
from kafka_servers import KafkaServer
from load_pipeline import LoadPipeline, own_standin, sink_of
from several_pipeline import Several, assert_equal, several
from small_workload import SmallWorkload
from tiers import EXHAUSTIVE

from cdc.process.faults import POINTS
from cdc_services.server import MySqlServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]


def test_a_sink_that_is_away_for_long_stops_no_other_and_catches_up(mysql_server: MySqlServer, tmp_path: Path) -> None:
    work = SmallWorkload.on(mysql_server)
    work.round(50)
    with own_standin("doris") as standin:
        pipeline = several(tmp_path, mysql_server, work, "one")
        away = {"sink.keyless-changes": "skip", "retry-timeout": "1 s"}
        pipeline.others = [{"name": "third", **sink_of(standin, **away)}]
        pipeline.settings = {"retry-timeout": "1 s", "restart.exponential-delay.max-backoff": "2 s"}
        in_doris = LoadPipeline(tmp_path / "doris", pipeline.source, pipeline.password, standin=standin)
        with ended(pipeline):
            run = pipeline.start()
            number = work.round()
            run.shows(work.seen(number), "a round in DuckDB")
            wait_for("a round in Doris", lambda: in_doris.holds(work.seen(number)) or not run.alive)
            standin.kill()
            number = work.round()
            run.says("third: warning: failed, will be restarted")
            run.shows(work.seen(number), "a round while Doris is away")
            standin.restart()
            number = work.round()
            wait_for("Doris catching up", lambda: in_doris.holds(work.seen(number)) or not run.alive)
            run.shows(work.seen(number), "the round in DuckDB, too")
            run.stop()
            assert_equal(pipeline, work, "one")
            names = "id, round, note, amount"
            there = in_doris.query(f"SELECT {names} FROM {work.database}.keyed")
            assert sorted(there) == sorted(mysql_server.execute(f"SELECT {names} FROM {work.database}.keyed"))


def test_a_sink_is_added_taken_out_and_put_back(mysql_server: MySqlServer, tmp_path: Path) -> None:
    work = SmallWorkload.on(mysql_server)
    pipeline = several(tmp_path, mysql_server, work, "one")
    work.round()
    with ended(pipeline):
        pipeline.catch_up()
        pipeline.files = ["two"]
        work.change_columns()
        work.round()
        pipeline.catch_up()
        assert_equal(pipeline, work, "two")
        pipeline.files = ["one", "two"]
        work.change_columns()
        work.round()
        output = pipeline.catch_up().output
        assert "one: " in output
        assert_equal(pipeline, work, "one", "two")


LIVES = ("after-prepare:1",)
"""The ends of the lives of a run, each in the sink that comes there first."""

EVERY_LIFE = (*LIVES, "after-decide:2", *(point for point in POINTS if point != "in-prepare"))
"""Doris is away all the time in the second. At `in-prepare` a worker dies, no run: that is tried with one sink, in
`test_crash_points.py`."""


def a_round_for_each_batch(pipeline: Several, work: SmallWorkload, run: CdcRun) -> None:
    """Write until the run has died, no faster than its sinks plan batches."""
    planned = -1

    def over() -> bool:
        nonlocal planned
        found = len(list(pipeline.state.glob("sinks/*/checkpoint/offsets/[0-9]*")))
        if found != planned:
            planned = found
            work.round()
            if work.rounds % 3 == 0:
                work.change_columns()
        return not run.alive

    wait_for("the crash", over)


@pytest.mark.kafka
@pytest.mark.parametrize(
    "lives", [LIVES, pytest.param(EVERY_LIFE, marks=[EXHAUSTIVE, pytest.mark.timeout(3600)])], ids=len
)
def test_duckdb_kafka_and_doris_hold_each_change_once_whatever_is_killed(
    mysql_server: MySqlServer, kafka_broker: KafkaServer, tmp_path: Path, lives: tuple[str, ...]
) -> None:
    work = SmallWorkload.on(mysql_server)
    prefix = kafka_broker.new_name("several")
    with own_standin("doris") as standin:
        pipeline = several(tmp_path, mysql_server, work, "one", **work.beginning)
        pipeline.others = [
            {
                "name": "topics", "type": "kafka", "properties.bootstrap.servers": kafka_broker.bootstrap,
                "topic.prefix": prefix, "topic.create.partitions": 1, "sink.schema-changes": "topic",
            },
            {"name": "marts", **sink_of(standin, **{"sink.keyless-changes": "skip", "retry-timeout": "1 s"})},
        ]  # fmt: skip
        pipeline.settings = {"retry-timeout": "1 s", "restart.exponential-delay.max-backoff": "2 s"}
        in_doris = LoadPipeline(tmp_path / "doris", pipeline.source, pipeline.password, standin=standin)
        with ended(pipeline):
            for life, crash in enumerate(lives):
                if life == 1:
                    standin.kill()
                run = pipeline.start(env={"CDC_CRASH_AT": crash})
                a_round_for_each_batch(pipeline, work, run)
                run.kill_all()
                if life == 1:
                    standin.restart()
            pipeline.catch_up()
            assert_equal(pipeline, work, "one")
            names = "id, round, note, amount"
            wanted = sorted(mysql_server.execute(f"SELECT {names} FROM {work.database}.keyed"))
            assert sorted(in_doris.query(f"SELECT {names} FROM {work.database}.keyed")) == wanted
            assert_topic_holds(kafka_broker, f"{prefix}.{work.database}.keyed", wanted)


def assert_topic_holds(broker: KafkaServer, topic: str, wanted: list[tuple[Any, ...]]) -> None:
    """Each change is there once, and all of them, in the order of the topic, make the table."""
    seen, rows = Counter[tuple[Any, ...]](), dict[int, tuple[Any, ...]]()
    for message in broker.read(topic):
        found = json.loads(message.value()) if message.value() else None
        if found is None:
            continue
        found = found.get("payload", found)
        before, after = found["before"], found["after"]
        seen[found["op"], found["source"]["file"], found["source"]["pos"], found["source"]["row"]] += 1
        if before is not None:
            rows.pop(before["id"], None)
        if after is not None:
            rows[after["id"]] = after["id"], after["round"], after["note"]
    assert [place for place, count in seen.items() if count > 1] == []
    assert sorted(rows.values()) == [row[:3] for row in wanted]
