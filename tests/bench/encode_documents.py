"""The cost of bulk requests for Elasticsearch and OpenSearch: CPU s for a million documents of twelve fields, against
`json.dumps` of the same rows.

.venv/bin/python tests/bench/encode_documents.py
"""

from __future__ import annotations

import json
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa

from cdc.block import arrow_schema
from cdc.schema import Column, DataType, TableId, TableSchema
from connectors.elasticsearch.documents import Place, document_ids, lines

ROWS = 200_000
COLUMNS = (
    ("id", "BIGINT"), ("customer", "BIGINT"), ("status", "VARCHAR(20)"), ("city", "VARCHAR(40)"),
    ("note", "VARCHAR(200)"), ("total", "DECIMAL(10, 2)"), ("tax", "DOUBLE"), ("paid", "BOOLEAN"),
    ("created", "TIMESTAMP(6)"), ("day", "DATE"), ("quantity", "INT"), ("email", "VARCHAR(60)"),
)  # fmt: skip
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
    rows, gone, place = orders(), np.zeros(ROWS, np.bool_), Place(TableId("bench", "orders"), "orders", 1)
    best = 1e9
    for _ in range(3):
        began = time.process_time()
        lines(rows, SCHEMA, document_ids(rows, SCHEMA, ("id",)), gone, place)
        best = min(best, time.process_time() - began)
    began = time.process_time()
    for row in rows.to_pylist():
        json.dumps(row, default=str)
    plain = time.process_time() - began
    millions = ROWS / 1e6
    print(
        f"{best / millions:.2f} CPU s per M documents; json.dumps of rows {plain / millions:.1f}: {plain / best:.0f}x"
    )


if __name__ == "__main__":
    main()
