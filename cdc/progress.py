"""Figures of a run for the status line, the log and the summary. Driver, any thread."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from cdc.schema import TableId


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Number of row changes of one or all sink tables; an update counts once."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    @property
    def rows(self) -> int:
        """All row changes."""
        return self.inserts + self.updates + self.deletes

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass(frozen=True, slots=True)
class TableTotals(ChangeCounts):
    """Number of changes of one sink table since the start of the run, including schema changes."""

    schema_changes: int = 0


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One finished batch, committed at `committed_s` (since the epoch).

    Attributes:
        lag_s: age of its newest change at that time; None without rows.
        read: number of changes read, by source table.
        phases: seconds per phase, of the driver and of the slowest task.
        changes: the sink's schema changes, each with its table.
        position: the source's offset after the batch.
        bytes: size of the changes read, in columnar form.
    """

    batch: int
    tables: dict[TableId, TableTotals]
    counts: dict[str, int]
    duration_s: float
    committed_s: float
    lag_s: float | None
    read: dict[str, int] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    changes: tuple[tuple[str, str], ...] = ()
    position: dict[str, Any] | None = None
    bytes: int = 0

    @property
    def rows(self) -> int:
        """Number of row changes in the batch."""
        return self.totals.rows

    @property
    def totals(self) -> TableTotals:
        """Number of changes in the batch, of all tables."""
        return sum(self.tables.values(), TableTotals())


@dataclass(frozen=True, slots=True)
class ProgressTotals:
    """The totals of a run at one moment. `rate` is the rows per second of the last few seconds."""

    tables: dict[TableId, TableTotals] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    last_batch: int | None = None
    last_duration_s: float = 0.0
    lag_s: float | None = None
    lag_bytes: int | None = None
    lag_transactions: int | None = None
    rate: float = 0.0
    note: str = ""

    @property
    def rows(self) -> int:
        """Number of row changes in the run."""
        return sum(totals.rows for totals in self.tables.values())


class Rates:
    """Computes rates over a time window; the cost is one step per batch and table.

    Args:
        window_s: length of the window.
    """

    def __init__(self, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s, self._clock = window_s, clock
        self._recent: deque[tuple[float, Mapping[str, int]]] = deque()
        self._sums: Counter[str] = Counter()

    def add(self, rows: Mapping[str, int]) -> None:
        """Add rows that arrive now, by table."""
        if rows:
            self._recent.append((self._clock(), rows))
            self._sums.update(rows)

    def clear(self) -> None:
        """Set all rates to 0."""
        self._recent.clear()
        self._sums.clear()

    def now(self) -> dict[str, float]:
        """Return the rows per second of tables with rows in the window."""
        cutoff = self._clock() - self._window_s
        while self._recent and self._recent[0][0] < cutoff:
            for table, number in self._recent.popleft()[1].items():
                self._sums[table] -= number
                if not self._sums[table]:
                    del self._sums[table]
        return {table: round(number / self._window_s, 1) for table, number in self._sums.items()}


class Progress:
    """Collects batch reports; `totals()` returns a consistent copy. Thread-safe.

    `running` is the number of the running batch or None; `step` says what it is doing, in words that follow the number.
    """

    WINDOW_S = 5.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = ProgressTotals()
        self._rates = Rates(self.WINDOW_S)
        self._reports: deque[BatchReport] = deque()
        self.running: int | None = None
        self.step = ""
        self._waiting = ""

    def begin(self, batch: int) -> None:
        """Note that a batch starts."""
        self.running = batch

    def end(self, report: BatchReport) -> None:
        """Note that a batch is committed."""
        with self._lock:
            tables, counts = dict(self._now.tables), Counter(self._now.counts)
            for table, delta in report.tables.items():
                tables[table] = tables.get(table, TableTotals()) + delta
            counts.update(report.counts)
            self._rates.add({str(table): delta.rows for table, delta in report.tables.items() if delta.rows})
            self._now = replace(
                self._now,
                tables=tables,
                counts=dict(counts),
                batches=self._now.batches + 1,
                last_batch=report.batch,
                last_duration_s=report.duration_s,
                lag_s=report.lag_s,
            )
            if self.running == report.batch:  # else the next one is already being read
                self.running = None
            self._waiting = ""
        self._reports.append(report)

    def reports(self) -> Iterator[BatchReport]:
        """Take the new batch reports, oldest first; each is returned once (for the log)."""
        while self._reports:
            yield self._reports.popleft()

    def note_lag(self, lag_bytes: int | None, note: str, transactions: int | None = None) -> None:
        """Note how much of the log is still to be read and the source's note, both from the stream reader."""
        with self._lock:
            self._now = replace(self._now, lag_bytes=lag_bytes, lag_transactions=transactions, note=note)

    def note_wait(self, text: str) -> None:
        """Note what the engine is waiting to retry; valid until a batch is committed."""
        with self._lock:
            self._waiting = text

    def totals(self) -> ProgressTotals:
        """Return the current totals."""
        with self._lock:
            note = self._waiting or self._now.note
            return replace(self._now, note=note, rate=sum(self._rates.now().values()))
