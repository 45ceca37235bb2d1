"""Measurement of the whole tool into lakes: the same inserts, updates and deletes into DuckDB, Paimon and Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from readers import Bench
from whole import WholeTool
from workload import Generator

Figures = dict[str, Any]
KINDS = ("duckdb", "paimon", "iceberg")


def whole_lakes(bench: Bench, generator: Generator, rows: int, found: Figures) -> Figures:
    """CPU of the whole tool for each sink, its start subtracted. Needs the table `orders` with rows.

    It takes fifteen runs and more: `found` has what was measured when it is cut off.
    """
    tools = {kind: WholeTool(bench, generator, f"into_{kind}", _sink(kind, bench.folder)) for kind in KINDS}
    for kind, tool in tools.items():
        tool.begin()
        found[kind] = {"start_cpu_s": tool.start_up["cpu_s"]}
    for write in (generator.large_table, generator.update_large_table, generator.delete_large_table):
        bench.say(f"{write.__name__}: writing {rows:,} rows")
        workload = write(rows)
        for kind, tool in tools.items():
            measured = tool.measure(workload)
            found[kind][workload.name] = measured["cpu_s_per_million"]
            found[kind]["other_cores"] = max(found[kind].get("other_cores", 0.0), measured["other_cores"])
    generator.run("DROP TABLE orders_large")
    return found


def _sink(kind: str, folder: Path) -> dict[str, Any] | None:
    if kind == "duckdb":
        return None
    catalog = {"metastore": "filesystem"} if kind == "paimon" else {"type": "sql"}
    properties = {"warehouse": str(folder / f"lake-{kind}"), **catalog}
    return {"type": kind, **{f"catalog.properties.{name}": text for name, text in properties.items()}}
