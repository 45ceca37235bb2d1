"""A table as some hundred thousand sums: its rows in buckets by their keys' hash, each with a count and a checksum.

The sums do not depend on the order of rows, so each system gives its rows in whatever order it likes, and the order in
which it compares keys does not matter. Memory is the same for any number of rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cdc.verify.hashing import Hashes

BITS = 18
_SHIFT = np.uint64(64 - BITS)


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
    """Which buckets are not equal: as many of them as hold `most_rows` together, and whether these are all."""
    unequal = (one.counts != other.counts) | (one.sums != other.sums)
    held = np.cumsum(np.where(unequal, one.counts + other.counts, 0))
    first = int(np.argmax(unequal))
    chosen = unequal & (held <= max(most_rows, int(held[first])))
    return chosen, bool((chosen == unequal).all())
