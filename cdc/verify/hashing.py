"""Hashes of rows: two 64-bit numbers, one of the row's key and one of the whole row.

Both sides of a comparison have the same Arrow types, so equal rows have equal hashes whatever system they come from.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_SHIFTS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def open_engine() -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB for the hashers of all tables: opening one takes longer than hashing a small table."""
    connection = duckdb.connect(":memory:", config={"threads": "1"})
    connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    return connection


class RowHasher:
    """Hashes rows of one table. One thread.

    Args:
        engine: from `open_engine`.
        columns: column names, in the order of the rows.
        key: names of the key columns; empty for a table without a key, whose rows are their own keys.
    """

    def __init__(self, engine: duckdb.DuckDBPyConnection, columns: Sequence[str], key: Sequence[str]) -> None:
        self._engine = engine
        self._names = [f"c{index}" for index in range(len(columns))]
        keys = [f"c{columns.index(name)}" for name in key] or self._names
        self._select = f"hash({', '.join(keys)}) AS k, hash({', '.join(self._names)}) AS r"

    def __call__(self, rows: pa.RecordBatch) -> tuple[Hashes, Hashes]:
        """Return the hashes of the keys, uint64[n], and of the rows, uint64[n]."""
        table = pa.Table.from_batches([pa.RecordBatch.from_arrays(rows.columns, names=self._names)])
        hashes = self._engine.from_arrow(table).project(self._select).to_arrow_table()
        key_hashes, row_hashes = (hashes.column(name).to_numpy() for name in ("k", "r"))
        return spread(key_hashes), spread(row_hashes)


def spread(hashes: Hashes) -> Hashes:
    """Mix each number again (SplitMix64), so that sums differ for rows with exchanged columns."""
    mixed = hashes + np.uint64(0x9E3779B97F4A7C15)
    for bits, factor in _SHIFTS:
        mixed = (mixed ^ (mixed >> np.uint64(bits))) * np.uint64(factor)
    found: Hashes = mixed ^ (mixed >> np.uint64(31))
    return found
