"""Measurement of several sinks: the same inserts into one DuckDB file, and into two."""

from __future__ import annotations

from typing import Any

from pipeline import Pipeline
from readers import Bench, per_million
from workload import DATABASE, Generator

Figures = dict[str, Any]


def several_sinks(bench: Bench, generator: Generator, rows: int) -> Figures:
    """CPU of the whole tool, its start subtracted. Needs the table `orders` with rows."""
    place, found = generator.place(), dict[str, Any]()
    pipelines = {}
    for name, sinks in (("one sink", ["a"]), ("two sinks", ["b", "c"])):
        folder = bench.folder / name.replace(" ", "-")
        sink = [{"name": each, "type": "duckdb", "path": str(folder / f"{each}.duckdb")} for each in sinks]
        pipelines[name] = Pipeline(folder, bench.server, rf"one_several,{DATABASE}.orders\.*", place, sink)
    generator.run(f"DROP TABLE IF EXISTS {DATABASE}.one_several")
    generator.run("CREATE TABLE one_several (id INT PRIMARY KEY); INSERT INTO one_several VALUES (1)")
    for pipeline in pipelines.values():
        pipeline.catch_up()
    generator.run("INSERT INTO one_several VALUES (2)")
    starts = {name: pipeline.catch_up() for name, pipeline in pipelines.items()}
    bench.say(f"several sinks: writing {rows:,} rows")
    generator.large_table(rows)
    for name, pipeline in pipelines.items():
        bench.say(f"several sinks: {name}")
        spent = pipeline.catch_up()
        cpu_s = spent.cpu_s - starts[name].cpu_s
        found[name] = {
            "cpu_s_per_million": per_million(cpu_s, rows), "start_cpu_s": starts[name].cpu_s, "wall_s": spent.wall_s,
            "other_cores": spent.other_cores,
        }  # fmt: skip
    generator.run("DROP TABLE orders_large")
    one, two = (found[name]["cpu_s_per_million"] for name in pipelines)
    return {"runs": found, "cpu_ratio": round(two / one, 2)}
