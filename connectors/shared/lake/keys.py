"""Looks up rows by key, and names keys in queries."""

from __future__ import annotations

import pyarrow as pa


def key_names(count: int) -> list[str]:
    """Return names of key columns that do not clash with other columns: the table's own may be `pos` or `row`."""
    return [f"key_{place}" for place in range(count)]


def quoted(name: str) -> str:
    """Quote a column's name for DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def matching(rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows whose key is one of these."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    names = key_names(keys.num_columns)
    numbered = pa.table([*(rows.column(name) for name in keys.schema.names), numbers], [*names, "row"])
    wanted = pa.Table.from_batches([keys]).rename_columns(names)
    found = numbered.join(wanted, names, join_type="left semi", use_threads=False)
    return rows.take(found.column("row").combine_chunks())
