"""MySQL through Spark into Kafka, exactly once: how much a run writes, and how soon a reader has a change.

    .venv/bin/python tests/bench/kafka_sink.py [--rows 1000000] [--seconds 20] [--only write,fresh] [--bootstrap ...]

write: inserts of `orders` (twelve columns) as Debezium's messages. The cost of a run over one row is subtracted; CPU
seconds are those of our processes. fresh: 2,000 one-row transactions a second, from the return of each commit in MySQL
to the moment in which a `read_committed` consumer has its message; as in the step `live` without the first five
seconds, which are told beside it (`warm_up`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT), str(ROOT / "tests" / "devservers")]

import numpy as np  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from kafka_read import broker  # noqa: E402
from live import RATE, WARM_S, write_steadily  # noqa: E402
from pipeline import Pipeline, checked  # noqa: E402
from readers import Bench  # noqa: E402
from run import SERVER  # noqa: E402
from spend import OtherLoad, cpu_of_tree  # noqa: E402
from whole import WholeTool  # noqa: E402
from workload import DATABASE, Generator  # noqa: E402

from cdc_services.installation import find  # noqa: E402
from cdc_services.server import StartedServer  # noqa: E402

Figures = dict[str, Any]
_READER_READY_S = 60.0
_SOURCE_ROWS = 20_000
"""Different ones, of which the server makes as many as are measured."""


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--rows", type=int, default=1_000_000)
    given.add_argument("--seconds", type=int, default=20, help="of freshness, after five to warm up")
    given.add_argument("--repeat", type=int, default=2, help="ranges of that many rows, one after the other")
    given.add_argument("--only", default="write,fresh")
    given.add_argument("--bootstrap", help="a broker that runs; one is started when there is none")
    options = given.parse_args()
    installation = find("mysql")
    if installation is None:
        raise SystemExit("no MySQL server here: run `make services`")
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder, broker(options.bootstrap) as bootstrap:
        server = StartedServer(installation, SERVER)
        try:
            bench = Bench(server, Path(folder), 1, say)
            generator = Generator(server)
            if "write" in options.only:
                print(json.dumps({"write": write(bench, generator, bootstrap, options.rows, options.repeat)}))
            if "fresh" in options.only:
                print(json.dumps({"fresh": fresh(bench, generator, bootstrap, options.seconds)}))
        finally:
            server.close()


def _sink(bootstrap: str, prefix: str) -> Figures:
    return {"type": "kafka", "properties.bootstrap.servers": bootstrap, "topic.prefix": prefix}


def write(bench: Bench, generator: Generator, bootstrap: str, rows: int, repeat: int) -> list[Figures]:
    """What runs over that many inserts cost."""
    generator.create_tables()
    generator.workload("orders_insert", _SOURCE_ROWS)
    tool = WholeTool(bench, generator, "into_kafka", _sink(bootstrap, f"write-{time.time_ns()}"))
    tool.begin()
    found = []
    for _ in range(repeat):
        bench.say(f"writing {rows:,} rows")
        found.append(tool.measure(generator.large_table(rows)))
    return [{"start_up": tool.start_up}, *found]


class Reader(threading.Thread):
    """Reads one partition and notes when each message came."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._topic, self._ends = topic, threading.Event()
        self.came: list[float] = []
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed",
            "enable.auto.commit": False, "fetch.wait.max.ms": 100,
        })  # fmt: skip

    def run(self) -> None:
        self._consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self._ends.is_set():
            records = [each for each in self._consumer.consume(10_000, 0.01) if each.error() is None]
            self.came += [time.time()] * len(records)

    def wait(self, count: int) -> None:
        """Wait until that many messages came."""
        deadline = time.monotonic() + _READER_READY_S
        while len(self.came) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(self.came)} of {count} messages came")
            time.sleep(0.05)

    def end(self) -> None:
        """Stop reading."""
        self._ends.set()
        self.join()
        self._consumer.close()


def fresh(bench: Bench, generator: Generator, bootstrap: str, seconds: int) -> Figures:
    """Rows that come one by one while the pipeline runs and a reader waits for them."""
    generator.run(f"DROP TABLE IF EXISTS {DATABASE}.fresh")
    generator.run(f"CREATE TABLE {DATABASE}.fresh (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(100))")
    prefix = f"fresh-{time.time_ns()}"
    pipeline = Pipeline(bench.folder / "fresh", bench.server, "fresh", generator.place(), _sink(bootstrap, prefix))
    generator.run("INSERT INTO fresh (payload) VALUES ('first')")
    running = pipeline.start()
    pipeline.wait_for_rows(1, running)
    reader = Reader(bootstrap, f"{prefix}.{DATABASE}.fresh")
    reader.start()
    reader.wait(1)
    bench.say(f"freshness: {RATE:,} rows/s for {WARM_S + seconds} s")
    load, before = OtherLoad([bench.server_pid]), cpu_of_tree(running.pid)
    committed, took = write_steadily(bench, "fresh", WARM_S + seconds)
    cpu = cpu_of_tree(running.pid) - before
    reader.wait(1 + len(committed))
    other = load.cores(cpu)
    reader.end()
    checked(running, running.stop())
    every = np.array(reader.came[1:]) - committed
    first, delays = every[: RATE * WARM_S], every[RATE * WARM_S :]
    p50, p99 = np.percentile(delays, [50, 99])
    warm_up = dict(zip(("p50_s", "p99_s", "max_s"), np.percentile(first, [50, 99, 100]).round(3).tolist(), strict=True))
    batches = [batch for batch in pipeline.batches() if batch.rows]
    return {
        "rows": len(delays), "rows_per_s": round(len(committed) / (committed[-1] - committed[0])),
        "p50_s": round(float(p50), 3), "p99_s": round(float(p99), 3), "max_s": round(float(delays.max()), 3),
        "warm_up": warm_up, "commit_p99_s": round(float(np.percentile(took, 99)), 3), "batches": len(batches),
        "batch_s_median": round(float(np.median([batch.done - batch.planned for batch in batches])), 3),
        "cpu_cores": round(cpu / (committed[-1] - committed[0]), 2), "other_cores": other,
    }  # fmt: skip


if __name__ == "__main__":
    main()
