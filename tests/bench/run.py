"""`make bench`: measures speed and size against a real MySQL server, prints tables and writes JSON to bench-results/.

docs/benchmarks.md says what is measured and how to read it. Nothing here passes or fails by a time.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "devservers")]

import machine  # noqa: E402
import show  # noqa: E402
from cli_times import cli_times  # noqa: E402
from cluster import cluster  # noqa: E402
from databases import databases  # noqa: E402
from documents import documents  # noqa: E402
from first_minutes import first_minutes  # noqa: E402
from kafka_both import kafka  # noqa: E402
from lakes import lakes  # noqa: E402
from live import freshness_and_idle, many_tables  # noqa: E402
from loads import loads  # noqa: E402
from page import first_paint  # noqa: E402
from readers import Bench, decode, described  # noqa: E402
from rules import ruled_tables, rules  # noqa: E402
from served import beside_verify, serving  # noqa: E402
from several import several_sinks  # noqa: E402
from snapshot import snapshot  # noqa: E402
from spend import kill_all  # noqa: E402
from whole import WholeTool, memory  # noqa: E402
from whole_lakes import whole_lakes  # noqa: E402
from workload import Generator, Workload  # noqa: E402

from cdc_services.installation import find  # noqa: E402
from cdc_services.server import StartedServer  # noqa: E402

STEPS = {
    "decode": 3.5, "whole": 5.0, "memory": 3.0, "live": 1.5, "tables": 1.0, "rules": 4.0, "kafka": 8.0, "loads": 6.0,
    "snapshot": 7.0, "cluster": 7.0, "serve": 3.5, "verify": 5.0, "cli": 0.5, "first": 6.0, "sinks": 4.0, "lakes": 20.0,
    "page": 0.5, "databases": 5.0, "documents": 15.0, "whole_lakes": 12.0,
}  # fmt: skip
"""Minutes that each takes on two cores."""
PEERS = 9.0
"""Minutes that the peers take in `decode` besides."""
SIZES = {"orders_insert": 1_000_000, "orders_update": 200_000, "orders_delete": 50_000, "sbtest_insert": 300_000}
WARM = {"orders_insert": 20_000, "orders_update": 2_000, "orders_delete": 1_000, "sbtest_insert": 2_000}
SERVER = (
    "--secure-file-priv=",
    "--innodb-buffer-pool-size=1G",
    "--innodb-redo-log-capacity=1G",
    "--max-binlog-size=1G",
)
WHOLE_ROWS = 2_000_000
"""Rows of each range of the whole tool: its start costs about ten CPU seconds, and is subtracted."""
QUICK = 10


def main() -> int:
    options = _options()
    results: dict[str, Any] = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"), "quick": options.quick, "steps": options.steps,
        "machine": machine.described(),
    }  # fmt: skip
    out = ROOT / "bench-results" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n")
    _say_how_long(options, out.relative_to(ROOT))
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def record(name: str, measure: Callable[[], Any]) -> None:
        try:
            results[name] = measure()
        except Exception as error:  # noqa: BLE001 - the other measurements go on; the exit code tells
            results[name] = {"failed": f"{type(error).__name__}: {error}"}
            traceback.print_exc()
        out.write_text(json.dumps(results, indent=1) + "\n")

    cut = False
    try:
        with _server(options) as bench:
            results["machine"]["mysql"] = bench.server.version
            _measure(bench, options, record)
    except KeyboardInterrupt:
        cut = True
    print("\n".join(show.tables(results)))
    print(f"\n{out.relative_to(ROOT)}{' has what was measured before the end' * cut}")
    return 130 if cut else 1 if any(isinstance(part, dict) and "failed" in part for part in results.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=...", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, a 200 MB backlog")
    parser.add_argument("--rows", type=float, default=1.0, metavar="FACTOR", help="times the default number of rows")
    parser.add_argument("--repeat", type=int, default=5, help="rounds of the decoders and of the snapshot's reader")
    parser.add_argument("--only", default=",".join(STEPS), metavar="STEPS", help=f"of {','.join(STEPS)}")
    parser.add_argument("--no-peers", action="store_true", help="leave python-mysql-replication and Debezium out")
    options = parser.parse_args()
    options.steps = options.only.split(",")
    if set(options.steps) - set(STEPS):
        parser.error(f"--only knows {', '.join(STEPS)}")
    options.factor = options.rows / (QUICK if options.quick else 1)
    return options


def _say_how_long(options: argparse.Namespace, out: Path) -> None:
    minutes = sum(STEPS[step] for step in options.steps) + (PEERS if _with_peers(options) else 0)
    minutes *= max(0.4, options.factor)  # what starts and what waits does not get shorter with fewer rows
    end = datetime.now().astimezone() + timedelta(minutes=minutes)
    print(
        f"{', '.join(options.steps)}{' with peers' * _with_peers(options)}: about {max(1, round(minutes))} minutes "
        f"on two cores, until {end:%H:%M}.\n{out} has what has been measured; Ctrl-C ends all and prints them.",
        file=sys.stderr, flush=True,
    )  # fmt: skip


def _with_peers(options: argparse.Namespace) -> bool:
    return "decode" in options.steps and not options.no_peers


@contextmanager
def _server(options: argparse.Namespace) -> Iterator[Bench]:
    installation = find("mysql")
    if installation is None:
        sys.exit("no MySQL server here: run `make services`")
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)

    say(f"starting MySQL {installation.version}")
    server = StartedServer(installation, SERVER)
    try:
        with tempfile.TemporaryDirectory(prefix="cdc-bench-") as folder:
            try:
                yield Bench(server, Path(folder), options.repeat, say, peers=not options.no_peers)
            finally:
                kill_all()  # before their folders go
    finally:
        server.close()


def _measure(bench: Bench, options: argparse.Namespace, record: Callable[[str, Callable[[], Any]], None]) -> None:
    generator = Generator(bench.server)
    if "cli" in options.steps:
        record("cli", lambda: cli_times(bench))
    if "page" in options.steps:
        record("page", lambda: first_paint(bench))
    if "first" in options.steps:
        record("first", lambda: first_minutes(bench))
    if {"decode", "whole", "memory"} & set(options.steps):
        warm = _warm_up(bench, generator)
        workloads = _write(bench, generator, options, record)
        if "decode" in options.steps:
            record("decode", lambda: decode(bench, workloads, warm))
        if "memory" in options.steps:
            sizes = {"small": 10_000_000, "large": 200_000_000 if options.quick else 1_000_000_000}
            record("memory", lambda: memory(bench, generator, sizes))
    if "live" in options.steps:
        seconds = 10 if options.quick else 20
        live: dict[str, Any] = {}
        record("freshness", lambda: live.update(_pair(bench, generator, seconds)) or live["freshness"])
        record("idle", lambda: live["idle"])
    if "tables" in options.steps:
        record("many_tables", lambda: many_tables(bench, generator, max(10, int(1000 * options.factor))))
    if "rules" in options.steps:
        record("rules", lambda: _rules(bench, generator, options))
        record("ruled_tables", lambda: ruled_tables(bench, generator, max(10, int(1000 * options.factor))))
    if "sinks" in options.steps:
        record("several_sinks", lambda: several_sinks(bench, *_inserts(generator, options)))
    if "kafka" in options.steps:
        record("kafka", lambda: kafka(bench, generator, options.factor, 10 if options.quick else 20))
    if "loads" in options.steps:
        record("loads", lambda: loads(bench, generator, options.factor, 10 if options.quick else 20))
    if "snapshot" in options.steps:
        record("snapshot", lambda: snapshot(bench, generator, options.factor))
    if "cluster" in options.steps:
        record("cluster", lambda: cluster(bench, *_inserts(generator, options)))
    if "lakes" in options.steps:
        sizes = [_thousands(size * options.factor) for size in (1_000_000, 5_000, 10_000_000)]
        record("lakes", lambda: lakes(bench.folder, bench.say, *sizes))
    if "databases" in options.steps:
        seconds = 10 if options.quick else 20
        record("databases", lambda: databases(bench, *_inserts(generator, options), seconds, SERVER))
    if "documents" in options.steps:
        record("documents", lambda: documents(bench, *_inserts(generator, options)))
    if "whole_lakes" in options.steps:
        so_far: dict[str, Any] = {}
        record("whole_lakes", lambda: so_far)
        record("whole_lakes", lambda: whole_lakes(bench, *_inserts(generator, options), so_far))
    if "serve" in options.steps:
        record("serve", lambda: serving(bench, generator, 10 if options.quick else 100))
    if "verify" in options.steps:
        record("verify", lambda: beside_verify(bench, generator, _thousands(1_000_000 * options.factor)))
    generator.close()


def _rules(bench: Bench, generator: Generator, options: argparse.Namespace) -> dict[str, Any]:
    return rules(bench, *_inserts(generator, options))


def _inserts(generator: Generator, options: argparse.Namespace) -> tuple[Generator, int]:
    """What writes, with `orders` full, and how many rows it is to write for the whole tool."""
    generator.create_tables()
    generator.workload("orders_insert", _thousands(SIZES["orders_insert"] * options.factor))
    return generator, _thousands(WHOLE_ROWS * options.factor)


def _thousands(rows: float) -> int:
    return max(1000, int(rows) // 1000 * 1000)


def _pair(bench: Bench, generator: Generator, seconds: int) -> dict[str, Any]:
    fresh, idle = freshness_and_idle(bench, generator, seconds, seconds)
    return {"freshness": fresh, "idle": idle}


def _warm_up(bench: Bench, generator: Generator) -> list[Workload]:
    """Small ranges of every kind, for readers to warm up with; the tables are recreated after them."""
    bench.say("writing the warm-up ranges")
    generator.create_tables()
    warm = [generator.workload(name, rows) for name, rows in WARM.items()]
    generator.create_tables()
    return warm


def _write(
    bench: Bench,
    generator: Generator,
    options: argparse.Namespace,
    record: Callable[[str, Callable[[], Any]], None],
) -> dict[str, Workload]:
    """Write the four workloads of the decoders. The whole tool has ranges of its own, large enough that the start that
    is subtracted does not blur them; it catches up after each, so that it never has two to read.
    """
    workloads: dict[str, Workload] = {}
    for name, rows in SIZES.items():
        rows = _thousands(rows * options.factor)
        if "whole" in options.steps and name == "orders_update":  # `orders` is whole until here
            record("whole", lambda: _whole(bench, generator, options))
        bench.say(f"{name}: writing {rows:,} rows")
        workloads[name] = generator.workload(name, rows)
    record("workloads", lambda: {name: described(workload) for name, workload in workloads.items()})
    return workloads


def _whole(bench: Bench, generator: Generator, options: argparse.Namespace) -> dict[str, Any]:
    rows = _thousands(WHOLE_ROWS * options.factor)
    tool = WholeTool(bench, generator)
    tool.begin()
    measured: dict[str, Any] = {}
    for write in (generator.large_table, generator.update_large_table, generator.delete_large_table):
        bench.say(f"{write.__name__}: writing {rows:,} rows")
        workload = write(rows)
        measured[workload.name] = tool.measure(workload)
    generator.run("DROP TABLE orders_large")
    return {"start_up": tool.start_up, "workloads": measured}


if __name__ == "__main__":
    sys.exit(main())
