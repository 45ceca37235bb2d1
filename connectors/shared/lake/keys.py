"""Rows by their keys, and names of keys in queries."""

from __future__ import annotations

import pyarrow as pa


def key_names(count: int) -> list[str]:
    """Names of key columns beside other columns: the table's own may be `pos` or `row`, too."""
    return [f"key_{place}" for place in range(count)]


def quoted(name: str) -> str:
    """A column's name in a query of DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def matching(rows: pa.RecordBatch, keys: pa.RecordBatch) -> pa.RecordBatch:
    """The rows whose key is one of these."""
    numbers = pa.array(range(rows.num_rows), pa.int64())
    names = key_names(keys.num_columns)
    numbered = pa.table([*(rows.column(name) for name in keys.schema.names), numbers], [*names, "row"])
    wanted = pa.Table.from_batches([keys]).rename_columns(names)
    found = numbered.join(wanted, names, join_type="left semi", use_threads=False)
    return rows.take(found.column("row").combine_chunks())
