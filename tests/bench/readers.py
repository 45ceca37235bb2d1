"""Measurement a: one range of the log through each reader, each in a process of its own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import engine
import peers
from spend import OtherLoad, cpu_of
from workload import DATABASE, Workload

from cdc_services.server import StartedServer
from connectors.mysql.log.log_file import read_buffers

HERE = Path(__file__).parent
Figures = dict[str, Any]
ByWorkload = dict[tuple[str, str], Figures]
"""Figures by workload and tool."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What every measurement needs: the server, the folder for its files, how often to repeat, how to say something."""

    server: StartedServer
    folder: Path
    repeat: int
    say: Callable[[str], None]
    peers: bool = True

    @property
    def server_pid(self) -> int:
        """Process id of the database server."""
        return self.server.pid or 0


Measure = Callable[[Bench, Mapping[str, Workload]], ByWorkload]


def decode(bench: Bench, workloads: Mapping[str, Workload], warm: Sequence[Workload]) -> Figures:
    """Rows/s, CPU s per million rows and peak RSS of every reader on every workload, the median of `bench.repeat` runs.

    A machine is twice as fast in one minute as in the next: all are measured in turn, so that each meets all of it. The
    Python peer, which takes minutes, is run once.
    """
    runs: dict[tuple[str, str], list[Figures]] = {}
    skipped: dict[str, str] = {}
    for number in range(bench.repeat):
        rounds = [("cdc", _readers(warm)), ("Debezium", engine.measure)]
        if number == 0:
            rounds.append(("python-mysql-replication", _python_peer))
        for tool, measure in rounds:
            if tool in skipped or (tool != "cdc" and not bench.peers):
                continue
            bench.say(f"round {number + 1} of {bench.repeat}: {tool}")
            try:
                for key, figures in measure(bench, workloads).items():
                    runs.setdefault(key, []).append(figures)
            except peers.PeerMissing as reason:
                skipped[tool] = str(reason)
    found: Figures = {name: {} for name in workloads}
    for (name, tool), figures_of_all in runs.items():
        found[name][tool] = _median(figures_of_all)
    return {"workloads": found, "skipped": skipped}


def _readers(warm: Sequence[Workload]) -> Measure:
    """Our decoder and the raw drain."""

    def measure(bench: Bench, workloads: Mapping[str, Workload]) -> ByWorkload:
        return {
            (name, tool): _read(bench, sys.executable, script, workload, warm)
            for name, workload in workloads.items()
            for tool, script in (("cdc", "read_cdc.py"), ("raw drain", "read_raw.py"))
        }

    return measure


def _python_peer(bench: Bench, workloads: Mapping[str, Workload]) -> ByWorkload:
    python = str(peers.python_of_peers())
    return {
        (name, "python-mysql-replication"): _read(bench, python, "read_pymysqlreplication.py", workload, ())
        for name, workload in workloads.items()
    }


def range_of(bench: Bench, workload: Workload) -> Figures:
    """The range as the reader scripts get it."""
    file = bench.server.datadir / workload.start.file
    events = sum(len(chunk) for chunk in read_buffers(file, workload.start.position, workload.end.position))
    start, end = workload.start, workload.end
    return {
        "table": workload.table, "file": start.file, "start": start.position, "end": end.position,
        "rows": workload.rows, "events": events,
    }  # fmt: skip


def address(server: StartedServer) -> dict[str, Any]:
    """The server as the reader scripts get it."""
    return {
        "host": server.host, "port": server.port, "user": server.user, "password": server.password,
        "database": DATABASE,
    }  # fmt: skip


def per_million(cpu_s: float, rows: int) -> float:
    """CPU seconds per million rows."""
    return round(cpu_s * 1e6 / rows, 3)


def _read(bench: Bench, python: str, script: str, workload: Workload, warm: Sequence[Workload]) -> Figures:
    given = {
        "server": address(bench.server),
        "warm": [range_of(bench, part) for part in warm],
        "range": range_of(bench, workload),
    }
    load, server_cpu = OtherLoad([bench.server_pid]), cpu_of(bench.server_pid)
    done = subprocess.run([python, str(HERE / script), json.dumps(given)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{script} failed: {done.stderr.strip()[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    if figures["rows"] != workload.rows:
        raise RuntimeError(f"{script} read {figures['rows']} rows of {workload.rows}")
    figures["other_cores"] = load.cores(figures["process_cpu_s"])
    figures["server_cpu_s"] = round(cpu_of(bench.server_pid) - server_cpu, 2)
    figures["rows_per_s"] = round(workload.rows / figures["wall_s"])
    figures["cpu_s_per_million"] = per_million(figures["cpu_s"], workload.rows)
    return figures


def _median(runs: Sequence[Figures]) -> Figures:
    """The run with the median CPU time, with the range of the others; of runs without a figure, the first."""
    measured = [run for run in runs if "skipped" not in run]
    if not measured:
        return runs[0]
    ordered = sorted(measured, key=lambda run: run["cpu_s_per_million"])
    chosen = dict(ordered[(len(ordered) - 1) // 2])
    chosen["runs"] = len(measured)
    chosen["cpu_s_per_million_range"] = [ordered[0]["cpu_s_per_million"], ordered[-1]["cpu_s_per_million"]]
    chosen["rows_per_s"] = round(statistics.median(run["rows_per_s"] for run in measured))
    return chosen


def described(workload: Workload) -> Figures:
    """A workload for the report."""
    return {**asdict(workload), "bytes": workload.bytes}
