"""Measurements h: the whole tool into the stream-load sinks, against stand-ins for Doris and StarRocks.

A stand-in that only counts what it is sent takes little of the machine, so the figures are the tool's own; freshness is
measured with one that stores rows, as they have to be visible.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from live import freshness_and_idle, many_tables
from readers import Bench
from whole import WholeTool
from workload import Generator

from cdc_standins import StandIn, start

Figures = dict[str, Any]
KINDS = ("doris", "starrocks")
TABLES = 500


def loads(bench: Bench, generator: Generator, factor: float, seconds: int) -> Figures:
    """All measurements of each sink."""
    return {kind: _loads(kind, bench, generator, factor, seconds) for kind in KINDS}


def _loads(kind: str, bench: Bench, generator: Generator, factor: float, seconds: int) -> Figures:
    found: Figures = {}
    with _started(kind, bench.folder / f"{kind}-counting", count_only=True) as standin:
        generator.create_tables()
        tool = WholeTool(bench, generator, f"into_{kind}", sink_of(standin))
        tool.begin()
        rows = max(1000, int(1_000_000 * factor) // 1000 * 1000)
        bench.say(f"{kind}: writing {rows:,} rows")
        found["orders_insert"] = tool.measure(generator.workload("orders_insert", rows))
        found["start_up"] = tool.start_up
        tables = max(10, int(TABLES * min(1, factor)))
        found["many_tables"] = many_tables(bench, generator, tables, name=f"many-{kind}", sink=sink_of(standin))
    with _started(kind, bench.folder / f"{kind}-storing") as standin:
        fresh, _ = freshness_and_idle(bench, generator, seconds, 1, f"fresh-{kind}", sink_of(standin))
        found["freshness"] = fresh
    return found


def _started(kind: str, folder: Path, **options: Any) -> StandIn:
    return start(kind, folder, **options)


def sink_of(standin: StandIn) -> Figures:
    """The sink block of a pipeline file for this stand-in."""
    account = {"username": "root", "password": ""}
    jdbc = f"jdbc:mysql://{standin.host}:{standin.sql_port}"
    if standin.kind == "doris":
        one = {"table.create.properties.replication_num": "1"}
        return {"type": "doris", "fenodes": standin.fe, "jdbc-url": jdbc, **account, **one}
    return {"type": "starrocks", "load-url": standin.fe, "jdbc-url": jdbc, **account}
