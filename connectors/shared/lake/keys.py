"""Rows by their keys, and names of keys in queries."""

from __future__ import annotations

import pyarrow as pa


def quoted(name: str) -> str:
    """A column's name in a query of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def matching(rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
    """The rows whose key is one of these."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    numbered = pa.table([*(rows.column(name) for name in keys.schema.names), numbers], [*keys.schema.names, "cdc_row"])
    found = numbered.join(pa.Table.from_batches([keys]), keys.schema.names, join_type="left semi", use_threads=False)
    return rows.take(found.column("cdc_row").combine_chunks())
