"""Hashes of rows: two numbers of 64 bits, one of the row's key and one of all of it.

Both sides of a comparison come in the same Arrow types, so equal rows have equal hashes whatever system they are from.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint64]

_SHIFTS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class RowHasher:
    """Hashes rows of one table. One thread.

    Args:
        columns: names, in the order of the rows.
        key: those of the key, none for a table without one: its rows are their own keys.
    """

    def __init__(self, columns: Sequence[str], key: Sequence[str]) -> None:
        places = [f"c{columns.index(name)}" for name in key]
        everything = [f"c{place}" for place in range(len(columns))]
        self._names = everything
        self._select = f"hash({', '.join(places or everything)}) AS k, hash({', '.join(everything)}) AS r"
        self._connection = duckdb.connect(":memory:", config={"threads": "1"})
        self._connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def __call__(self, rows: pa.RecordBatch) -> tuple[Hashes, Hashes]:
        """uint64[n] of the keys, uint64[n] of the rows."""
        table = pa.Table.from_batches([pa.RecordBatch.from_arrays(rows.columns, names=self._names)])
        made = self._connection.from_arrow(table).project(self._select).to_arrow_table()
        keys, whole = (made.column(name).to_numpy() for name in ("k", "r"))
        return spread(keys), spread(whole)

    def close(self) -> None:
        """Let the engine go."""
        self._connection.close()


def spread(hashes: Hashes) -> Hashes:
    """Each number mixed once more, so that sums of them tell rows apart whose columns were exchanged (SplitMix64)."""
    mixed = hashes + np.uint64(0x9E3779B97F4A7C15)
    for bits, factor in _SHIFTS:
        mixed = (mixed ^ (mixed >> np.uint64(bits))) * np.uint64(factor)
    found: Hashes = mixed ^ (mixed >> np.uint64(31))
    return found
