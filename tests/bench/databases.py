"""Measurement of a database as the sink: MySQL to MySQL through the whole tool, beside LOAD DATA of the same rows.

`make bench ARGS='--only databases'`. Both servers share the machine, and the tool reads the log beside what it writes;
LOAD DATA, by the server's own client, has the machine for itself and an empty table. Freshness is that of one-row
transactions, beside DuckDB's in the same run.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from live import freshness_and_idle
from readers import Bench, per_million
from spend import cpu_of
from whole import WholeTool
from workload import DATABASE, Generator

from cdc_services.installation import find
from cdc_services.server import StartedServer

Figures = dict[str, Any]
ROWS_PER_S = 500
_SINK = ("--local-infile=ON", "--innodb-flush-log-at-trx-commit=1", "--skip-log-bin")


def databases(bench: Bench, generator: Generator, rows: int, seconds: int, server_options: Sequence[str]) -> Figures:
    """Rows per second of inserts, updates and deletes, and of LOAD DATA. Needs the table `orders` with rows."""
    installation = find("mysql")
    if installation is None:
        raise RuntimeError("no MySQL server here: run `make services`")
    server = StartedServer(installation, (*server_options, *_SINK))
    try:
        sink = {"type": "mysql", "hostname": server.host, "port": server.port, "username": server.user}
        sink |= {"password": server.password}
        found = _whole(bench, generator, server, sink, rows)
        found["freshness"] = {
            name: freshness_and_idle(bench, generator, seconds, 1, f"fresh-into-{name}", into, ROWS_PER_S)[0]
            for name, into in (("duckdb", None), ("mysql", sink))
        }
    finally:
        server.close()
    duckdb, mysql = (found["freshness"][name]["p99_s"] for name in ("duckdb", "mysql"))
    return found | {"p99_ratio": round(mysql / duckdb, 2)}


def _whole(bench: Bench, generator: Generator, server: StartedServer, sink: Figures, rows: int) -> Figures:
    tool = WholeTool(bench, generator, "into_mysql", sink)
    tool.begin()
    found: Figures = {"start_up": tool.start_up, "workloads": {}}
    for write in (generator.large_table, generator.update_large_table, generator.delete_large_table):
        bench.say(f"databases: {write.__name__} of {rows:,} rows")
        workload = write(rows)
        if "load_data" not in found:
            found["load_data"] = _load_data(bench, generator, server, rows)
        before = cpu_of(server.pid or 0)
        figures = tool.measure(workload)
        figures["server_cpu_s_per_million"] = per_million(cpu_of(server.pid or 0) - before, rows)
        figures["of_load_data"] = round(figures["rows_per_s"] / found["load_data"]["rows_per_s"], 2)
        found["workloads"][workload.name] = figures
    generator.run("DROP TABLE orders_large")
    return found


def _load_data(bench: Bench, generator: Generator, server: StartedServer, rows: int) -> Figures:
    """LOAD DATA LOCAL by the server's own client, of the rows of `orders_large` in the order of its key."""
    file = bench.folder / "orders.tsv"
    generator.run(f"SELECT * FROM orders_large ORDER BY id INTO OUTFILE '{file}'")
    definition = str(generator.run("SHOW CREATE TABLE orders_large")[0][1])
    server.execute("DROP DATABASE IF EXISTS loaded", "CREATE DATABASE loaded")
    _client(server, definition.replace("`orders_large`", "loaded.orders_large", 1))
    bench.say("databases: LOAD DATA")
    before, began = cpu_of(server.pid or 0), time.monotonic()
    _client(server, f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE loaded.orders_large CHARACTER SET utf8mb4")
    wall, spent = time.monotonic() - began, cpu_of(server.pid or 0) - before
    (count,) = server.execute("SELECT COUNT(*) FROM loaded.orders_large")[0]
    if count != rows:
        raise RuntimeError(f"LOAD DATA brought {count} of {rows} rows of {DATABASE}.orders_large")
    server.execute("DROP DATABASE loaded")
    file.unlink()
    return {
        "wall_s": round(wall, 2), "rows_per_s": round(rows / wall),
        "server_cpu_s_per_million": per_million(spent, rows),
    }  # fmt: skip


def _client(server: StartedServer, sql: str) -> None:
    installation = find("mysql")
    assert installation is not None, "its server runs"
    place = next(at for at, part in enumerate(installation.command) if part.endswith("mysqld"))
    program = Path(installation.command[place]).parent.parent / "bin" / "mysql"
    options = [f"--host={server.host}", f"--port={server.port}", f"--user={server.user}", "--local-infile=1"]
    environ = {"MYSQL_PWD": server.password, "LC_ALL": "C.UTF-8"}
    command = [*installation.command[:place], str(program), "--no-defaults", *options]
    subprocess.run([*command, "--default-character-set=utf8mb4", "-e", sql], check=True, env=environ)
