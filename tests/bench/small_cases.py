"""How long a suite of small cases takes: `python -m tests.bench.small_cases [NUMBER]`, by default 1,000 of each kind.

Every case has a rule, a route or an expression of its own, so that nothing is compiled for two of them.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from cdc.testing import run_cases

COLUMNS = [{"name": "id", "type": "INT", "nullable": False}, {"name": "n", "type": "STRING"}]
CREATE = {"change": "create.table", "table": "shop.orders", "schema": {"columns": COLUMNS, "primary_key": ["id"]}}
INPUT = [
    CREATE,
    {"op": "+I", "table": "shop.orders", "row": {"id": 1, "n": "x"}},
    {"op": "-U", "table": "shop.orders", "row": {"id": 1, "n": "x"}},
    {"op": "+U", "table": "shop.orders", "row": {"id": 1, "n": "y"}},
    {"change": "add.column", "table": "shop.orders", "column": {"name": "c", "type": "INT"}},
    {"op": "-D", "table": "shop.orders", "row": {"id": 1, "n": "y"}},
]
PIPELINES = {
    "as they are": "{}",
    "route": "route:\n  - {source-table: shop.orders, sink-table: ods.orders_NUMBER}\n",
    "transform": "transform:\n  - source-table: shop.orders\n"
    "    projection: '\\*, id + NUMBER AS m'\n    filter: id <> NUMBER00\n",
}


def main(count: int) -> None:
    """Run each kind and print the times."""
    run_cases([case(kind, 0) for kind in PIPELINES])
    for kind in PIPELINES:
        cases = [case(kind, number) for number in range(1, count + 1)]
        started, spent = time.perf_counter(), time.process_time()
        results = run_cases(cases)
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - spent
        assert all(result["error"] is None for result in results)
        print(f"{kind:<12} {count:>6,} cases  {wall_s:6.1f} s  {cpu_s:6.1f} CPU s")


def case(kind: str, number: int) -> dict[str, Any]:
    """One case."""
    pipeline = PIPELINES.get(kind, "{}").replace("NUMBER", str(number))
    return {"name": f"{kind} {number}", "pipeline": pipeline, "input": INPUT}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
