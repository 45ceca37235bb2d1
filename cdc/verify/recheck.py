"""Examines rows that differed in a scan until each is certainly equal, certainly different, or cannot be decided.

While a pipeline runs, the sink lags a little. So a round reads the rows in the source, waits until the pipeline has
committed the log up to that point, reads them in the sink, and in the source again:

- the sink has what the source had before or afterwards: equal, as of some moment in between;
- the source had the same both times, and the sink has something else: different. That is certain when the log has no
  changes of the tables in between. Otherwise a row may have changed and changed back, so it has to differ in STRIKES
  rounds;
- otherwise the row was written to: the next round decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.retry import Backoff, RetryPolicy
from cdc.verify.hashing import Hashes, RowHasher
from cdc.verify.rows import Rows

STRIKES = 3

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Suspects:
    """Rows to examine, by the hash of their key.

    Attributes:
        hashes: hashes of the keys, ascending and unique.
        keys: the key values, in the same order; None for rows that cannot be read by key.
    """

    hashes: Hashes
    keys: pa.RecordBatch | None

    def only(self, mask: Mask) -> Suspects:
        """Return a subset."""
        keys = None if self.keys is None else self.keys.filter(pa.array(mask))
        return Suspects(self.hashes[mask], keys)


@dataclass
class SideView:
    """One side's view of the suspects: row count and sum of hashes by key, and some rows to show.

    `shown` has the first row of a key, by its index in the suspects.
    """

    counts: npt.NDArray[np.int64]
    sums: Hashes
    shown: dict[int, pa.RecordBatch] = field(default_factory=dict)

    def same(self, other: SideView) -> Mask:
        """Return where both sides are equal, bool[n]."""
        equal: Mask = (self.counts == other.counts) & (self.sums == other.sums)
        return equal


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on suspects. `different` and `open` are bool[n]; all others are equal. `source` and `sink` are from
    the last round. `waited`: the pipeline did not commit in time what was read in the source."""

    different: Mask
    open: Mask
    source: SideView
    sink: SideView
    waited: bool


@dataclass(frozen=True)
class Log:
    """The source's log, as the rounds need it.

    Attributes:
        mark: returns its current end.
        committed: waits until the pipeline has committed up to a mark; False on timeout.
        quiet: whether it has no changes of the tables between two marks.
    """

    mark: Callable[[], dict[str, object]]
    committed: Callable[[dict[str, object]], bool]
    quiet: Callable[[dict[str, object], dict[str, object]], bool]


def look(rows: Rows, suspects: Suspects, hasher: RowHasher, show: int) -> SideView:
    """Read one side's view of the suspects, with the rows of the first `show` of them."""
    count = len(suspects.hashes)
    found = SideView(np.zeros(count, np.int64), np.zeros(count, np.uint64))
    if not count:
        return found
    for batch in rows(suspects.keys):
        keys, row_hashes = hasher(batch)
        indices = np.minimum(np.searchsorted(suspects.hashes, keys), count - 1)
        matching = np.flatnonzero(suspects.hashes[indices] == keys)
        np.add.at(found.counts, indices[matching], 1)
        np.add.at(found.sums, indices[matching], row_hashes[matching])
        for row in matching[indices[matching] < show].tolist():
            found.shown.setdefault(int(indices[row]), batch.slice(row, 1))
    return found


def recheck(
    source: Rows, sink: Rows, suspects: Suspects, hasher: RowHasher, log: Log, *, show: int, retry: RetryPolicy
) -> Verdicts:
    """Repeat rounds until nothing is open, the time is up, or the pipeline stops committing.

    Raises the errors of both sides.
    """
    different = np.zeros(len(suspects.hashes), bool)
    strikes = np.zeros(len(suspects.hashes), np.int64)
    pauses = Backoff(retry, "verify")
    while True:
        start = log.mark()
        before = look(source, suspects, hasher, 0)
        committed = log.committed(log.mark())
        sink_view = look(sink, suspects, hasher, show)
        after = look(source, suspects, hasher, show)
        equal = before.same(sink_view) | after.same(sink_view)
        still = ~equal & before.same(after)
        if not committed:
            return Verdicts(different & ~equal, ~equal & ~different, after, sink_view, True)
        quiet = bool(still.any()) and log.quiet(start, log.mark())
        strikes = np.where(still, np.where(quiet, STRIKES, strikes + 1), 0)
        different = strikes >= STRIKES
        undecided = ~equal & ~different
        if not undecided.any() or not pauses.pause("rows are being written to"):
            return Verdicts(different, undecided, after, sink_view, False)
        keep = ~equal
        suspects, strikes, different = suspects.only(keep), strikes[keep], different[keep]
