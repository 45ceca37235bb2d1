"""MySQL -> Kafka -> DuckDB by two pipelines at once, with processes and the broker killed; then all three are compared.

    PYTHONPATH=tests:tests/crash:tests/devservers .venv/bin/python tests/crash/topic_rounds.py --seed 7 [--seeds 3]

A seed has a number of lives. In each, both pipelines run while somebody writes, adds columns and makes tables, which
are new topics. A life ends with SIGKILL of a driver, of workers or of the broker, which is started again, or with
SIGTERM; what still runs then is killed. Between lives a topic may get another partition, once all of it has been read:
keys move.

In the end the topics hold each change of the log once, and the tables in DuckDB equal those of the server. A seed ends
without that where the broker has lost the end of a transaction when it was killed (`docs/kafka-sink.md`), and says so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired
from typing import Any

import yaml
from cdc_process import CdcRun, Pipeline, ended, mysql_pipeline
from kafka_administrator import Administrator, administrator
from kafka_servers import KafkaServer, own_brokers
from servers import own_servers
from small_workload import SmallWorkload

LIVES = 4
_START_S = 15.0


@dataclass
class ToKafka(Pipeline):
    """A pipeline into topics."""

    topics: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        super().write()
        document = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        document["sink"] = self.topics
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")


class EndsLost(Exception):
    """The broker has lost the end of a transaction: readers of its topics wait until an administrator aborts it."""


class Rounds:
    """One seed."""

    def __init__(
        self, rng: Random, folder: Path, work: SmallWorkload, broker: KafkaServer, by_hand: Administrator
    ) -> None:
        self._rng, self._work, self._broker, self._by_hand = rng, work, broker, by_hand
        self._prefix = broker.new_name("rounds")
        address = {"properties.bootstrap.servers": broker.bootstrap}
        beginning = rng.choice(({"scan__startup__mode": "initial"}, work.beginning))
        found = mysql_pipeline(folder / "in", work.server, work.pattern, **beginning)
        settings = {"retry-timeout": "90 s", "name": f"in-{self._prefix}"}
        self._in = ToKafka(folder / "in", found.source, found.password, settings=settings)
        self._in.topics = {
            "type": "kafka", **address, "topic.prefix": self._prefix, "topic.create.partitions": 1,
            "sink.schema-changes": "topic", "debezium-json.skipped.operations": "none",
            "debezium-json.include-schema.enabled": True, "properties.reconnect.backoff.max.ms": "500",
        }  # fmt: skip
        source = {
            "type": "kafka", **address, "topic-pattern": rf"{self._prefix}(\..*)?",
            "scan.topic-partition-discovery.interval": "2 s", "properties.reconnect.backoff.max.ms": "500",
        }  # fmt: skip
        self._out = Pipeline(folder / "out", source, settings={"retry-timeout": "90 s", "name": f"out-{self._prefix}"})
        print(f"  {work.server.flavor}, scan.startup.mode {found.source['scan.startup.mode']}", flush=True)

    def run(self, lives: int) -> None:
        """All lives, and what came of them. Raises AssertionError."""
        with ended(self._in), ended(self._out):
            try:
                self._in.catch_up()  # a source of topics asks for one that is there
                for life in range(lives):
                    self._life(life)
                    if self._rng.random() < 0.5:
                        self._grow()
                self._caught_up()
            except EndsLost as lost:
                print(f"  {lost}", flush=True)
                return
            self._work.assert_equal(self._out)
            self._each_once()

    def _life(self, life: int) -> None:
        ends: dict[str, Callable[[], None]] = {
            "SIGKILL of the driver into Kafka": lambda: runs[0].kill9(),
            "SIGKILL of the driver out of Kafka": lambda: runs[1].kill9(),
            "SIGKILL of the workers into Kafka": lambda: _kill(runs[0], "pyspark.daemon"),
            "SIGKILL of the workers out of Kafka": lambda: _kill(runs[1], "pyspark.daemon"),
            "SIGKILL of the broker": self._kill_broker,
            "SIGTERM to both": lambda: [run.process.send_signal(signal.SIGTERM) for run in runs] and None,
        }
        name, moment = self._rng.choice(sorted(ends)), self._rng.uniform(_START_S / 2, 2 * _START_S)
        print(f"  life {life}: {name} after {moment:.2f} s", flush=True)
        enough = threading.Event()
        writer = threading.Thread(target=self._write, args=(Random(self._rng.random()), enough))
        runs = [self._in.start(), self._out.start()]
        writer.start()
        try:
            self._wait(runs[0], moment)
            self._alive(runs, name)
            ends[name]()
            self._wait(runs[0], self._rng.uniform(0, 6))
            if name.startswith("SIGTERM"):
                for run in runs:
                    run.ends(0)
        finally:
            enough.set()
            writer.join()
            for run in runs:
                run.kill_all()

    def _alive(self, runs: Sequence[CdcRun], name: str) -> None:
        for run in runs:
            if not run.alive:
                self._lost()
                raise AssertionError(f"ended by itself before {name}:\n{run.output[-6000:]}")

    def _write(self, rng: Random, enough: threading.Event) -> None:
        while not enough.wait(0.3):
            self._work.round(10)
            if rng.random() < 0.05:
                self._work.change_columns()
            if rng.random() < 0.03:
                name = f"more{len(self._work.tables)}"
                self._work.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, note TEXT)")
                self._work.tables.append(name)
            for name in self._work.tables[2:]:
                self._work.run(f"REPLACE INTO {name} VALUES ({rng.randrange(50)}, 'round {self._work.rounds}')")

    def _kill_broker(self) -> None:
        assert self._broker.process is not None
        self._broker.process.kill9()
        self._broker.process.start()

    def _grow(self) -> None:
        """A topic of a table with a key gets more partitions. All before is read: order is lost across partitions."""
        self._caught_up()
        topic = f"{self._prefix}.{self._work.database}.keyed"
        if topic not in self._broker.topics():
            return
        count = len(self._broker.admin().list_topics(topic, timeout=60).topics[topic].partitions) + 1
        print(f"  {topic}: {count} partitions", flush=True)
        self._broker.grow(topic, count)

    def _caught_up(self) -> None:
        for pipeline in (self._in, self._out):
            self._lost()
            run = pipeline.start("--until-caught-up")
            if run.process.wait(400) != 0:
                self._lost()
                raise AssertionError(f"exit code {run.process.returncode}:\n{run.output[-6000:]}")
        self._lost()

    def _lost(self) -> None:
        topics = sorted(name for name in self._broker.topics() if name.startswith(self._prefix))
        if lost := self._by_hand.open_in(*topics, "__consumer_offsets")[1]:
            raise EndsLost(f"the broker has lost ends of transactions in {', '.join(lost)}: nothing is compared")

    def _each_once(self) -> None:
        """No change of the log is in the topics twice."""
        seen = Counter[tuple[object, ...]]()
        for topic in (f"{self._prefix}.{self._work.database}.{table}" for table in self._work.tables):
            for message in self._broker.read(topic):
                found = json.loads(message.value())["payload"] if message.value() else None
                if found and found["op"] != "r":
                    source = found["source"]
                    place = source["file"], source["pos"], source["row"], found["op"]
                    seen[topic, *place, repr(found["before"]), repr(found["after"])] += 1
        twice = [place for place, count in seen.items() if count > 1]
        assert not twice, twice[:5]
        print(f"  {sum(seen.values())} changes in topics, {len(self._work.tables)} tables are equal", flush=True)

    def _wait(self, run: CdcRun, seconds: float) -> None:
        with suppress(TimeoutExpired):
            run.process.wait(seconds)


def _kill(run: CdcRun, word: str) -> None:
    for pid in run.processes(word):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run(seeds: Sequence[int], lives: int = LIVES) -> None:
    """All seeds, each with servers of its own. Raises AssertionError."""
    for seed in seeds:
        print(f"  seed {seed}", flush=True)
        with (
            tempfile.TemporaryDirectory(prefix="cdc-rounds-") as folder, own_servers() as make, own_brokers() as start
        ):  # fmt: skip
            broker = start()
            work = SmallWorkload.on(make("mysql"))
            work.round(200)
            with administrator(broker.bootstrap) as by_hand:
                Rounds(Random(seed), Path(folder), work, broker, by_hand).run(lives)


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--seed", type=int, required=True)
    given.add_argument("--seeds", type=int, default=1)
    given.add_argument("--lives", type=int, default=LIVES)
    options = given.parse_args()
    run(range(options.seed, options.seed + options.seeds), options.lives)
