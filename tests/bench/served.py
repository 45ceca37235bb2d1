"""Measurements j: one `cdc serve` with idle pipelines, and a writer beside `cdc verify`."""

from __future__ import annotations

import json
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from live import write_steadily
from pipeline import CDC, Pipeline
from readers import Bench
from spend import Contained, OtherLoad, by_role, cpu_of_tree, processes
from workload import DATABASE, Generator

from cdc.serve.client import Served, find_server

Figures = dict[str, Any]
PIPELINES = 20
ROUNDS = 5
WRITE_S = 15
SETTLE_S = 15
"""Workers of the copies end meanwhile."""
_WAIT_S = 300.0


class Serving:
    """A `cdc serve` over a folder of pipelines, each with a table of its own into a DuckDB file of its own."""

    def __init__(self, bench: Bench, generator: Generator, count: int) -> None:
        self.folder, self._bench, self._generator = bench.folder / "served", bench, generator
        self.names = [f"served-{number:02}" for number in range(count)]
        self.folder.mkdir()
        for name in self.names:
            self.add(name)
        command = [CDC, "serve", str(self.folder), "--port", "0"]
        environ = {"BENCH_PASSWORD": bench.server.password}
        self.running = Contained(command, bench.folder / "serve", environ=environ, known=[bench.server_pid])

    def add(self, name: str) -> None:
        """A table with a row, and the file of a pipeline that copies and follows it."""
        server, table = self._bench.server, _table(name)
        self._generator.run(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id INT PRIMARY KEY)")
        self._generator.run(f"INSERT INTO {table} VALUES (1)")
        source = {
            "type": "mysql", "hostname": server.host, "port": server.port, "username": server.user,
            "password": "${BENCH_PASSWORD}", "tables": f"{DATABASE}.{table}", "tls.mode": "disabled",
            "allow-public-key-retrieval": True,
        }  # fmt: skip
        sink = {"type": "duckdb", "path": f"{name}.duckdb"}
        (self.folder / f"{name}.yaml").write_text(json.dumps({"source": source, "sink": sink}))

    @property
    def api(self) -> Served:
        """How it is asked."""
        found = find_server(self.folder / ".cdc")
        if found is None:
            raise RuntimeError(f"cdc serve has ended: {self.running.words()}")
        return found

    def insert(self, name: str) -> None:
        """One more row into a pipeline's table."""
        self._generator.run(f"INSERT INTO {_table(name)} SELECT max(id) + 1 FROM {_table(name)}")

    def wait(self, what: str, over: Callable[[], Any]) -> None:
        """Look until something is true. Raises RuntimeError when it takes too long."""
        deadline = time.monotonic() + _WAIT_S
        while not over():
            if time.monotonic() > deadline or not self.running.running:
                raise RuntimeError(f"cdc serve did not get to {what}: {self.running.words()}")
            time.sleep(0.02)

    def copied(self) -> int:
        """How many pipelines have written a row."""
        return sum(each["rows"] > 0 for each in self.api.get("pipelines")["pipelines"])

    def rows_of_run(self, name: str) -> int:
        """Rows that the run under way has committed."""
        runs = self.api.one(name)["runs"]
        return int(runs[0]["rows"]) if runs and runs[0]["ended_s"] is None else 0

    def state(self, name: str) -> str:
        """Where a pipeline is in its life."""
        return str(self.api.one(name)["state"])


class Peak:
    """The highest memory of a process tree, looked at once a second: each look reads tables of all its pages."""

    def __init__(self, pid: int) -> None:
        self._pid, self._next_s, self.highest_mb = pid, 0.0, 0.0

    def now(self) -> int:
        """PSS in MB."""
        found = sum(each.pss_mb for each in processes(self._pid).values())
        self.highest_mb = max(self.highest_mb, found)
        return round(found)

    def look(self) -> bool:
        """Keep the highest; true."""
        if time.monotonic() >= self._next_s:
            self.now()
            self._next_s = time.monotonic() + 1
        return True


def serving(bench: Bench, generator: Generator, idle_s: int) -> Figures:
    """Twenty pipelines in one server: what they cost idle, and how long it takes to end and to begin one."""
    bench.say(f"serve: {PIPELINES} pipelines")
    began = time.monotonic()
    server = Serving(bench, generator, PIPELINES)
    try:
        return {"pipelines": PIPELINES, **_measured(bench, server, idle_s, began)}
    finally:
        if server.running.running:
            server.running.stop()


