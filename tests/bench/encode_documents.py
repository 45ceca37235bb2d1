"""The cost of texts for documents and databases: CPU s for a million rows of twelve columns as bulk requests of
Elasticsearch and as LOAD DATA and literals of MySQL, against `json.dumps` of the same rows.

.venv/bin/python tests/bench/encode_documents.py
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from cdc.block import arrow_schema
from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.elasticsearch.documents import DocumentTarget, document_ids, lines
from connectors.mysql.sink.text import WrittenColumn, literals, load_body
from connectors.mysql.sink.types import ServerType

ROWS = 200_000
COLUMNS = (
    ("id", "BIGINT"), ("customer", "BIGINT"), ("status", "VARCHAR(20)"), ("city", "VARCHAR(40)"),
    ("note", "VARCHAR(200)"), ("total", "DECIMAL(10, 2)"), ("tax", "DOUBLE"), ("paid", "BOOLEAN"),
    ("created", "TIMESTAMP(6)"), ("day", "DATE"), ("quantity", "INT"), ("email", "VARCHAR(60)"),
)  # fmt: skip
_SERVER_TYPES = {"BIGINT": "bigint", "INT": "int", "BOOLEAN": "tinyint", "DOUBLE": "double", "DATE": "date"}
SCHEMA = TableSchema(tuple(Column(name, DataType.parse(kind)) for name, kind in COLUMNS), ("id",))


def orders() -> pa.RecordBatch:
    """Rows from a fixed seed."""
    chance, numbers = np.random.default_rng(20261126), range(ROWS)
    made = [
        np.arange(ROWS), chance.integers(0, 10**6, ROWS), np.array(["new", "paid"])[chance.integers(0, 2, ROWS)],
        [f"city {number % 100}" for number in numbers], [f"a note about order {number}" for number in numbers],
        [Decimal(int(cents)) / 100 for cents in chance.integers(0, 10**7, ROWS)], chance.random(ROWS),
        chance.integers(0, 2, ROWS).astype(bool), chance.integers(16 * 10**14, 17 * 10**14, ROWS),
        chance.integers(15_000, 20_000, ROWS).astype(np.int32), chance.integers(0, 100, ROWS).astype(np.int32),
        [f"u{number}@example.com" for number in numbers],
    ]  # fmt: skip
    types = arrow_schema(SCHEMA)
    columns = [pa.array(each, kind.type) for each, kind in zip(made, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=types)


def main() -> None:
    """Print the figures."""
    rows, gone, place = orders(), np.zeros(ROWS, np.bool_), DocumentTarget(TableId("bench", "orders"), "orders", 1)
    columns = [WrittenColumn(name, ServerType(_SERVER_TYPES.get(kind, "varchar"))) for name, kind in COLUMNS]
    ways: dict[str, Callable[[], object]] = {
        "bulk requests": lambda: lines(rows, SCHEMA, document_ids(rows, ("id",)), gone, place),
        "LOAD DATA": lambda: load_body(rows, columns),
        "literals": lambda: literals(rows, columns),
    }
    best = {name: min(_cpu_s(way) for _ in range(3)) for name, way in ways.items()}
    began = time.process_time()
    for row in rows.to_pylist():
        json.dumps(row, default=str)
    plain = time.process_time() - began
    millions = ROWS / 1e6
    print(f"CPU s per M rows; json.dumps of rows {plain / millions:.1f}")
    for name, took in best.items():
        print(f"{name}: {took / millions:.2f}, {plain / took:.0f}x")


def _cpu_s(way: Callable[[], object]) -> float:
    began = time.process_time()
    way()
    return time.process_time() - began


if __name__ == "__main__":
    main()
