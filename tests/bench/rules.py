"""Measurements of what is between source and sink: a transform rule, a rule over many tables, many tables into one."""

from __future__ import annotations

from typing import Any

from live import many_tables
from pipeline import Middle
from readers import Bench
from whole import WholeTool
from workload import DATABASE, Generator

Figures = dict[str, Any]

RULE: Middle = {
    "transform": [
        {
            "source-table": f"{DATABASE}.orders_large",
            "projection": "\\*, amount * 2 AS doubled, UPPER(country) AS land",
            "filter": "amount >= 0 AND country <> 'XX'",
        }
    ]
}
"""Two computed columns, and a filter that reads two columns and keeps every row."""

CATCH_ALL: Middle = {
    "transform": [{"source-table": rf"{DATABASE}.\.*", "projection": "\\*, op_ts", "filter": "a >= 0"}]
}
ONE_TABLE: Middle = {"route": [{"source-table": rf"{DATABASE}.many_\.*", "sink-table": f"{DATABASE}.all_of_them"}]}


def rules(bench: Bench, generator: Generator, rows: int) -> Figures:
    """The whole tool over the same inserts, without a rule and with one. Needs the table `orders` with rows."""
    tools = {
        "without a rule": WholeTool(bench, generator, "unruled"),
        "with a rule": WholeTool(bench, generator, "ruled", middle=RULE),
    }
    for tool in tools.values():
        tool.begin()
    bench.say(f"rules: writing {rows:,} rows")
    workload = generator.large_table(rows)
    found = {name: tool.measure(workload) for name, tool in tools.items()}
    generator.run("DROP TABLE orders_large")
    plain, ruled = found["without a rule"], found["with a rule"]
    return {
        "runs": found, "start_up": {name: tool.start_up for name, tool in tools.items()},
        "cpu_s_per_million_more": round(ruled["cpu_s_per_million"] - plain["cpu_s_per_million"], 2),
        "rows_per_s_ratio": round(ruled["rows_per_s"] / plain["rows_per_s"], 2),
    }  # fmt: skip


def ruled_tables(bench: Bench, generator: Generator, tables: int) -> Figures:
    """One transaction over all tables: as they are, under one catch-all rule, and all into one table."""
    return {
        "without a rule": many_tables(bench, generator, tables, name="many-plain"),
        "under one rule": many_tables(bench, generator, tables, name="many-ruled", middle=CATCH_ALL),
        "into one table": many_tables(bench, generator, tables, name="many-merged", middle=ONE_TABLE),
    }
