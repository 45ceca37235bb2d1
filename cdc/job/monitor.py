"""Log lines, the status line and the status document of a run while it goes on. Driver."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import WorkerLost
from cdc.job.copying import Copying
from cdc.job.long_steps import LongSteps
from cdc.job.report import Reporter, new_counts
from cdc.job.spark.session import JAVA_GONE
from cdc.progress import Progress
from cdc.state.directory import StateDir
from cdc.state.notices import Notices
from cdc.state.waits import Waits
from cdc.status.recording import Recording


class Monitor:
    """Tells what happened since it last did. The main thread of a run; nothing of it can stop the run.

    Args:
        progress: what the run did so far.
        reporter: the terminal, or the log.
        recording: the status document and the events.
        state: where source and sink note what they wait for and what the user should see.
        copying: how far the copying of tables is.

    Attributes:
        busy: whether something was going on when it last looked.
    """

    def __init__(
        self, progress: Progress, reporter: Reporter, recording: Recording, state: StateDir, copying: Copying
    ) -> None:
        self._progress, self._reporter, self._recording, self._copying = progress, reporter, recording, copying
        self._counts: Mapping[str, int] = {}
        self._note, self._notices = "", Notices(state.store)
        self._notices.begin()
        self._waits = Waits(state.sink), Waits(state.source)
        self._steps, self._answered = LongSteps(reporter), False
        self.busy = True
        recording.state("running")

    def line(self, text: str, level: str = "info") -> None:
        """A log line."""
        self._reporter.line(text, level=level)

    def stopping(self) -> None:
        """The run is to end."""
        self._recording.state("stopping")

    def note_restart(self, lost: WorkerLost) -> None:
        """The query is started again, as a process of Spark's is gone."""
        self._recording.note_restart(lost)
        self._progress.note_wait("")

    def update(self, query: StreamingQuery, *, last: bool) -> None:
        """Tell it now. `last`: the query has ended."""
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
        self._copying.update(last=last)
        bars = self._copying.bars()
        self._reporter.status(now, self._progress.running, bars)
        self.busy = bool(now.rate or self._progress.running is not None or bars or not now.batches)
        self._steps.look("" if last else self._step(now.batches))
        self._recording.set_copies(self._copying.tables)
        self._recording.tick()

    def _step(self, batches: int) -> str:
        """The present step in words, empty where only changes of the source are waited for."""
        if (running := self._progress.running) is not None:
            return f"batch {running} {self._progress.step}"
        return "" if batches or self._answered else "the stream reader starts, and looks for what the first batch holds"

    def _read_lag(self, query: StreamingQuery) -> None:
        """The stream reader's lag comes with Spark's progress reports, as JSON in the text of an offset."""
        try:
            latest = query.lastProgress
        except JAVA_GONE:
            return
        self._answered |= bool(latest)
        source = latest["sources"][0] if latest and latest["sources"] else None
        lag = json.loads(source.get("latestOffset") or "null") if source else None
        if lag is not None:
            self._progress.note_lag(lag["bytes"], lag["note"], lag.get("transactions"))
