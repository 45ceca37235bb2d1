"""The Debezium engine on our ranges: fresh (JIT compiling) and warm (what a long-running process costs).

Each range is read by a fresh JVM. Besides, one JVM reads the three ranges of `orders` one after the other: there the
updates and deletes meet warm code. Warm figures of the inserts are those of the second half of the rows.
"""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peers
from spend import OtherLoad
from workload import DATABASE, Workload

if TYPE_CHECKING:
    from readers import Bench

FRESH, WARM = "Debezium, fresh", "Debezium, warm"
HEAP = ("-Xms256m", "-Xmx2g")
_FULL_BATCH = 2048
_ORDERS = ("orders_insert", "orders_update", "orders_delete")


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a batch: rows so far, rows in it, wall and CPU seconds."""

    rows: int
    batch: int
    wall_s: float
    cpu_s: float


def measure(bench: Bench, workloads: Mapping[str, Workload]) -> dict[tuple[str, str], dict[str, Any]]:
    """Figures by (workload, tool). Raises PeerMissing."""
    java, class_path = peers.debezium()
    found: dict[tuple[str, str], dict[str, Any]] = {}
    chain = [workloads[name] for name in _ORDERS if name in workloads]
    first = 0
    if chain:
        bench.say("Debezium: orders, all three ranges in one JVM")
        run = _run(bench, java, class_path, chain)
        for workload in chain:
            half = workload.rows // 2 if workload.name == "orders_insert" else 0
            if workload.name == "orders_insert":
                found[workload.name, FRESH] = run.figures(first, first + workload.rows)
            found[workload.name, WARM] = run.figures(first + half, first + workload.rows)
            first += workload.rows
    for name, workload in workloads.items():
        if name == "orders_insert":
            continue
        bench.say(f"{name}: Debezium")
        run = _run(bench, java, class_path, [workload])
        found[name, FRESH] = run.figures(0, workload.rows)
        if name == "sbtest_insert":
            found[name, WARM] = run.figures(workload.rows // 2, workload.rows)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    marks: Sequence[Mark]
    rss_mb: float
    other_cores: float

    def figures(self, low: int, high: int) -> dict[str, Any]:
        """Between the first and the last full batch that ends inside rows `low` to `high`.

        The last batch before the end of what there is may be a partial one that waited for more: it is left out.
        """
        inside = [mark for mark in self.marks if low < mark.rows <= high]
        if len(inside) > 2 and inside[-1].batch < _FULL_BATCH:
            inside.pop()
        if len(inside) < 2:
            return {"skipped": f"only {len(inside)} batches: too few rows"}
        first, last = inside[0], inside[-1]
        rows, wall, cpu = last.rows - first.rows, last.wall_s - first.wall_s, last.cpu_s - first.cpu_s
        return {
            "rows": rows, "wall_s": round(wall, 4), "cpu_s": round(cpu, 4), "rss_mb": self.rss_mb,
            "rows_per_s": round(rows / wall), "cpu_s_per_million": round(cpu * 1e6 / rows, 3),
            "other_cores": self.other_cores,
        }  # fmt: skip


def _run(bench: Bench, java: Path, class_path: str, workloads: Sequence[Workload]) -> _Run:
    folder = bench.folder / "debezium"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    start, server = workloads[0].start, bench.server
    settings = {
        "folder": folder, "host": server.host, "port": server.port, "user": server.user, "password": server.password,
        "database": DATABASE, "tables": f"{DATABASE}.{workloads[0].table}", "file": start.file,
        "position": start.position, "gtids": start.gtids.replace(":", "\\:"),
        "rows": sum(workload.rows for workload in workloads),
    }  # fmt: skip
    file = folder / "settings.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    logging = Path(__file__).with_name("debezium") / "log4j2.properties"
    load = OtherLoad([bench.server_pid])
    done = subprocess.run(
        [str(java), *HEAP, f"-Dlog4j2.configurationFile={logging}", "-cp", class_path, "EngineRun", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise peers.PeerMissing(f"the engine ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    with (folder / "marks.csv").open() as lines:
        marks = [Mark(int(a), int(b), int(c) / 1e9, int(d) / 1e9) for a, b, c, d in csv.reader(lines)]
    return _Run(marks, int(done.stdout.split()[-1]) / 1024, load.cores(marks[-1].cpu_s))
