"""The whole tool on a Spark standalone cluster of two workers of one core each, beside `local[2]`.

Both have the same cores: workers, driver and server are on this machine. The workers do not see the driver's folders.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loads import sink_of
from pipeline import Pipeline, Sink, checked
from readers import Bench, per_million
from spend import cpu_of_tree
from workload import Generator

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "job")]

from standalone import SETTINGS, Cluster, can_hide, standalone  # noqa: E402

from cdc_standins import start  # noqa: E402

Figures = dict[str, Any]
_ROUNDS = 3
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LOCAL, CLUSTER = "local[2]", "2 workers"
STAND_IN = "a doris stand-in"
_CPU = "cpu_s_per_million_after_first_batch"


def cluster(bench: Bench, generator: Generator, rows: int) -> Figures:
    """The same inserts by each in turn, a few times, into each sink. Needs the table `orders` with rows."""
    began = generator.place()
    bench.say(f"cluster: writing {rows:,} rows")
    generator.large_table(rows)
    own = bench.folder / "driver"
    own.mkdir()
    found: Figures = {}
    with standalone(bench.folder / "cluster", hidden=own if can_hide() else None) as workers:
        on_cluster = {**dict(pair.split("=") for pair in SETTINGS.split(";")), **_HERE}
        masters = {LOCAL: (LOCAL, {}), CLUSTER: (workers.url, on_cluster)}
        for name in ("DuckDB", STAND_IN):
            runs: dict[str, list[Figures]] = {each: [] for each in masters}
            for number in range(min(_ROUNDS, bench.repeat)):
                for each, (master, settings) in masters.items():
                    bench.say(f"cluster: {name}, {each}, round {number + 1}")
                    run = f"{name.replace(' ', '-')}-{number}-{'local' if each == LOCAL else 'cluster'}"
                    with _sink(name, bench.folder / f"into-{run}") as sink:
                        pipeline = Pipeline(own / run, bench.server, r"orders\.*", began, sink)
                        runs[each].append(_run(pipeline, master, settings, rows, workers))
            at = {each: _medians(runs[each]) | {"of_all": runs[each]} for each in masters}
            found[name] = {
                "at": at, "ratio": _ratio(at, "rows_per_s_after_first_batch"), "cpu_ratio": _ratio(at, _CPU),
            }  # fmt: skip
    generator.run("DROP TABLE orders_large")
    return found


@contextmanager
def _sink(name: str, folder: Path) -> Iterator[Sink]:
    """A sink that has seen no run; None is DuckDB. The stand-in counts what it is sent, so it takes little of the
    machine."""
    if name != STAND_IN:
        yield None
        return
    with start("doris", folder, count_only=True) as standin:
        yield sink_of(standin)


def _run(pipeline: Pipeline, master: str, settings: Mapping[str, str], rows: int, workers: Cluster) -> Figures:
    """What comes after the first batch with rows, which starts workers and loads kernels: rows and CPU seconds."""

    def spent_by_workers() -> float:
        return sum(cpu_of_tree(worker.process.pid) for worker in workers.workers)

    running = pipeline.start("--master", master, spark=settings)
    pipeline.wait_for_rows(1, running, timeout_s=600)
    before = cpu_of_tree(running.pid) + spent_by_workers()
    seen = sum(batch.rows for batch in pipeline.batches())
    pipeline.wait_for_rows(rows, running, timeout_s=1200)
    after = cpu_of_tree(running.pid) + spent_by_workers()  # of processes that all live yet
    spent = checked(running, running.stop())
    batches = [batch for batch in pipeline.batches() if batch.rows]  # the others are changes of schemas
    if sum(batch.rows for batch in batches) != rows:
        raise RuntimeError(f"{sum(batch.rows for batch in batches)} of {rows} rows arrived")
    if seen == rows:
        raise RuntimeError("all rows came in the first batch, which tells nothing: ask for more --rows")
    later = batches[1:]
    return {
        "rows_per_s": round(rows / (batches[-1].done - batches[0].planned)),
        "rows_per_s_after_first_batch": round(sum(each.rows for each in later) / (later[-1].done - batches[0].done)),
        _CPU: round(per_million(after - before, rows - seen), 2),
        "other_cores": spent.other_cores,
    }


def _medians(runs: list[Figures]) -> Figures:
    return {what: round(statistics.median(run[what] for run in runs), 2) for what in runs[0]}


def _ratio(at: Mapping[str, Figures], what: str) -> float:
    return round(at[CLUSTER][what] / at[LOCAL][what], 2)
