"""Updates the status document, the event file and other outlets from the start of a run to its end.

None of this can stop a run: an error in writing is logged once, and the write is retried.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from cdc.errors import StateError
from cdc.process.repeated import repeatedly
from cdc.progress import BatchReport, Progress
from cdc.source import TableProgress
from cdc.status.events import EventFile
from cdc.status.file import BEAT_S, LIVING, beat, last_status, write_status
from cdc.status.history import HistoryFile
from cdc.status.model import SchemaTotals, State, StatusDocument
from cdc.status.recorder import Recorder, shown_error
from cdc.tables.pauses import PausedTables

if TYPE_CHECKING:
    from cdc.status.traces import Traces

WRITE_S = 1.0
"""Minimum seconds between two writes of the file; a large document is written less often."""
_SHARE = 0.02
"""Maximum share of the main thread's time spent on the document."""


def first_status(
    root: Path, pipeline: str, *, name: str, source: str, sink: str, file: str, behavior: str, bounded: bool = False
) -> StatusDocument:
    """Return the initial document of a run, with rings and restarts of the last run. Driver."""
    before, now_s = last_status(root), round(time.time(), 3)
    started = StatusDocument(
        pipeline, name, source, sink, "starting", os.getpid(), socket.gethostname(), now_s, now_s,
        bounded=bounded, file=file, schema=SchemaTotals(behavior), runs=1,
    )  # fmt: skip
    if before is None or before.pipeline != pipeline:
        return started
    crashed = before.state in LIVING or before.state == "failed"
    return replace(
        started, runs=before.runs + 1, restarts=before.restarts + crashed, position=before.position,
        batches=before.batches, points=before.points, schema_changes=before.schema_changes, errors=before.errors,
        notices=before.notices,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outlets:
    """Further receivers of a run's status, besides its status document.

    Attributes:
        events: the event file.
        seen: called with every new document (metrics).
        traces: traces of batches.
    """

    events: EventFile | None = None
    seen: Callable[[StatusDocument], None] | None = None
    traces: Traces | None = None


class Recording:
    """Records the status of one run; a context manager around it. Driver, the run's main thread or that of `ticking`.

    Args:
        first: the result of `first_status`.
        root: the state directory.
        progress: the figures of the run.
        warn: writes a warning to the log.
        outlets: further receivers.
        pauses: returns the paused tables.
    """

    def __init__(
        self,
        first: StatusDocument,
        root: Path,
        progress: Progress,
        warn: Callable[[str], None],
        outlets: Outlets = Outlets(),
        pauses: Callable[[], PausedTables] = PausedTables,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder, self._root, self._progress, self._clock = Recorder(first), root, progress, clock
        self._warn, self._outlets = warn, outlets
        self._dirty, self._written, self._next_s, self._beat_s = True, False, 0.0, 0.0
        self._pauses, self._pauses_now = pauses, PausedTables()
        self._copies: dict[str, str] = {}
        self._warned: set[str] = set()
        self._history = HistoryFile(root)
        self.status = first
        """The last written document."""

    def __enter__(self) -> Recording:
        first = self.status
        self._record_event("started", source=first.source, sink=first.sink, runs=first.runs)
        self.tick(at_once=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.error(error)
        self.state("ended" if error is None else "failed")
        self.tick(at_once=True)
        state, batches, rows = self.status.state, self.status.batches_total, self.status.totals.rows
        self._record_event("stopped", state=state, batches=batches, rows=rows)
        if self._outlets.traces is not None:
            self._outlets.traces.close()

    def state(self, state: State) -> None:
        """Set the current state of the run."""
        self._recorder.state(state)
        self._dirty = True

    def batch(self, report: BatchReport) -> None:
        """Record a committed batch."""
        self._recorder.batch(report)
        self._dirty = True
        if self._outlets.traces is not None and (report.rows or report.tables):
            self._outlets.traces.batch(report)
        if self._outlets.events is not None and (report.rows or report.tables):
            self._record_event(
                "batch", batch=report.batch, rows=report.rows, tables=len(report.tables),
                duration_s=round(report.duration_s, 4), lag_s=None if report.lag_s is None else round(report.lag_s, 3),
                phases={name: round(seconds, 4) for name, seconds in report.phases.items()}, position=report.position,
            )  # fmt: skip

    def set_snapshots(self, tables: Sequence[TableProgress]) -> None:
        """Set the progress of copies."""
        if not tables:
            return
        self._recorder.set_snapshots(tables)
        for each in tables:
            name, before = str(each.table), self._copies.get(str(each.table))
            if each.state != before and (each.state == "copying" or (each.state == "done" and before is not None)):
                self._record_event(
                    "copy", table=name, state=each.state, rows=each.rows, chunks=each.chunks, why=each.why
                )  # fmt: skip
            self._dirty |= each.state == "copying" or each.state != before
            self._copies[name] = each.state

    def notice(self, text: str) -> None:
        """Record a notice of the source."""
        self._recorder.notice(text)
        self._record_event("notice", text=text)
        self._dirty = True

    def error(self, error: BaseException) -> None:
        """Record an error that stopped the run, or a batch that is restarted."""
        self._recorder.error(error)
        if self._outlets.traces is not None:
            self._outlets.traces.record_failure(error, self._progress.running, time.time())
        fields: dict[str, Any] = asdict(shown_error(error, 0.0))
        del fields["at_s"]
        self._record_event("error", **fields)
        self._dirty = True

    def note_restart(self, error: BaseException) -> None:
        """Record that the run restarts a batch after the loss of a process."""
        self.error(error)
        self._recorder.note_restart()

    def tick(self, *, at_once: bool = False) -> None:
        """Write the document when something is new and it is due. Called several times per second."""
        now = self._clock()
        if now < self._next_s and not at_once:
            return
        seen, running = self._progress.totals(), self._progress.running
        self._try(self._update_pauses)
        seen_lag = (seen.lag_bytes, seen.lag_transactions, seen.note, running)
        if self._dirty or self._recorder.busy or seen_lag != self._last_recorded() or at_once:
            self._write(self._recorder.status(seen, running))
        elif now - self._beat_s >= BEAT_S:
            self._try(lambda: beat(self._root))
            self._beat_s = now
        self._try(lambda: self._history.add(self.status, time.time()))
        took = self._clock() - now
        self._next_s = now + max(WRITE_S, took / _SHARE)

    def ticking(self, every_s: float = WRITE_S) -> AbstractContextManager[None]:
        """Call `tick` in a thread while the block runs, as the run's thread waits for a server or for kernels there."""
        return repeatedly(lambda _: self.tick(), every_s, "status")

    def _update_pauses(self) -> None:
        pauses = self._pauses()
        if pauses != self._pauses_now:
            self._pauses_now, self._dirty = pauses, True
            self._recorder.set_paused_tables(pauses)

    def _last_recorded(self) -> tuple[Any, ...]:
        lag = self.status.lag
        return lag.bytes, lag.transactions, self.status.note, self.status.running_batch

    def _write(self, status: StatusDocument) -> None:
        self._dirty = False
        self._beat_s = self._clock()
        if self._written and replace(status, updated_s=self.status.updated_s) == self.status:
            self._try(lambda: beat(self._root))
            return
        self._written = True
        self._try(lambda: write_status(self._root, status))
        self._record_schema_events(status)
        self.status = status
        if self._outlets.seen is not None:
            self._outlets.seen(status)

    def _record_schema_events(self, status: StatusDocument) -> None:
        known = {id(change) for change in self.status.schema_changes}
        for change in status.schema_changes if self._outlets.events is not None else ():
            if id(change) not in known:
                fields = asdict(change)
                del fields["at_s"]
                self._record_event("schema-change", **fields)

    def _record_event(self, event: str, **fields: Any) -> None:
        events = self._outlets.events
        if events is not None:
            self._try(lambda: events.add(event, **fields))

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except StateError as error:
            if str(error) not in self._warned:
                self._warned.add(str(error))
                self._warn(f"the run continues, but its status cannot be updated: {error}")
