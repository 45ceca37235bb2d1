"""The main thread of a run: shows progress, passes stop requests on, turns failures into our errors. Driver."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import CdcError, CommitUnknown, StateError, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.flow.progress import Progress
from cdc.job.copying import Copying
from cdc.job.error_transport import recover
from cdc.job.report import Reporter, new_counts
from cdc.job.spark.session import JAVA_GONE
from cdc.retry import Backoff, RetryPolicy
from cdc.signals import ABORTED, STOPPING
from cdc.state.directory import StateDir
from cdc.state.notices import Notices
from cdc.state.waits import Waits
from cdc.status.recording import Recording

_TICK_S = 0.2
_IDLE_TICK_S = 0.5  # each costs a few calls into Java, which count where many pipelines have nothing to do
_INITIALIZING = "Initializing sources"
_AGAIN = "a start of the query"


class Signals:
    """First SIGINT or SIGTERM asks for a clean stop, the second one ends the process at once.

    `drain` asks for what the log holds now, and the end after it.
    """

    def __init__(self, stop: threading.Event | None = None, drain: threading.Event | None = None) -> None:
        self.stop, self.drain = stop or threading.Event(), drain or threading.Event()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The signal handler."""
        if self.stop.is_set():
            os._exit(ABORTED)
        self.stop.set()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """While the block runs the handler is in place; no effect outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in STOPPING}
        self.take_over()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def take_over(self) -> None:
        """Install the handlers. Main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                signal.signal(number, self.handle)


