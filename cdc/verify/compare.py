"""One sink table against its source tables: sums over all rows, then the rows of the sums that differ.

Rows are in buckets by their keys' hash, each with a count and a checksum. The sums do not depend on the order of rows,
so each system gives its rows in whatever order it likes. Memory is the same for any number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.retry import RetryPolicy
from cdc.verify.hashing import Hashes, RowHasher
from cdc.verify.recheck import Log, Suspects, Verdicts, recheck
from cdc.verify.rows import Rows

BITS = 18
_SHIFT = np.uint64(64 - BITS)
MOST_ROWS = 400_000
"""Rows that are held, of both sides together, to find which of them differ."""
MOST_LOOKED_UP = 20_000
"""More keys than these are not asked for one by one: all rows are read once more."""


class Buckets:
    """Counts and checksums of one side; `rows` were added."""

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(1 << BITS, np.int64)
        self.sums: Hashes = np.zeros(1 << BITS, np.uint64)
        self.rows = 0

    def add(self, keys: Hashes, rows: Hashes) -> None:
        """The next rows."""
        places = bucket_of(keys)
        np.add.at(self.counts, places, 1)
        np.add.at(self.sums, places, rows)
        self.rows += len(rows)


def bucket_of(keys: Hashes) -> npt.NDArray[np.int64]:
    """int64[n]: the bucket of each row."""
    return (keys >> _SHIFT).astype(np.int64)


def differing(one: Buckets, other: Buckets, most_rows: int) -> tuple[npt.NDArray[np.bool_], bool]:
    """Buckets that are not equal, as many of them as hold `most_rows` together, and whether these are all of them."""
    unequal = (one.counts != other.counts) | (one.sums != other.sums)
    held = np.cumsum(np.where(unequal, one.counts + other.counts, 0))
    first = int(np.argmax(unequal))
    chosen = unequal & (held <= max(most_rows, int(held[first])))
    return chosen, bool((chosen == unequal).all())


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: rows of both sides, and the rows that differed, None when no sum did.

    `all`: whether these are all of them; more than MOST_ROWS are not looked at.
    """

    source_rows: int
    sink_rows: int
    verdicts: Verdicts | None = None
    all: bool = True


@dataclass(frozen=True)
class Comparison:
    """The two sides of a table. `key` names columns that both sides have; empty for a table without one.

    `engine`: of the hashes (`cdc.verify.hashing.open_engine`).
    """

    source: Rows
    sink: Rows
    columns: tuple[str, ...]
    key: tuple[str, ...]
    by_key: bool
    log: Log
    retry: RetryPolicy
    engine: duckdb.DuckDBPyConnection

    def __call__(self, show: int) -> Compared:
        """Compare; up to `show` differing rows are kept to be shown. Raises as the sides do."""
        hasher = RowHasher(self.engine, self.columns, self.key)
        source, sink = self._sums(self.source, hasher), self._sums(self.sink, hasher)
        chosen, complete = differing(source, sink, MOST_ROWS)
        if not chosen.any():
            return Compared(source.rows, sink.rows)
        suspects = self._suspects(hasher, chosen)
        verdicts = recheck(self.source, self.sink, suspects, hasher, self.log, show=show, retry=self.retry)
        return Compared(source.rows, sink.rows, verdicts, complete)

    @staticmethod
    def _sums(rows: Rows, hasher: RowHasher) -> Buckets:
        found = Buckets()
        for batch in rows(None):
            found.add(*hasher(batch))
        return found

    def _suspects(self, hasher: RowHasher, chosen: npt.NDArray[np.bool_]) -> Suspects:
        """The rows of the chosen buckets that do not come out the same on both sides."""
        sides = [_Side(self.key), _Side(self.key)]
        for side, rows in zip(sides, (self.source, self.sink), strict=True):
            for batch in rows(None):
                keys, whole = hasher(batch)
                side.add(batch, keys, whole, chosen)
        hashes, first = np.unique(np.concatenate([side.keys() for side in sides]), return_index=True)
        sums = [side.summed(hashes) for side in sides]
        unequal = (sums[0][0] != sums[1][0]) | (sums[0][1] != sums[1][1])
        values = None
        if self.by_key and 0 < int(unequal.sum()) <= MOST_LOOKED_UP:
            kept = pa.concat_batches([batch for side in sides for batch in side.values])
            values = kept.take(pa.array(first[unequal]))
        return Suspects(hashes[unequal], values)


class _Side:
    """Rows of chosen buckets: hashes, and the values of their keys."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = list(key)
        self._keys: list[Hashes] = [np.zeros(0, np.uint64)]
        self._rows: list[Hashes] = [np.zeros(0, np.uint64)]
        self.values: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch, keys: Hashes, rows: Hashes, chosen: npt.NDArray[np.bool_]) -> None:
        wanted = np.flatnonzero(chosen[bucket_of(keys)])
        if len(wanted):
            self._keys.append(keys[wanted])
            self._rows.append(rows[wanted])
            self.values.append(batch.select(self._key).take(pa.array(wanted)))

    def keys(self) -> Hashes:
        return np.concatenate(self._keys)

    def summed(self, hashes: Hashes) -> tuple[npt.NDArray[np.int64], Hashes]:
        """Count and sum of the rows of each of these keys."""
        places = np.searchsorted(hashes, self.keys())
        counts, sums = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.uint64)
        np.add.at(counts, places, 1)
        np.add.at(sums, places, np.concatenate(self._rows))
        return counts, sums
