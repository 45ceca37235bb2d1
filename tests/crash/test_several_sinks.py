"""One pipeline into several sinks: each is at its own pace, whatever becomes of the others."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from cdc_process import CdcRun, Pipeline, ended, mysql_pipeline, wait_for
from kafka_servers import KafkaServer
from load_pipeline import LoadPipeline, own_standin, sink_of
from small_workload import SmallWorkload
from tiers import EXHAUSTIVE

from cdc.process.faults import POINTS
from cdc_services.server import MySqlServer
from cdc_standins import StandIn

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.mysql, pytest.mark.timeout(1200)]


@dataclass
class Several(Pipeline):
    """A pipeline with DuckDB files as sinks, by name, and others. Queries go to the file `shown`."""

    files: list[str] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)
    shown: str = "one"

    @property
    def database(self) -> Path:
        return self.folder / f"{self.shown}.duckdb"

    def write(self) -> None:
        """The pipeline file."""
        ducks = [
            {"name": name, "type": "duckdb", "path": f"{name}.duckdb", "lock-timeout": "60 s"} for name in self.files
        ]
        settings = {"name": "proof", "schema.change.behavior": "evolve", **self.settings}
        document = {"source": self.source, "sink": [*ducks, *self.others], "pipeline": settings}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")


def several(folder: Path, server: MySqlServer, work: SmallWorkload, *files: str, **options: Any) -> Several:
    made = mysql_pipeline(folder, server, work.pattern, **options)
    return Several(made.folder, made.source, made.password, files=list(files))


def assert_equal(pipeline: Several, work: SmallWorkload, *files: str) -> None:
    for name in files:
        pipeline.shown = name
        work.assert_equal(pipeline)


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
            run = pipeline.start()
            one_is_away(run, work, standin, in_doris)
            names = "id, round, note, amount"
            wanted = sorted(mysql_server.execute(f"SELECT {names} FROM {work.database}.keyed"))
            topic = f"{prefix}.{work.database}.keyed"
            notes = [row[:3] for row in wanted]
            wait_for("Kafka catching up", lambda: rows_of(kafka_broker, topic) == notes or not run.alive)
            run.stop()
            assert rows_of(kafka_broker, topic) == notes
            assert_equal(pipeline, work, "one")
            assert sorted(in_doris.query(f"SELECT {names} FROM {work.database}.keyed")) == wanted


def one_is_away(run: CdcRun, work: SmallWorkload, standin: StandIn, in_doris: LoadPipeline) -> None:
    """Doris is away for longer than its time limit: the others go on, and it catches up."""
    number = work.round()
    run.shows(work.seen(number), "a round in DuckDB")
    wait_for("a round in Doris", lambda: in_doris.holds(work.seen(number)) or not run.alive)
    standin.kill()
    number = work.round()
    run.says("marts: warning: failed, and is started again")
    run.shows(work.seen(number), "a round while Doris is away")
    standin.restart()
    number = work.round()
    wait_for("Doris catching up", lambda: in_doris.holds(work.seen(number)) or not run.alive)
    run.shows(work.seen(number), "the round in DuckDB, too")


def rows_of(broker: KafkaServer, topic: str) -> list[tuple[Any, ...]]:
    """The table that a topic's changes make, in the order of the topic; each change is there once."""
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
    return sorted(rows.values())
