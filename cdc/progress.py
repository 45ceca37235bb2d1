"""The figures of a run so far, behind the status line, the log lines and the summary. Driver, any thread."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from cdc.schema import TableId


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Row changes of a sink table or of all; an update counts once."""

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
    """Changes of one sink table since the start of the run, those of its schema among them."""

    schema_changes: int = 0


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One finished batch, committed at `committed_s` (since the epoch).

    Attributes:
        lag_s: the age of its newest change at that time, None without rows.
        read: changes read, by source table.
        phases: where the seconds went: those of the driver, and those of the slowest task.
        changes: the sink's schema changes, each with its table.
        position: the source's offset behind it.
        bytes: of the changes read, as columns.
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
        """All row changes of the batch."""
        return self.totals.rows

    @property
    def totals(self) -> TableTotals:
        """All changes of the batch."""
        return sum(self.tables.values(), TableTotals())


@dataclass(frozen=True, slots=True)
class ProgressTotals:
    """The totals of a run at one moment. `rate` is rows per second over the last few seconds."""

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
        """All row changes of the run."""
        return sum(totals.rows for totals in self.tables.values())


class Progress:
    """Collects batch reports; `totals()` is a consistent copy. Thread safe.

    `running` is the batch that runs, None where none does; `step` is where it is, in words that follow its number.
    """

    WINDOW_S = 5.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = ProgressTotals()
        self._recent: list[tuple[float, int]] = []
        self._reports: deque[BatchReport] = deque()
        self.running: int | None = None
        self.step = ""
        self._waiting = ""

    def begin(self, batch: int) -> None:
        """A batch starts."""
        self.running = batch

    def end(self, report: BatchReport) -> None:
        """A batch is committed."""
        with self._lock:
            tables, counts = dict(self._now.tables), Counter(self._now.counts)
            for table, delta in report.tables.items():
                tables[table] = tables.get(table, TableTotals()) + delta
            counts.update(report.counts)
            self._recent.append((time.monotonic(), report.rows))
            self._now = replace(
                self._now,
                tables=tables,
                counts=dict(counts),
                batches=self._now.batches + 1,
                last_batch=report.batch,
                last_duration_s=report.duration_s,
                lag_s=report.lag_s,
            )
            if self.running == report.batch:  # else the next one is being read already
                self.running = None
            self._waiting = ""
        self._reports.append(report)

    def reports(self) -> Iterator[BatchReport]:
        """Batch reports not taken yet, oldest first; each is given out once (to the log)."""
        while self._reports:
            yield self._reports.popleft()

    def note_lag(self, lag_bytes: int | None, note: str, transactions: int | None = None) -> None:
        """How much of the log is still to be read and what the source wants to be known, from the stream reader."""
        with self._lock:
            self._now = replace(self._now, lag_bytes=lag_bytes, lag_transactions=transactions, note=note)

    def note_wait(self, text: str) -> None:
        """The engine's present wait before it tries something again; until a batch is committed."""
        with self._lock:
            self._waiting = text

    def totals(self) -> ProgressTotals:
        """The totals now."""
        with self._lock:
            cutoff = time.monotonic() - self.WINDOW_S
            self._recent = [item for item in self._recent if item[0] >= cutoff]
            note = self._waiting or self._now.note
            return replace(self._now, note=note, rate=sum(rows for _, rows in self._recent) / self.WINDOW_S)
