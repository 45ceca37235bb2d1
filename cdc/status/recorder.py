"""Builds the status document of a run from its events. Driver, one thread; writes nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc.errors import CdcError, ChangeRefused
from cdc.progress import BatchReport, ProgressTotals, Rates
from cdc.source import TableProgress
from cdc.status.model import (
    Batch,
    Copy,
    Error,
    Point,
    SchemaEvent,
    SchemaTotals,
    SinkLag,
    SourceNotice,
    State,
    StatusDocument,
    TableStatus,
)
from cdc.tables.pauses import PausedTables

BATCHES, POINTS, SCHEMA_EVENTS, ERRORS, NOTICES = 50, 240, 200, 20, 100
POINT_S = 5.0
"""Seconds between two points of the plots."""
_RATE_S = 10.0
"""The time that rates are means of."""

_HELD, _REFUSED = "held-back ", "refused-by-sink "


class Recorder:
    """Collects events, and returns the current document.

    Args:
        first: the initial document; its rings and `restarts` are those of the last run.
        clock: seconds since 1970.
    """

    def __init__(self, first: StatusDocument, clock: Callable[[], float] = time.time) -> None:
        self._status, self._clock = first, clock
        self._batches = deque(first.batches, BATCHES)
        self._points = deque(first.points, POINTS)
        self._events = deque(first.schema_changes, SCHEMA_EVENTS)
        self._errors, self._notices = deque(first.errors, ERRORS), deque(first.notices, NOTICES)
        self._tables: dict[str, TableStatus] = {}
        self._written, self._read = Rates(_RATE_S), Rates(_RATE_S)
        self._moving: set[str] = set()
        self._newest_s: float | None = None
        self._caught_up_s = 0.0

    def batch(self, report: BatchReport) -> None:
        """Record a committed batch."""
        if report.lag_s is not None:
            self._newest_s = report.committed_s - report.lag_s
        written = {str(table): totals for table, totals in report.tables.items()}
        for name, delta in written.items():
            table = self._table(name)
            self._tables[name] = replace(
                table,
                written=table.written + delta,
                schema_changes=table.schema_changes + delta.schema_changes,
                last_change_s=round(report.committed_s, 3) if delta.rows else table.last_change_s,
            )
        for name, number in report.read.items():
            self._tables[name] = replace(self._table(name), read=self._table(name).read + number)
        self._written.add({name: delta.rows for name, delta in written.items() if delta.rows})
        self._read.add(report.read)
        self._batches.append(_batch(report))
        self._schema_changes(report)
        now = self._status
        self._status = replace(
            now,
            position=report.position if report.position is not None else now.position,
            batches_total=now.batches_total + 1,
            totals=now.totals + report.totals,
            read=now.read + sum(report.read.values()),
            phases={
                name: round(now.phases.get(name, 0.0) + report.phases.get(name, 0.0), 4)
                for name in {**now.phases, **report.phases}
            },
            dead_letters=now.dead_letters + _dead_letters(report.counts),
        )

    def set_snapshots(self, tables: Sequence[TableProgress]) -> None:
        """Set the progress of copies."""
        for each in tables:
            copy, name = _copy(each), str(each.table)
            if self._table(name).copy != copy:
                self._tables[name] = replace(self._table(name), copy=copy)

    def set_paused_tables(self, pauses: PausedTables) -> None:
        """Set the paused and resumed tables."""
        paused, resumed = (tuple(sorted(map(str, tables))) for tables in (pauses.paused, pauses.resumed))
        self._status = replace(self._status, paused=paused, resumed=resumed)

    def notice(self, text: str) -> None:
        """Record a notice of the source."""
        self._notices.append(SourceNotice(self._now(), text))

    def error(self, error: BaseException) -> None:
        """Record an error that stopped the run, or a batch that is restarted."""
        if isinstance(error, ChangeRefused):
            schema = self._status.schema
            self._status = replace(self._status, schema=replace(schema, failed=schema.failed + 1))
            running = self._status.running_batch
            self._events.append(
                SchemaEvent(self._now(), -1 if running is None else running, error.where, error.message, "failed")
            )
        self._errors.append(shown_error(error, self._now()))

    def note_restart(self) -> None:
        """Record that the run restarts a batch after the loss of a process."""
        self._status = replace(self._status, restarts=self._status.restarts + 1)

    def state(self, state: State) -> None:
        """Set the current state of the run."""
        if state in ("ended", "failed"):
            self._read.clear()
            self._written.clear()
        self._status = replace(self._status, state=state)

    def status(self, seen: ProgressTotals, running: int | None) -> StatusDocument:
        """Return the current document; when nothing has changed, it differs from the last one only in `updated_s`."""
        now_s = self._now()
        read, written = self._read.now(), self._written.now()
        self._rate(read, written)
        lag = self._lag(seen, running, now_s)
        read_per_s, written_per_s = round(sum(read.values()), 1), round(sum(written.values()), 1)
        self._point(Point(now_s, lag.seconds, read_per_s, written_per_s))
        self._status = replace(
            self._status,
            updated_s=now_s,
            lag=lag,
            running_batch=running,
            read_per_s=read_per_s,
            written_per_s=written_per_s,
            counts=dict(seen.counts),
            note=seen.note,
            tables=tuple(self._tables[name] for name in sorted(self._tables)),
            batches=tuple(self._batches),
            points=tuple(self._points),
            schema_changes=tuple(self._events),
            errors=tuple(self._errors),
            notices=tuple(self._notices),
        )
        return self._status

    @property
    def busy(self) -> bool:
        """Whether the document changes with time alone: rates fall, the lag grows."""
        return bool(self._moving) or self._status.running_batch is not None or bool(self._status.lag.seconds)

    def _now(self) -> float:
        return round(self._clock(), 3)

    def _table(self, name: str) -> TableStatus:
        return self._tables.get(name) or self._tables.setdefault(name, TableStatus(name))

    def _rate(self, read: Mapping[str, float], written: Mapping[str, float]) -> None:
        moving = {*read, *written}
        for name in moving | self._moving:
            self._tables[name] = replace(
                self._table(name), read_per_s=read.get(name, 0.0), written_per_s=written.get(name, 0.0)
            )
        self._moving = moving

    def _lag(self, seen: ProgressTotals, running: int | None, now_s: float) -> SinkLag:
        """Return the lag of the sink: 0 unless a batch is running or bytes are waiting, otherwise the age of the newest
        committed change, or the time since it last was 0."""
        last = None if seen.lag_s is None else round(max(0.0, seen.lag_s), 3)
        seconds: float | None = None
        if running is None and not seen.lag_bytes:
            self._caught_up_s = now_s
            seconds = 0.0 if self._status.batches_total or seen.lag_bytes == 0 else None
        elif self._newest_s is not None:
            seconds = round(max(0.0, now_s - max(self._newest_s, self._caught_up_s)), 1)
        return SinkLag(seconds, seen.lag_bytes, seen.lag_transactions, last)

    def _point(self, point: Point) -> None:
        """Add a point to the plots, every POINT_S; a run of equal points is reduced to its two ends."""
        points = self._points
        ended = self._status.state in ("ended", "failed")
        if points and point.at_s - points[-1].at_s < (0.001 if ended else POINT_S):
            return
        if len(points) > 1 and _flat(points[-1], points[-2]) and _flat(points[-1], point):
            points.pop()
        points.append(point)

    def _schema_changes(self, report: BatchReport) -> None:
        at_s, schema = round(report.committed_s, 3), self._status.schema
        for table, change in report.changes:
            self._events.append(SchemaEvent(at_s, report.batch, table, change, "applied"))
        held, refused = 0, 0
        for reason, number in report.counts.items():
            outcome = "held-back" if reason.startswith(_HELD) else "refused" if reason.startswith(_REFUSED) else ""
            if outcome:
                _, change, table = reason.split(" ", 2)
                self._events.append(SchemaEvent(at_s, report.batch, table, change, outcome))
                held, refused = (
                    held + number * (outcome == "held-back"),
                    refused + number * (outcome == "refused"),
                )
        self._status = replace(
            self._status,
            schema=SchemaTotals(
                schema.behavior,
                schema.applied + len(report.changes),
                schema.held_back + held,
                schema.refused + refused,
                schema.failed,
            ),
        )


def shown_error(error: BaseException, at_s: float) -> Error:
    """Convert an error for display; an unexpected one is shown with its class and text."""
    if isinstance(error, CdcError):
        return Error(at_s, error.class_name, error.message, error.where, error.hint, error.retryable)
    return Error(at_s, type(error).__name__, str(error)[:500], hint="CDC_DEBUG=1 shows where it came from")


def _flat(one: Point, other: Point) -> bool:
    return replace(one, at_s=other.at_s) == other


def _batch(report: BatchReport) -> Batch:
    lag_s = None if report.lag_s is None else round(max(0.0, report.lag_s), 3)
    phases = {name: round(seconds, 4) for name, seconds in report.phases.items()}
    return Batch(
        report.batch, round(report.committed_s, 3), round(report.duration_s, 4), report.rows, len(report.tables), lag_s,
        phases,
    )  # fmt: skip


def _dead_letters(counts: Mapping[str, int]) -> int:
    return sum(number for reason, number in counts.items() if "dead-letter" in reason.partition(" ")[0])


def _copy(each: TableProgress) -> Copy:
    eta_s: Any = each.eta_s
    return Copy(
        each.state, each.rows, each.estimated_rows, each.chunks, each.planned_chunks, round(each.rows_per_s),
        None if eta_s is None else round(eta_s), each.why, round(each.started_s, 3), round(each.updated_s, 3),
    )  # fmt: skip
