"""Updates the log, the status line and the status document of a run. Driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import WorkerLost
from cdc.job.long_steps import LongSteps
from cdc.job.report import Reporter, new_counts
from cdc.job.snapshot_monitor import SnapshotMonitor
from cdc.job.spark.session import JAVA_GONE
from cdc.progress import Progress
from cdc.state.directory import StateDir
from cdc.state.notices import Notices
from cdc.state.waits import Waits
from cdc.status.recording import Recording


class Monitor:
    """Reports what has happened since the last update. Main thread of a run; it cannot stop the run.

    Args:
        progress: what the run has done so far.
        reporter: the terminal, or the log.
        recording: the status document and the events.
        state: where source and sink write notices and what they wait for.
        snapshots: the progress of snapshots.

    Attributes:
        busy: whether a batch or a snapshot was in progress at the last update.
    """

    def __init__(
        self, progress: Progress, reporter: Reporter, recording: Recording, state: StateDir, snapshots: SnapshotMonitor
    ) -> None:
        self._progress, self._reporter, self._recording, self._snapshots = progress, reporter, recording, snapshots
        self._counts: Mapping[str, int] = {}
        self._note, self._notices = "", Notices(state.store)
        self._notices.begin()
        self._waits = Waits(state.sink), Waits(state.source)
        self._steps, self._answered = LongSteps(reporter), False
        self.busy = True
        recording.state("running")

    def line(self, text: str, level: str = "info") -> None:
        """Write a log line."""
        self._reporter.line(text, level=level)

    def stopping(self) -> None:
        """Record that the run is about to stop."""
        self._recording.state("stopping")

    def note_restart(self, lost: WorkerLost) -> None:
        """Record that the query is restarted because a process of Spark's has died."""
        self._recording.note_restart(lost)
        self._progress.note_wait("")

    def update(self, query: StreamingQuery, *, last: bool) -> None:
        """Report what is new. `last`: the query has ended."""
        self._read_lag(query)
        for notice in self._notices.drain():
            self.line(notice, level="warning")
            self._recording.notice(notice)
        now = self._progress.totals()
        waiting = [text for text in (waits.current() for waits in self._waits) if text]
        now = replace(now, note=waiting[0]) if waiting else now
        for report in self._progress.reports():
            self._reporter.batch(report)
            self._recording.batch(report)
        for reason, number in new_counts(self._counts, now.counts):
            self.line(f"{reason}: {number:,}", level="warning")
        self._counts = dict(now.counts)
        if now.note and now.note != self._note:
            self.line(now.note, level="warning")
        self._note = now.note
        self._snapshots.update(last=last)
        bars = self._snapshots.bars()
        self._reporter.status(now, self._progress.running, bars)
        self.busy = bool(now.rate or self._progress.running is not None or bars or not now.batches)
        self._steps.note("" if last else self._step(now.batches))
        self._recording.set_snapshots(self._snapshots.tables)
        self._recording.tick()

    def _step(self, batches: int) -> str:
        """A description of the current step, empty if the run only waits for changes of the source."""
        if (running := self._progress.running) is not None:
            return f"batch {running} {self._progress.step}"
        return "" if batches or self._answered else "the stream reader starts and plans the first batch"

    def _read_lag(self, query: StreamingQuery) -> None:
        """Read the stream reader's lag from Spark's progress report, where it is JSON in the text of an offset."""
        try:
            latest = query.lastProgress
        except JAVA_GONE:
            return
        self._answered |= bool(latest)
        source = latest["sources"][0] if latest and latest["sources"] else None
        lag = json.loads(source.get("latestOffset") or "null") if source else None
        if lag is not None:
            self._progress.note_lag(lag["bytes"], lag["note"], lag.get("transactions"))
