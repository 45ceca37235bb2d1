"""The figures of a run so far, behind the status line, the log lines and the summary. Driver, any thread."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.evolution.behavior import described
from cdc.flow.task import TaskResult
from cdc.schema import SchemaChange, TableId
from cdc.sink import Prepared


@dataclass(frozen=True, slots=True)
class TableTotals:
    """Changes of one sink table since the start of the run; an update counts once."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    schema_changes: int = 0

    @property
    def rows(self) -> int:
        """All row changes."""
        return self.inserts + self.updates + self.deletes


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
        total = TableTotals()
        for each in self.tables.values():
            total = _add(total, each)
        return total

    @classmethod
    def of(
        cls,
        batch: int,
        prepared: Sequence[Prepared],
        changes: Sequence[SchemaChange],
        results: Sequence[TaskResult],
        duration_s: float,
        counted: Mapping[str, int] | None = None,
        phases: Mapping[str, float] | None = None,
        position: dict[str, Any] | None = None,
    ) -> BatchReport:
        """Sum up what the tasks prepared and the driver applied; `counted` is what the commit counted.

        `phases` is where the driver's time went, with that of all tasks as `tasks`.
        """
        tables: dict[TableId, TableTotals] = {}
        for handle in prepared:
            delta = TableTotals(handle.inserts, handle.updates, handle.deletes)
            tables[handle.table] = _add(tables.get(handle.table), delta)
        for change in changes:
            tables[change.table] = _add(tables.get(change.table), TableTotals(schema_changes=1))
        counts: Counter[str] = Counter(counted or {})
        for reasons in (*(result.counts for result in results), *(handle.counts for handle in prepared)):
            counts.update(reasons)
        newest_ms = max((result.newest_ms for result in results), default=0)
        now = time.time()
        read: Counter[str] = Counter()
        for result in results:
            read.update(result.read)
        return cls(
            batch, tables, dict(counts), duration_s, now, now - newest_ms / 1000 if newest_ms else None, dict(read),
            _phases(phases or {}, results),
            tuple((str(change.table), described(change)) for change in changes), position,
            sum(result.bytes_read for result in results),
        )  # fmt: skip


def _phases(driver: Mapping[str, float], results: Sequence[TaskResult]) -> dict[str, float]:
    """The driver's phases, with those of the slowest task and what lies around it in the place of `tasks`."""
    slowest = max(results, key=lambda result: result.read_s, default=TaskResult())
    found = {name: seconds for name, seconds in driver.items() if name != "tasks"}
    if slowest.read_s:
        found |= {"dispatch": max(0.0, driver.get("tasks", 0.0) - slowest.read_s), **slowest.phases}
    return found


def _add(totals: TableTotals | None, delta: TableTotals) -> TableTotals:
    if totals is None:
        return delta
    return TableTotals(
        totals.inserts + delta.inserts,
        totals.updates + delta.updates,
        totals.deletes + delta.deletes,
        totals.schema_changes + delta.schema_changes,
    )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The totals at one moment. `rate` is rows per second over the last few seconds."""

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
    """Collects batch reports; `snapshot()` is a consistent copy. Thread safe."""

    WINDOW_S = 5.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Snapshot()
        self._recent: list[tuple[float, int]] = []
        self._reports: deque[BatchReport] = deque()
        self.running: int | None = None
        self._waiting = ""

    def begin(self, batch: int) -> None:
        """A batch starts."""
        self.running = batch

    def end(self, report: BatchReport) -> None:
        """A batch is committed."""
        with self._lock:
            tables, counts = dict(self._now.tables), Counter(self._now.counts)
            for table, delta in report.tables.items():
                tables[table] = _add(tables.get(table), delta)
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

    def lag(self, lag_bytes: int | None, note: str, transactions: int | None = None) -> None:
        """How much of the log is still to be read and what the source wants to be known, from the stream reader."""
        with self._lock:
            self._now = replace(self._now, lag_bytes=lag_bytes, lag_transactions=transactions, note=note)

    def waiting(self, text: str) -> None:
        """The engine's present wait before it tries something again; until a batch is committed."""
        with self._lock:
            self._waiting = text

    def snapshot(self) -> Snapshot:
        """The totals now."""
        with self._lock:
            cutoff = time.monotonic() - self.WINDOW_S
            self._recent = [item for item in self._recent if item[0] >= cutoff]
            note = self._waiting or self._now.note
            return replace(self._now, note=note, rate=sum(rows for _, rows in self._recent) / self.WINDOW_S)
