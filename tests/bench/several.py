"""Measurement of several sinks: the same inserts into one DuckDB file, and into two."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pipeline import Pipeline
from readers import Bench, per_million
from spend import cpu_of
from workload import DATABASE, Generator, LogEnd, Workload

Figures = dict[str, Any]
SINKS: Mapping[str, Sequence[str]] = {"one sink": ["a"], "two sinks": ["b", "c"]}
ROUNDS = 3


@dataclass(frozen=True, slots=True)
class _Run:
    """What one catching up has cost: CPU of all processes of the tool, and of the server; and what the server sent."""

    cpu_s: float
    server_cpu_s: float
    sent_bytes: int
    wall_s: float
    other_cores: float


def several_sinks(bench: Bench, generator: Generator, rows: int) -> Figures:
    """CPU of the whole tool, its start subtracted, and bytes that the server has sent for each byte of its log. All in
    turn, each run with a state of its own, from the same place of the log. Needs the table `orders` with rows."""
    generator.run(f"DROP TABLE IF EXISTS {DATABASE}.one_several")
    generator.run("CREATE TABLE one_several (id INT PRIMARY KEY)")
    bench.say(f"several sinks: writing {rows:,} rows")
    workload = generator.large_table(rows)
    end = generator.new_file()  # the GTIDs of a place inside of a file are found by reading up to there
    generator.run("INSERT INTO one_several VALUES (1)")
    runs: dict[tuple[str, int], list[_Run]] = {}
    for number in range(min(ROUNDS, bench.repeat)):
        for name, sinks in SINKS.items():
            for start, wanted in ((end, 0), (workload.start, rows)):
                bench.say(f"several sinks: {name}, {wanted:,} rows, round {number + 1}")
                folder = bench.folder / f"several-{number}-{len(sinks)}-{wanted}"
                found = _run(bench, generator, folder, start, sinks, wanted)
                runs.setdefault((name, wanted), []).append(found)
    generator.run("DROP TABLE orders_large")
    figures = {name: _figures(runs[name, 0], runs[name, rows], workload) for name in SINKS}
    one, two = figures.values()
    ratios = {name: round(two[name] / one[name], 2) for name in ("cpu_s_per_million", "server_cpu_s_per_million")}
    return {"runs": figures, "ratios": ratios}


def _run(bench: Bench, generator: Generator, folder: Path, start: LogEnd, sinks: Sequence[str], wanted: int) -> _Run:
    """Catch up from a place in the log. Raises RuntimeError when a sink has not got all rows."""
    blocks = [{"name": each, "type": "duckdb", "path": str(folder / f"{each}.duckdb")} for each in sinks]
    pipeline = Pipeline(folder, bench.server, r"(one_several|orders_large)", start, blocks)
    server_cpu_s, sent = cpu_of(bench.server_pid), _sent(generator)
    spent = pipeline.catch_up()
    run = _Run(
        spent.cpu_s, cpu_of(bench.server_pid) - server_cpu_s, _sent(generator) - sent, spent.wall_s, spent.other_cores
    )
    for each in sinks:
        _check(folder / f"{each}.duckdb", {"one_several": 1, "orders_large": wanted})
    shutil.rmtree(folder)
    return run


def _check(file: Path, wanted: Mapping[str, int]) -> None:
    with duckdb.connect(str(file), read_only=True) as connection:
        for table, rows in wanted.items():
            row = connection.execute(f"SELECT count(*) FROM {DATABASE}.{table}").fetchone() or (0,)
            if row[0] != rows:
                raise RuntimeError(f"{file.name}: {row[0]} rows of {rows} in {table}")


def _sent(generator: Generator) -> int:
    return int(generator.run("SHOW GLOBAL STATUS LIKE 'Bytes_sent'")[0][1])


def _figures(starts: Sequence[_Run], runs: Sequence[_Run], workload: Workload) -> Figures:
    """Medians; what a start costs is subtracted."""

    def median(of: Sequence[_Run], name: str) -> float:
        return statistics.median(getattr(each, name) for each in of)

    def beyond_start(name: str) -> float:
        return max(0.0, median(runs, name) - median(starts, name))

    return {
        "cpu_s_per_million": per_million(beyond_start("cpu_s"), workload.rows),
        "server_cpu_s_per_million": per_million(beyond_start("server_cpu_s"), workload.rows),
        "log_sent": round(beyond_start("sent_bytes") / workload.bytes, 2),
        "start_cpu_s": median(starts, "cpu_s"), "wall_s": median(runs, "wall_s"),
        "other_cores": median(runs, "other_cores"), "cpu_s_of_all": [round(run.cpu_s, 2) for run in runs],
    }  # fmt: skip
