"""Measurements c, e, g: a pipeline that keeps running: freshness, a batch of a thousand tables, an idle pipeline."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pipeline import Batch, Middle, Pipeline, Sink, checked
from readers import Bench, address
from spend import Contained, OtherLoad, cpu_of_tree
from workload import DATABASE, Generator

Figures = dict[str, Any]
RATE = 2000
WARM_S = 5


def freshness_and_idle(
    bench: Bench,
    generator: Generator,
    seconds: int,
    idle_s: int,
    name: str = "fresh",
    sink: Sink = None,
    rate: int = RATE,
) -> tuple[Figures, Figures]:
    """Rows that come one by one while the pipeline runs, then the same pipeline with nothing to do."""
    generator.run(f"DROP TABLE IF EXISTS {DATABASE}.fresh")
    generator.run(f"CREATE TABLE {DATABASE}.fresh (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(100))")
    pipeline = Pipeline(bench.folder / name, bench.server, "fresh", generator.place(), sink)
    generator.run("INSERT INTO fresh (payload) VALUES ('first')")
    running = pipeline.start()
    pipeline.wait_for_rows(1, running)
    bench.say(f"freshness: {rate:,} rows/s for {WARM_S + seconds} s")
    load, cpu = OtherLoad([bench.server_pid]), cpu_of_tree(running.pid)
    committed, _ = write_steadily(bench, "fresh", WARM_S + seconds, rate)
    fresh_cpu, wall = cpu_of_tree(running.pid) - cpu, committed[-1] - committed[0]
    pipeline.wait_for_rows(1 + len(committed), running)
    other = load.cores(fresh_cpu)
    bench.say(f"idle: {idle_s} s")
    time.sleep(3)
    idle = _idle(bench, running, idle_s)
    checked(running, running.stop())
    delays = _delays(committed, pipeline.batches())[rate * WARM_S :]
    p50, p99 = np.percentile(delays, [50, 99])
    batches = [batch for batch in pipeline.batches() if batch.rows]
    fresh = {
        "rows": len(delays), "rows_per_s": round(len(committed) / wall), "p50_s": round(float(p50), 3),
        "p99_s": round(float(p99), 3), "max_s": round(float(delays.max()), 3),
        "batch_s_median": round(float(np.median([batch.done - batch.planned for batch in batches])), 3),
        "batches": len(batches), "cpu_cores": round(fresh_cpu / wall, 2), "other_cores": other,
    }  # fmt: skip
    return fresh, idle


def _idle(bench: Bench, running: Contained, seconds: int) -> Figures:
    load, before, started = OtherLoad([bench.server_pid]), cpu_of_tree(running.pid), time.monotonic()
    time.sleep(seconds)
    cpu, wall = cpu_of_tree(running.pid) - before, time.monotonic() - started
    return {"percent_of_a_core": round(100 * cpu / wall, 2), "seconds": seconds, "other_cores": load.cores(cpu)}


def write_steadily(bench: Bench, table: str, seconds: int, rate: int = RATE) -> Any:
    """One-row transactions into a table at a rate: when each was committed, and how long that took."""
    out = bench.folder / "committed.npy"
    server = address(bench.server)
    given = {"server": server, "table": table, "rate": rate, "seconds": seconds, "out": str(out)}
    script = Path(__file__).with_name("write_steadily.py")
    subprocess.run([sys.executable, str(script), json.dumps(given)], check=True)
    return np.load(out)


def _delays(committed: Any, batches: list[Batch]) -> Any:
    """Seconds from each row's commit to the end of the batch that has it: one writer, so ids are in log order."""
    with_rows = [batch for batch in batches if batch.rows]
    sizes = [batch.rows for batch in with_rows]
    visible = np.repeat([batch.done for batch in with_rows], sizes)[1:]  # without the first row, sent before
    if len(visible) != len(committed):
        raise RuntimeError(f"{len(visible)} of {len(committed)} rows arrived")
    return visible - committed


def many_tables(
    bench: Bench,
    generator: Generator,
    tables: int,
    rows: int = 10,
    name: str = "many",
    sink: Sink = None,
    middle: Middle = None,
) -> Figures:
    """One transaction that writes `rows` rows into each of `tables` tables, once they exist in the sink.

    No two rows have the same id, so that all may go into one table.
    """
    bench.say(f"{tables:,} tables: creating")
    for number in range(tables):
        generator.run(
            f"DROP TABLE IF EXISTS {DATABASE}.many_{number:04d}; "
            f"CREATE TABLE many_{number:04d} (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(40), c DATETIME)"
        )
    pipeline = Pipeline(bench.folder / name, bench.server, r"many_\.*", generator.place(), sink, middle)
    events = bench.folder / f"events-{name}"
    events.mkdir()
    running = pipeline.start(
        spark={
            "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        }
    )  # fmt: skip
    generator.run("INSERT INTO many_0000 (a) VALUES (1)")  # its id is 1
    pipeline.wait_for_rows(1, running)
    bench.say(f"{tables:,} tables: one transaction")
    load, cpu = OtherLoad([bench.server_pid]), cpu_of_tree(running.pid)
    inserts = [_insert(number, rows) for number in range(tables)]
    generator.run(";".join(["BEGIN", *inserts, "COMMIT"]))
    committed = time.time()
    pipeline.wait_for_rows(1 + tables * rows, running)
    cpu = cpu_of_tree(running.pid) - cpu
    other = load.cores(cpu)
    checked(running, running.stop())
    batches = pipeline.batches()
    touched = batches[-1]
    return {
        "tables": tables, "rows": touched.rows, "batch_s": round(touched.done - touched.planned, 3),
        "run_s": touched.run_s, "visible_after_s": round(touched.done - committed, 3),
        "spark_jobs": spark_jobs(events, touched.number), "cpu_s": round(cpu, 2), "other_cores": other,
        "creation_batch_s": round(batches[0].done - batches[0].planned, 3),
    }  # fmt: skip


def _insert(table: int, rows: int) -> str:
    values = ",".join(
        f"({2 + table * rows + row},{row},'row {row}','2026-01-01 00:00:{row:02d}')" for row in range(rows)
    )
    return f"INSERT INTO many_{table:04d} (id, a, b, c) VALUES {values}"


def spark_jobs(events: Path, batch: int) -> int:
    """Spark jobs of a batch, by Spark's event log."""
    jobs = 0
    for file in events.iterdir():
        for line in file.read_text().splitlines():
            if "SparkListenerJobStart" in line:
                properties = json.loads(line).get("Properties", {})
                jobs += properties.get("streaming.sql.batchId") == str(batch)
    return jobs