def _measured(bench: Bench, server: Serving, idle_s: int, began: float) -> Figures:
    server.wait("its word", lambda: find_server(server.folder / ".cdc"))
    peak = Peak(server.running.pid)
    server.wait("every copy", lambda: peak.look() and server.copied() == PIPELINES)
    found: Figures = {"all_copied_s": round(time.monotonic() - began, 1), "copies_pss_mb": peak.now()}
    found["peak_pss_mb"] = round(peak.highest_mb)
    bench.say(f"serve: idle, {idle_s} s")
    time.sleep(SETTLE_S)
    load, before, started = OtherLoad([bench.server_pid]), processes(server.running.pid), time.monotonic()
    time.sleep(idle_s)
    now, wall = processes(server.running.pid), time.monotonic() - started
    # A process that ends meanwhile, of the copies before, has its CPU nowhere: it is left out.
    cpu = sum(each.cpu_s - (before[pid].cpu_s if pid in before else 0.0) for pid, each in now.items())
    sizes = by_role(now, "pss_mb")
    found |= {
        "percent_of_a_core": round(100 * cpu / wall, 1), "other_cores": load.cores(cpu),
        "pss_mb": round(sum(sizes.values())), "pss_by_role": sizes,
    }  # fmt: skip
    bench.say(f"serve: {ROUNDS} further pipelines, to the first row of each")
    costs = [_further(server, f"further-{number:02}", cpu / wall) for number in range(ROUNDS)]
    found |= {
        "further_cpu_s": round(statistics.median(costs), 2),
        "further_cpu_s_all": [round(each, 2) for each in costs],
    }
    bench.say(f"serve: {ROUNDS} times to an end with --drain, and from a start to a row")
    times: dict[str, list[float]] = {"drain_s": [], "drain_command_s": [], "first_row_s": []}
    for name in server.names[:ROUNDS]:
        server.insert(name)
        times["drain_s"].append(_taken(lambda name=name: _drained(server, name)))  # type: ignore[misc]
        server.insert(name)
        times["first_row_s"].append(_taken(lambda name=name: _begun(server, name)))  # type: ignore[misc]
        server.insert(name)
        command = [CDC, "stop", name, "--drain", "--state-root", str(server.folder / ".cdc")]
        times["drain_command_s"].append(_taken(lambda command=command: _run(command)))  # type: ignore[misc]
    found |= {name: round(statistics.median(taken), 2) for name, taken in times.items()}
    found |= {f"{name}_all": [round(each, 2) for each in taken] for name, taken in times.items()}
    found["end_s"] = round(_taken(server.running.stop), 2)
    return found


def _further(server: Serving, name: str, idle_cores: float) -> float:
    """CPU seconds of the server and its workers from a pipeline's file to its first commit, without what the others
    cost meanwhile."""
    before, started, copied = cpu_of_tree(server.running.pid), time.monotonic(), server.copied()
    server.add(name)
    server.wait("a row of a further pipeline", lambda: server.copied() > copied)
    return cpu_of_tree(server.running.pid) - before - idle_cores * (time.monotonic() - started)


def _drained(server: Serving, name: str) -> None:
    server.api.post(name, "drain")
    server.wait("an end", lambda: server.state(name) == "stopped")


def _begun(server: Serving, name: str) -> None:
    server.api.post(name, "start")
    server.wait("a row", lambda: server.rows_of_run(name))


def beside_verify(bench: Bench, generator: Generator, rows: int) -> Figures:
    """`cdc verify` of a table of so many rows, and commit times of a writer of another table alone and beside it.

    Medians of rounds: the same writer alone differs by a factor of three from one quarter of an hour to the next.
    """
    generator.create_tables()
    bench.say(f"verify: writing and copying {rows:,} rows")
    generator.workload("orders_insert", rows)
    generator.run("DROP TABLE IF EXISTS busy; CREATE TABLE busy (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload TEXT)")
    pipeline = Pipeline(bench.folder / "verified", bench.server, "orders", None)
    pipeline.catch_up()
    whole = _verify(bench, pipeline, sample=True).wait()
    if whole.code:
        raise RuntimeError(f"cdc verify ended with {whole.code}")
    found: Figures = {"rows": rows, "verify_s": whole.wall_s, "verify_cpu_s": whole.cpu_s, "pss_mb": whole.pss_mb}
    times: dict[str, list[float]] = {"alone": [], "beside": [], "beside_background": []}
    for _ in range(ROUNDS):
        times["alone"].append(_p99(bench, "a writer alone"))
        times["beside"].append(_beside(bench, pipeline))
        times["beside_background"].append(_beside(bench, pipeline, "--background"))
    for name, p99s in times.items():
        found |= {f"p99_{name}_ms": round(statistics.median(p99s), 2), f"p99_{name}_all_ms": p99s}
    return found


def _verify(bench: Bench, pipeline: Pipeline, *flags: str, sample: bool = False) -> Contained:
    command = [CDC, "verify", str(pipeline.file), "--state-dir", str(pipeline.state), *flags]
    environ = {"BENCH_PASSWORD": bench.server.password}
    return Contained(command, pipeline.folder / "verify", environ=environ, sample=sample, known=[bench.server_pid])


def _beside(bench: Bench, pipeline: Pipeline, *flags: str) -> float:
    """While the table is compared; the comparison may end before the writer does, and is then begun again."""
    over = threading.Event()

    def compare() -> None:
        while not over.is_set():
            _verify(bench, pipeline, *flags).wait()

    thread = threading.Thread(target=compare)
    thread.start()
    try:
        return _p99(bench, " ".join(["the writer beside cdc verify", *flags]))
    finally:
        over.set()
        thread.join()


def _p99(bench: Bench, what: str) -> float:
    bench.say(f"verify: {what}, {WRITE_S} s")
    _, times = write_steadily(bench, "busy", WRITE_S)
    return round(1000 * float(np.percentile(times, 99)), 3)


def _table(name: str) -> str:
    return name.replace("-", "_")


def _taken(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