class Watch:
    """The main thread of a run: shows progress, passes a stop request on, and turns failures into our errors."""

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        warm: Callable[[], None],
        runner: BatchRunner,
        progress: Progress,
        reporter: Reporter,
        state: StateDir,
        signals: Signals,
        retry: RetryPolicy,
        copying: Copying | None = None,
        recording: Recording | None = None,
        drained: Callable[[], StreamingQuery] | None = None,
    ) -> None:
        self._start = start
        self._warm: Callable[[], None] | None = warm
        self._query = start()
        self._retry, self._again, self._again_at = retry, Backoff(retry, _AGAIN), 0
        self._runner, self._progress = runner, progress
        self._reporter, self._state, self._signals, self._copying = reporter, state, signals, copying
        self._recording = recording
        self._counts: dict[str, int] = {}
        self._tick_s = _TICK_S
        self._note, self._notices = "", Notices(state.store)
        self._notices.begin()
        self._waits = Waits(state.sink), Waits(state.source)
        self._stopping = self._over = self._gave_up = False
        self._drained: Callable[[], StreamingQuery] | None = drained
        if recording is not None:
            recording.state("running")

    def until_end(self) -> None:
        """Returns when the query ended by itself or was stopped; raises what it failed with."""
        try:
            self._follow()
        except JAVA_GONE as error:
            raise WorkerLost(
                "Spark's Java process has ended",
                hint="see the lines above; a run after this one continues at the last committed batch",
            ) from error
        finally:
            self._over = True
            self._runner.finish()
        if self._runner.error is not None and not self._gives_up(self._runner.error):
            raise self._runner.error

    def _follow(self) -> None:
        while not self._ended():
            self.report()
            self._warm_once()
            if self._asked() and self._stop() and not self._drains():
                return

    def _asked(self) -> bool:
        """Whether somebody wants the query to end: in this process, or with a request in the state directory."""
        if not self._stopping and self._state.stop_requested():
            self._signals.stop.set()
        if self._state.drain_requested():
            self._signals.drain.set()
        return self._signals.stop.is_set() or (self._signals.drain.is_set() and self._drained is not None)

    def _drains(self) -> bool:
        """Where that was asked for: go on with a query that ends by itself, at what the log holds now."""
        if self._drained is None or self._signals.stop.is_set():
            return False
        self._reporter.line("draining: what the log holds now is still committed")
        self._stopping = False
        self._runner.restart()
        self._state.clear_control()
        self._query, self._drained = self._drained(), None
        return True

    def _ended(self) -> bool:
        """Wait one tick for the end of the query; end it when a commit has failed."""
        try:
            lost = self._lost()
            if (lost or self._runner.error) is not None and self._query.isActive:
                self._query.stop()
            if lost is not None:
                raise lost
            if self._query.isActive:
                self._query.awaitTermination(self._tick_s)  # type: ignore[arg-type]  # takes fractions
            return not self._query.isActive and self._raise_failure()
        except PySparkException as error:
            return self._failed(error)

    def _lost(self) -> StateError | None:
        """The error that keeps this run from writing anything more, such as another run that has begun."""
        try:
            self._state.store.check()
        except StateError as error:
            return error
        return None

    def _raise_failure(self) -> bool:
        error = self._query.exception() or self._runner.error
        return True if error is None else self._failed(error)

    def _failed(self, error: BaseException) -> bool:
        """Raise our error, unless only a process of Spark's is gone: then start the query again, and its batch."""
        known = self._runner.error or recover(error)
        if isinstance(known, WorkerLost) and self._started_again(known):
            return False
        if not self._gives_up(known):
            raise known from error
        return True

    def _started_again(self, lost: WorkerLost) -> bool:
        """Whether the query runs again; not once the time for that is up or the run is to stop.

        The time begins anew with every batch that was committed in between.
        """
        committed = self._progress.snapshot().batches
        if committed != self._again_at:
            self._again, self._again_at = Backoff(self._retry, _AGAIN), committed
        self._reporter.line(lost.message, level="warning")
        if not self._again.pause(lost.message):
            return False
        self._reporter.line("starting the query again; the batch that was running is repeated")
        if self._recording is not None:
            self._recording.restarted(lost)
        self._progress.waiting("")
        self._runner.restart()
        self._query = self._start()
        return True

    def _gives_up(self, error: CdcError) -> bool:
        """Whether the run was asked to stop and what failed only waited: the next run does it."""
        passing = error.retryable or isinstance(error, CommitUnknown)
        if not (self._stopping or self._signals.stop.is_set()) or not passing:
            return False
        if not self._gave_up:
            commit, batch = "commit, which the next run finishes", "batch, which the next run repeats"
            what = commit if self._runner.commit_failed else batch
            self._reporter.line(f"gave up the running {what}: {error}", level="warning")
        self._gave_up = True
        return True

    def _warm_once(self) -> None:
        """Once the stream reader is up, let the workers load what the first batch needs, in a thread."""
        if self._warm is not None and self._query.isActive and self._query.status["message"] != _INITIALIZING:
            threading.Thread(target=self._run_warm, args=(self._warm,), name="warm-workers", daemon=True).start()
            self._warm = None

    def _run_warm(self, warm: Callable[[], None]) -> None:
        """A run that ends while its workers still warm up takes Spark away from under them."""
        try:
            warm()
        except Exception:
            if not self._over:
                raise

    def _stop(self) -> bool:
        """Ask the stream reader to plan no more; once it says so no batch is running, and the query can end."""
        if not self._stopping:
            self._stopping = True
            if self._signals.stop.is_set():
                self._reporter.line("stopping after the running batch; a second signal aborts it")
            if self._recording is not None:
                self._recording.state("stopping")
            self._state.request_stop()
        if not self._state.stop_confirmed():
            return False
        self._query.stop()
        return True

    def report(self) -> None:
        """Show what happened since the last call."""
        self._read_lag()
        for notice in self._notices.take():
            self._reporter.line(notice, level="warning")
            if self._recording is not None:
                self._recording.notice(notice)
        now = self._progress.snapshot()
        waiting = [text for text in (waits.current() for waits in self._waits) if text]
        now = replace(now, note=waiting[0]) if waiting else now
        for report in self._progress.reports():
            self._reporter.batch(report)
            if self._recording is not None:
                self._recording.batch(report)
        for reason, number in new_counts(self._counts, now.counts):
            self._reporter.line(f"{reason}: {number:,}", level="warning")
        self._counts = dict(now.counts)
        if now.note and now.note != self._note:
            self._reporter.line(now.note, level="warning")
        self._note = now.note
        if self._copying is not None:
            self._copying.update(last=self._over)
        bars = self._copying.bars() if self._copying is not None else ()
        self._reporter.status(now, self._progress.running, bars)
        busy = now.rate or self._progress.running is not None or bars or self._stopping or not now.batches
        self._tick_s = _TICK_S if busy else _IDLE_TICK_S
        if self._recording is not None:
            self._recording.copies(self._copying.tables if self._copying is not None else ())
            self._recording.tick()

    def _read_lag(self) -> None:
        """The stream reader's lag comes with Spark's progress reports, as JSON in the text of an offset."""
        try:
            latest = self._query.lastProgress
        except JAVA_GONE:
            return
        source = latest["sources"][0] if latest and latest["sources"] else None
        lag = json.loads(source.get("latestOffset") or "null") if source else None
        if lag is not None:
            self._progress.lag(lag["bytes"], lag["note"], lag.get("transactions"))
