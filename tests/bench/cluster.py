"""The whole tool on a Spark standalone cluster of two workers of one core each, beside `local[2]`.

Both have the same cores: workers, driver and server are on this machine. The workers do not see the driver's folders.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import Batch, Pipeline, Sink
from readers import Bench
from workload import Generator

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "job")]

from standalone import SETTINGS, can_hide, standalone  # noqa: E402

Figures = dict[str, Any]
_ROUNDS = 3
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LOCAL, CLUSTER = "local[2]", "2 workers"


def cluster(bench: Bench, generator: Generator, rows: int, sinks: Mapping[str, Sink] | None = None) -> Figures:
    """The same inserts by each in turn, a few times. Needs the table `orders` with rows.

    `sinks` are pipeline files' sinks by name, `{run}` in their texts is different in each run; DuckDB without.
    """
    start = generator.place()
    bench.say(f"cluster: writing {rows:,} rows")
    generator.large_table(rows)
    own = bench.folder / "driver"
    own.mkdir()
    found: Figures = {}
    with standalone(bench.folder / "cluster", hidden=own if can_hide() else None) as workers:
        on_cluster = {**dict(pair.split("=") for pair in SETTINGS.split(";")), **_HERE}
        masters = {LOCAL: (LOCAL, {}), CLUSTER: (workers.url, on_cluster)}
        for name, sink in (sinks or {"duckdb": None}).items():
            rates: dict[str, list[float]] = {each: [] for each in masters}
            whole: dict[str, list[float]] = {each: [] for each in masters}
            for number in range(min(_ROUNDS, bench.repeat)):
                for each, (master, settings) in masters.items():
                    bench.say(f"cluster: {name}, {each}, round {number + 1}")
                    run = f"{name}-{number}-{'local' if each == LOCAL else 'cluster'}"
                    pipeline = Pipeline(own / run, bench.server, r"orders\.*", start, _named(sink, run))
                    batches = _run(pipeline, master, settings, rows)
                    rates[each].append(_steady(batches))
                    whole[each].append(rows / (batches[-1].done - batches[0].planned))
            found[name] = {"at": {each: {
                "rows_per_s": round(statistics.median(whole[each])),
                "rows_per_s_after_first_batch": round(statistics.median(rates[each])),
                "of_all": [round(rate) for rate in rates[each]],
            } for each in masters}}  # fmt: skip
            found[name]["ratio"] = round(statistics.median(rates[CLUSTER]) / statistics.median(rates[LOCAL]), 2)
    generator.run("DROP TABLE orders_large")
    return found


def _named(sink: Sink, run: str) -> Sink:
    if sink is None:
        return None
    return {key: value.replace("{run}", run) if isinstance(value, str) else value for key, value in sink.items()}


def _run(pipeline: Pipeline, master: str, settings: Mapping[str, str], rows: int) -> list[Batch]:
    running = pipeline.start("--until-caught-up", "--master", master, spark=settings)
    spent = running.wait()
    batches = pipeline.batches()
    if spent.code or sum(batch.rows for batch in batches) != rows:
        raise RuntimeError(f"{sum(batch.rows for batch in batches)} of {rows} rows arrived: {running.words()}")
    return batches


def _steady(batches: list[Batch]) -> float:
    """Rows per second behind the first batch, which starts workers and loads kernels."""
    later = batches[1:]
    return sum(batch.rows for batch in later) / (later[-1].done - batches[0].done)
