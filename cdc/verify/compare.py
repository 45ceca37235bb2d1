"""Compares one sink table with its source tables: first sums over all rows, then the rows whose sums differ.

Rows are grouped in buckets by their key's hash, each with a count and a checksum. The sums do not depend on row order,
so each system may return its rows in any order. Memory use does not depend on the number of rows.
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
"""Maximum number of rows of both sides that are held to find those that differ."""
MOST_LOOKED_UP = 20_000
"""Maximum number of keys that are looked up; for more, all rows are read again."""


class Buckets:
    """Counts and checksums of one side; `rows` is the number of rows added."""

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(1 << BITS, np.int64)
        self.sums: Hashes = np.zeros(1 << BITS, np.uint64)
        self.rows = 0

    def add(self, keys: Hashes, rows: Hashes) -> None:
        """Add rows."""
        indices = bucket_of(keys)
        np.add.at(self.counts, indices, 1)
        np.add.at(self.sums, indices, rows)
        self.rows += len(rows)


def bucket_of(keys: Hashes) -> npt.NDArray[np.int64]:
    """Return the bucket of each row, int64[n]."""
    return (keys >> _SHIFT).astype(np.int64)


def differing(one: Buckets, other: Buckets, most_rows: int) -> tuple[npt.NDArray[np.bool_], bool]:
    """Return the unequal buckets, limited to `most_rows` rows in total, and whether these are all of them."""
    unequal = (one.counts != other.counts) | (one.sums != other.sums)
    cumulative = np.cumsum(np.where(unequal, one.counts + other.counts, 0))
    first = int(np.argmax(unequal))
    chosen = unequal & (cumulative <= max(most_rows, int(cumulative[first])))
    return chosen, bool((chosen == unequal).all())


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: row counts of both sides, and verdicts on rows that differed; None when no sum did.

    `all`: whether all differing rows were examined, rather than the first MOST_ROWS.
    """

    source_rows: int
    sink_rows: int
    verdicts: Verdicts | None = None
    all: bool = True


@dataclass(frozen=True)
class Comparison:
    """The comparison of the two sides of a table. `key` names columns of both sides; empty for a table without a key.

    `engine` computes the hashes (`cdc.verify.hashing.open_engine`).
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
        """Compare; keep up to `show` differing rows to be shown. Raises the errors of both sides."""
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
        """Return the rows of the chosen buckets that differ between the sides."""
        sides = [_Side(self.key), _Side(self.key)]
        for side, rows in zip(sides, (self.source, self.sink), strict=True):
            for batch in rows(None):
                keys, row_hashes = hasher(batch)
                side.add(batch, keys, row_hashes, chosen)
        hashes, first = np.unique(np.concatenate([side.keys() for side in sides]), return_index=True)
        sums = [side.summed(hashes) for side in sides]
        unequal = (sums[0][0] != sums[1][0]) | (sums[0][1] != sums[1][1])
        values = None
        if self.by_key and 0 < int(unequal.sum()) <= MOST_LOOKED_UP:
            sample = pa.concat_batches([batch for side in sides for batch in side.values])
            values = sample.take(pa.array(first[unequal]))
        return Suspects(hashes[unequal], values)


class _Side:
    """The rows of the chosen buckets of one side: hashes and key values."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = list(key)
        self._keys: list[Hashes] = [np.zeros(0, np.uint64)]
        self._rows: list[Hashes] = [np.zeros(0, np.uint64)]
        self.values: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch, keys: Hashes, rows: Hashes, chosen: npt.NDArray[np.bool_]) -> None:
        indices = np.flatnonzero(chosen[bucket_of(keys)])
        if len(indices):
            self._keys.append(keys[indices])
            self._rows.append(rows[indices])
            self.values.append(batch.select(self._key).take(pa.array(indices)))

    def keys(self) -> Hashes:
        return np.concatenate(self._keys)

    def summed(self, hashes: Hashes) -> tuple[npt.NDArray[np.int64], Hashes]:
        """Return the number and the sum of the rows with each of these keys."""
        indices = np.searchsorted(hashes, self.keys())
        counts, sums = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.uint64)
        np.add.at(counts, indices, 1)
        np.add.at(sums, indices, np.concatenate(self._rows))
        return counts, sums
