"""The driver's side of snapshots: stores the positions at which chunks were read, once their batch is decided."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc.schema import TableId
from cdc.source import Split, TableProgress
from cdc.state.store import Store
from connectors.mysql.snapshot.chunk import DONE, Begin, Chunk, Rename, TableEnd, Watermark
from connectors.mysql.snapshot.plan.chunk_plan import ChunkPlan, Watermarks
from connectors.mysql.snapshot.plan.lost_log import LostNote
from connectors.mysql.snapshot.plan.payloads import load_payload
from connectors.mysql.snapshot.plan.requests import MOVED_REASON, Requests
from connectors.mysql.snapshot.plan.splits import ChunkRead

RATE_S = 15.0
"""Window for rates."""


@dataclass(slots=True)
class _SnapshotProgress:
    """The progress of one table's snapshot."""

    rows: int = 0
    estimated: int = 0
    done: int = 0
    planned: int = 0
    started_s: float = 0.0
    updated_s: float = 0.0
    why: str = ""
    ended: bool = False
    recent: deque[tuple[float, int]] = field(default_factory=deque)


class DriverSide:
    """Writes watermarks and reports snapshot progress. Thread-safe: batches and the status line share it."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._plan, self._marks, self._clock = ChunkPlan(store), Watermarks(store), clock
        self._lost, self._requests = LostNote(store), Requests(store)
        self._tables: dict[TableId, _SnapshotProgress] = {}
        self._chunks: dict[int, _SnapshotProgress] = {}
        self._taken = 0
        self._old: set[int] | None = None
        self._counted: set[int] = set()
        self._lock = threading.Lock()

    def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:
        """Store the reports of tasks. Repeatable."""
        with self._lock:
            found = [Watermark(**report["chunk"]) for report in reports if "chunk" in report]
            if found:
                self._marks.add(found)
            if any("lost" in report for report in reports):
                self._lost.write(self._plan.count())
            for table, name in (tuple(report["uncertain"]) for report in reports if "uncertain" in report):
                self._requests.add(TableId(*table), name, MOVED_REASON)

    def widened(self, split: Split, reports: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """Return the reports of a split as if its chunks had been read at the end of the batch."""
        payload = load_payload(split).payload
        return payload.widened(reports) if isinstance(payload, ChunkRead) else reports

    def progress(self) -> list[TableProgress]:
        """Return the progress of every table that was or is being snapshotted, in the order in which they began."""
        with self._lock:
            now = self._clock()
            if self._old is None:  # the times of earlier runs are unknown
                self._old = set(self._marks.refresh())
            self._take_entries(now)
            for number in self._marks.refresh().keys() - self._counted:
                self._count(number, now)
            return [_progress(table, known, now) for table, known in self._tables.items()]

    def _take_entries(self, now: float) -> None:
        count = self._plan.count()
        if count < self._taken:  # a new run has truncated unused entries of the plan
            self._tables, self._chunks, self._taken, self._counted = {}, {}, 0, set()
        for index, entry in enumerate(self._plan.entries(self._taken, count), start=self._taken):
            match entry:
                case Begin(table=table):  # rows of an earlier snapshot do not count
                    self._tables[table] = _SnapshotProgress(why=entry.reason)
                case Chunk(table=table):
                    known = self._tables[table]
                    known.planned += entry.replaces is None
                    known.estimated = max(known.estimated, entry.table_rows)
                    self._chunks[index] = known
                    if self._old is not None and index not in self._old:
                        known.started_s = known.started_s or now
                case TableEnd(table=table, why=why) if why == DONE:
                    self._tables[table].ended = True
                case TableEnd(table=table):
                    self._tables.pop(table, None)
                case Rename(table=table, new_table=new) if table in self._tables:
                    self._tables[new] = self._tables.pop(table)
        self._taken = count

    def _count(self, number: int, now: float) -> None:
        self._counted.add(number)
        known = self._chunks.get(number)
        mark = self._marks[number]
        if known is None or not mark.done:
            return
        known.done += 1
        known.rows += mark.rows
        if self._old is not None and number not in self._old:
            known.updated_s = now
            known.recent.append((now, mark.rows))


def _progress(table: TableId, known: _SnapshotProgress, now: float) -> TableProgress:
    while known.recent and known.recent[0][0] < now - RATE_S:
        known.recent.popleft()
    span_s = min(RATE_S, max(1.0, now - known.started_s))
    # A chunk is read by the batch that plans it.
    state = "done" if known.ended else "copying" if known.planned else "waiting"
    return TableProgress(
        table,
        state,
        known.rows,
        known.rows if known.ended else max(known.estimated, known.rows),
        known.done,
        known.planned,
        known.started_s,
        known.updated_s,
        0.0 if known.ended else sum(rows for _, rows in known.recent) / span_s,
        known.why,
    )
