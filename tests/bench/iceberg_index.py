"""The cost of 1,000 random upserts in Iceberg tables of one and of ten million rows.

PYTHONPATH=tests:tests/devservers .venv/bin/python tests/bench/iceberg_index.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from iceberg_harness import IcebergHarness

from cdc.block import ChangeBlock, RowKind
from cdc.schema import Column, CreateTable, DataType, Kind, TableId, TableSchema
from cdc.sink import TaskAttempt
from connectors.iceberg.sink import IcebergSink

TABLE = TableId("bench", "wide")
NUMBERS = [Column(f"c{number}", DataType(Kind.BIGINT)) for number in range(6)]
SCHEMA = TableSchema(
    (Column("id", DataType(Kind.BIGINT), nullable=False), *NUMBERS, Column("text", DataType(Kind.VARCHAR, 40))), ("id",)
)
STEP = 500_000


def inserts(ids: np.ndarray) -> ChangeBlock:
    """Rows with these keys."""
    count = len(ids)
    columns = [pa.array(ids), *(pa.array(np.arange(count) + number) for number in range(6))]
    texts = pa.array([f"text {number % 1000}" for number in range(count)])
    zeros = pa.array(np.zeros(count, np.int64))
    return ChangeBlock(
        table=TABLE,
        schema=SCHEMA,
        rows=pa.RecordBatch.from_arrays([*columns, texts], names=list(SCHEMA.names)),
        kinds=pa.array(np.full(count, RowKind.INSERT, np.int8)),
        sequence=pa.array(np.arange(count)),
        row=zeros,
        timestamps_ms=zeros,
    )


def batch(sink: IcebergSink, number: int, ids: np.ndarray) -> float:
    """Prepare and commit one batch; its CPU seconds."""
    began = time.process_time()
    sink.commit(number, sink.prepare(TaskAttempt(number, 0, 0, noting=[].append), iter([inserts(ids)])))
    return time.process_time() - began


def main() -> None:
    """Print a line for each size: loading per million rows, building the index, and the median of further batches."""
    chance = np.random.default_rng(1)
    for rows in (1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as folder:
            sink = IcebergHarness(Path(folder), {"sink.compaction": "off"}).sink()
            sink.apply(0, [CreateTable(TABLE, SCHEMA)])
            loads = [batch(sink, at // STEP, np.arange(at, at + STEP)) for at in range(0, rows, STEP)]
            spent = [
                batch(sink, rows // STEP + number, np.unique(chance.integers(0, rows, 1000))) for number in range(8)
            ]
        loading, upserts = sum(loads) / rows * 1e6, np.median(spent[1:])
        print(f"{rows:>11,} rows: load {loading:.2f} CPU s/M, index {spent[0]:.2f}, 1,000 upserts {upserts:.3f}")


if __name__ == "__main__":
    main()
