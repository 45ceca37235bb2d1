"""Measurements b, d: the whole tool, from the server's log through Spark into DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import Middle, Pipeline, Sink, checked
from readers import Bench, per_million
from workload import DATABASE, Generator, Workload, copies_of_orders

Figures = dict[str, Any]
_START_UPS = 3


class WholeTool:
    """One pipeline that catches up after each workload is written, so that each run has exactly that one to read."""

    def __init__(
        self, bench: Bench, generator: Generator, name: str = "whole", sink: Sink = None, middle: Middle = None
    ) -> None:
        """`name` is also that of the table of one row, which is this tool's alone."""
        self._bench, self._generator, self._name = bench, generator, name
        tables = rf"one_{name},{DATABASE}.(orders|sbtest)\.*"
        self._pipeline = Pipeline(bench.folder / name, bench.server, tables, generator.place(), sink, middle)
        self.start_up: Figures = {}

    def begin(self) -> None:
        """A run over one row: what starting and stopping cost, Spark, Java, workers and kernels included."""
        one = f"one_{self._name}"
        self._generator.run(f"DROP TABLE IF EXISTS {one}")
        self._generator.run(f"CREATE TABLE {one} (id INT PRIMARY KEY); INSERT INTO {one} VALUES (1)")
        self._pipeline.catch_up()
        runs = []
        for number in range(min(self._bench.repeat, _START_UPS)):
            self._generator.run(f"INSERT INTO {one} VALUES ({number + 2})")
            self._bench.say(f"{self._name}: one row")
            runs.append(self._pipeline.catch_up())
        spent = sorted(runs, key=lambda run: run.cpu_s)[len(runs) // 2]
        self.start_up = {
            "wall_s": spent.wall_s, "cpu_s": spent.cpu_s, "other_cores": spent.other_cores,
            "cpu_s_of_all": [run.cpu_s for run in runs],
        }  # fmt: skip

    def measure(self, workload: Workload) -> Figures:
        """Catch up with a workload that was just written."""
        self._bench.say(f"{workload.name}: {self._name}")
        spent = self._pipeline.catch_up()
        batches = self._pipeline.batches()
        rows = sum(batch.rows for batch in batches)
        if rows != workload.rows:
            raise RuntimeError(f"{workload.name}: cdc run delivered {rows} rows of {workload.rows}")
        wall = batches[-1].done - batches[0].planned
        later = batches[1:]
        steady = sum(batch.rows for batch in later) / (later[-1].done - batches[0].done) if later else None
        return {
            "rows": rows, "batches": len(batches), "wall_s": round(wall, 3), "rows_per_s": round(rows / wall),
            "rows_per_s_after_first_batch": steady and round(steady),
            "cpu_s": spent.cpu_s, "cpu_s_per_million_all": per_million(spent.cpu_s, rows),
            "cpu_s_per_million": per_million(max(0.0, spent.cpu_s - self.start_up["cpu_s"]), rows),
            "process_wall_s": spent.wall_s, "batch_s": [round(batch.done - batch.planned, 3) for batch in batches],
            "run_s": [batch.run_s for batch in batches], "other_cores": spent.other_cores,
        }  # fmt: skip


def memory(bench: Bench, generator: Generator, sizes: Mapping[str, int]) -> Figures:
    """Peak memory of all processes of a live run that finds a backlog of each size.

    Not of one that ends when it has caught up: its reader would be gone before the last batch, the largest of a small
    backlog, is loaded.
    """
    found: Figures = {}
    for name, size in sizes.items():
        bench.say(f"memory: writing {size / 1e6:,.0f} MB of log")
        start, rows, written = copies_of_orders(generator, f"backlog_{name}", size)
        pipeline = Pipeline(bench.folder / f"memory-{name}", bench.server, f"backlog_{name}", start)
        bench.say(f"memory: reading {rows:,} rows")
        running = pipeline.start(sample=True)
        pipeline.wait_for_rows(rows, running, timeout_s=600)
        spent = checked(running, running.stop())
        batches = pipeline.batches()
        if pipeline.count(f"backlog_{name}") != rows:
            raise RuntimeError(f"{pipeline.count(f'backlog_{name}')} of {rows} rows arrived")
        wall = batches[-1].done - batches[0].planned
        found[name] = {
            "log_mb": round(written / 1e6, 1), "rows": rows, "pss_mb": spent.pss_mb,
            "anonymous_mb": spent.anonymous_mb, "pss_by_role": spent.pss_by_role,
            "cpu_by_role": spent.cpu_by_role, "batches": len(batches), "rows_per_s": round(rows / wall),
            "cpu_s": spent.cpu_s, "other_cores": spent.other_cores,
        }  # fmt: skip
        generator.run(f"DROP TABLE backlog_{name}")
    return found
