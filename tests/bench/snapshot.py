"""Measurements i: the snapshot: reading to Arrow, the whole tool into two sinks, memory, and how writers fare."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from live import write_steadily
from loads import sink_of
from pipeline import Pipeline, Sink, checked
from read_snapshot import snapshot_read
from readers import Bench, address, per_million
from workload import DATABASE, Generator

from cdc_standins import start

Figures = dict[str, Any]
ROWS = 1_000_000
LARGE = 10
WRITE_S = 15
WRITE_ROUNDS = 3


def snapshot(bench: Bench, generator: Generator, factor: float) -> Figures:
    """All measurements, over an `orders` table of a million rows times `factor`."""
    rows = max(10_000, int(ROWS * factor) // 1000 * 1000)
    generator.create_tables()
    bench.say(f"snapshot: writing {rows:,} rows")
    generator.workload("orders_insert", rows)
    bench.say("snapshot: reading to Arrow")
    found: Figures = {"rows": rows, "read": snapshot_read(bench, "orders", rows)}
    idle = _start_up(bench, generator)
    found["start_up_cpu_s"] = idle
    found["duckdb"] = _copied(bench, "orders", rows, idle)
    _enlarge(bench, generator, rows)
    found["large_duckdb"] = _copied(bench, "large", LARGE * rows, idle)
    with start("doris", bench.folder / "snapshot-counting", count_only=True) as standin:
        found["large_doris"] = _copied(bench, "large", LARGE * rows, idle, sink_of(standin), sample=False)
    found["writers"] = _writers(bench, generator)
    return found


def _start_up(bench: Bench, generator: Generator) -> float:
    generator.run("DROP TABLE IF EXISTS nearly_empty; CREATE TABLE nearly_empty (id INT PRIMARY KEY)")
    generator.run("INSERT INTO nearly_empty VALUES (1)")
    bench.say("snapshot: one row")
    for name in ("first", "second"):  # the first one may compile kernels
        spent = Pipeline(bench.folder / f"snapshot-{name}", bench.server, "nearly_empty", None).catch_up()
    return spent.cpu_s


def _copied(
    bench: Bench, table: str, rows: int, idle_cpu_s: float, sink: Sink = None, *, sample: bool = True
) -> Figures:
    """`sample` adds the peak of the memory, and takes some percent of the machine while it looks."""
    kind = "duckdb" if sink is None else sink["type"]
    bench.say(f"snapshot: {rows:,} rows into {kind}")
    pipeline = Pipeline(bench.folder / f"snapshot-{table}-{kind}", bench.server, table, None, sink)
    spent = pipeline.catch_up(sample=sample)
    batches = [batch for batch in pipeline.batches() if batch.rows]
    copied = sum(batch.rows for batch in batches)
    if copied != rows:
        raise RuntimeError(f"{copied} rows arrived of {rows}")
    wall = batches[-1].done - batches[0].planned
    later = batches[1:]
    steady = sum(batch.rows for batch in later) / (later[-1].done - batches[0].done) if later else None
    return {
        "rows": rows, "batches": len(batches), "wall_s": round(wall, 3), "rows_per_s": round(rows / wall),
        "rows_per_s_after_first_batch": steady and round(steady), "cpu_s": spent.cpu_s,
        "cpu_s_per_million": per_million(max(0.0, spent.cpu_s - idle_cpu_s), rows), "pss_mb": spent.pss_mb,
        "other_cores": spent.other_cores,
    }  # fmt: skip


def _enlarge(bench: Bench, generator: Generator, rows: int) -> None:
    """The table `large`, with every order LARGE times."""
    bench.say(f"snapshot: writing {LARGE * rows:,} rows")
    columns = ", ".join(
        str(row[0]) for row in generator.run("SHOW COLUMNS FROM orders") if "auto_increment" not in str(row[5])
    )
    generator.run("DROP TABLE IF EXISTS large; CREATE TABLE large LIKE orders; SET SESSION sql_log_bin = 0")
    for _ in range(LARGE):
        generator.run(f"INSERT INTO large ({columns}) SELECT {columns} FROM orders")
    generator.run("SET SESSION sql_log_bin = 1")


def _writers(bench: Bench, generator: Generator) -> Figures:
    """Commit times of a writer into a table alone, and while that table, as long as `large`, is copied.

    Medians of rounds: the same writer alone differs by a factor of three from one quarter of an hour to the next.
    """
    generator.run("DROP TABLE IF EXISTS busy; CREATE TABLE busy (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload TEXT)")
    generator.run("SET SESSION sql_log_bin = 0")
    generator.run(f"INSERT INTO busy (payload) SELECT repeat('x', 80) FROM {DATABASE}.large")
    generator.run("SET SESSION sql_log_bin = 1")
    waits = _lock_waits(generator)
    times: dict[str, list[float]] = {"alone": [], "beside_select": [], "beside": [], "beside_background": []}
    for number in range(min(WRITE_ROUNDS, bench.repeat)):
        times["alone"].append(_p99(bench, "a writer alone", lambda: None))
        times["beside_select"].append(_beside_select(bench))
        times["beside"].append(_beside(bench, number))
        times["beside_background"].append(_beside(bench, number, "--background"))
    found: Figures = {}
    for name, p99s in times.items():
        found |= {f"p99_{name}_ms": round(statistics.median(p99s), 2), f"p99_{name}_all_ms": p99s}
    return {**found, "lock_waits": _lock_waits(generator) - waits}


def _beside_select(bench: Bench) -> float:
    """While one connection reads the table and throws it away."""
    script = Path(__file__).with_name("read_plain.py")
    given = {"server": address(bench.server), "table": "busy"}
    with subprocess.Popen([sys.executable, str(script), json.dumps(given)]) as reader:
        try:
            return _p99(bench, "the writer beside a plain SELECT", lambda: None)
        finally:
            reader.terminate()


def _beside(bench: Bench, number: int, *flags: str) -> float:
    """While the table is copied."""
    pipeline = Pipeline(bench.folder / f"snapshot-busy-{number}{''.join(flags)}", bench.server, "busy", None)
    running = pipeline.start(*flags)
    what = " ".join(["the writer beside it", *flags])
    found = _p99(bench, what, lambda: pipeline.wait_for_rows(1, running))
    checked(running, running.stop())
    return found


def _p99(bench: Bench, what: str, begin: Callable[[], None]) -> float:
    begin()
    bench.say(f"snapshot: {what}, {WRITE_S} s")
    _, times = write_steadily(bench, "busy", WRITE_S)
    return round(1000 * float(np.percentile(times, 99)), 3)


def _lock_waits(generator: Generator) -> int:
    return int(generator.run("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'")[0][1])
