"""The main thread of a run: handles stop requests and failures of the query. Driver."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import CdcError, CommitUnknown, StateError, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.job.error_transport import recover
from cdc.job.monitor import Monitor
from cdc.job.spark.session import JAVA_GONE, java_errors_named
from cdc.process.signals import Signals
from cdc.progress import Progress
from cdc.retry import Backoff, RetryPolicy
from cdc.state.directory import StateDir

_TICK_S = 0.2
_IDLE_TICK_S = 0.5  # a tick costs a few calls into Java, which adds up with many idle pipelines
_CONFIRMS_S = 3.0
"""How long the stream reader may take to confirm a stop while no batch runs."""
_REPORTS_S = 5.0
"""How long a query that has ended may take to report it to Spark."""
_INITIALIZING = "Initializing sources"
_AGAIN = "a start of the query"


@dataclass(frozen=True, slots=True)
class QueryStart:
    """The start of a run's query.

    Attributes:
        start: starts the query.
        warm: warms the workers up for the first batch.
        drained: starts a query that ends at the current end of the log; None if `start` does.
    """

    start: Callable[[], StreamingQuery]
    warm: Callable[[], None]
    drained: Callable[[], StreamingQuery] | None = None


class Watch:
    """Starts the query, handles stop requests, and turns failures into CdcErrors. Main thread of a run."""

    def __init__(
        self,
        query: QueryStart,
        runner: BatchRunner,
        progress: Progress,
        monitor: Monitor,
        state: StateDir,
        signals: Signals,
        retry: RetryPolicy,
    ) -> None:
        self._start, self._drained = query.start, query.drained
        self._warm: Callable[[], None] | None = query.warm
        self._query = query.start()
        self._retry, self._again, self._again_at = retry, Backoff(retry, _AGAIN), 0
        self._runner, self._progress, self._monitor = runner, progress, monitor
        self._state, self._signals = state, signals
        self._stopping = self._finished = self._gave_up = False
        self._stopping_s = 0.0

    def until_end(self) -> None:
        """Return when the query has ended or was stopped; raise the error that it failed with."""
        try:
            with java_errors_named():
                self._follow()
        except WorkerLost as lost:
            if not self._gives_up(lost):
                raise
        finally:
            self._finished = True
            self._runner.finish()
            self._wait_for_its_thread()
        if self._runner.error is not None and not self._gives_up(self._runner.error):
            raise self._runner.error

    def _wait_for_its_thread(self) -> None:
        """Wait for the thread of a query that has ended: it tells Spark so, and prints a trace if Spark is gone."""
        with contextlib.suppress(PySparkException, *JAVA_GONE):
            if not self._query.isActive:
                self._query.awaitTermination(_REPORTS_S)  # type: ignore[arg-type]  # takes fractions

    def _follow(self) -> None:
        while not self._has_ended():
            self.report()
            self._warm_once()
            if self._is_stop_requested() and self._stop() and not self._drains():
                return

    def _is_stop_requested(self) -> bool:
        """Whether a stop is requested, in this process or in the state directory."""
        if not self._stopping and self._state.stop_requested():
            self._signals.stop.set()
        if self._state.drain_requested():
            self._signals.drain.set()
        return self._signals.stop.is_set() or (self._signals.drain.is_set() and self._drained is not None)

    def _drains(self) -> bool:
        """Switch to a query that ends at the current end of the log, if draining is requested; whether it did."""
        if self._drained is None or self._signals.stop.is_set():
            return False
        self._monitor.line("draining: the run ends once everything that the log holds now is committed")
        self._stopping = False
        self._runner.restart()
        self._state.clear_control()
        self._query, self._drained = self._drained(), None
        return True

    def _has_ended(self) -> bool:
        """Wait one tick for the end of the query; stop it if a commit has failed."""
        try:
            lost = self._lost()
            if (lost or self._runner.error) is not None and self._query.isActive:
                self._query.stop()
            if lost is not None:
                raise lost
            if self._query.isActive:
                tick_s = _TICK_S if self._monitor.busy or self._stopping else _IDLE_TICK_S
                self._query.awaitTermination(tick_s)  # type: ignore[arg-type]  # takes fractions
            return not self._query.isActive and self._raise_failure()
        except PySparkException as error:
            return self._raise_or_restart(error)

    def _lost(self) -> StateError | None:
        """The error that keeps this run from writing to its state, such as another run that has taken it over."""
        try:
            self._state.store.check()
        except StateError as error:
            return error
        return None

    def _raise_failure(self) -> bool:
        error = self._query.exception() or self._runner.error
        return True if error is None else self._raise_or_restart(error)

    def _raise_or_restart(self, error: BaseException) -> bool:
        """Raise the CdcError, unless only a process of Spark's has died: then restart the query and its batch."""
        known = self._runner.error or recover(error)
        if isinstance(known, WorkerLost) and self._restart_query(known):
            return False
        if not self._gives_up(known):
            raise known from error
        return True

    def _restart_query(self, lost: WorkerLost) -> bool:
        """Restart the query; False if the retry time is up or the run is about to stop.

        The retry time starts over with every committed batch.
        """
        committed = self._progress.totals().batches
        if committed != self._again_at:
            self._again, self._again_at = Backoff(self._retry, _AGAIN), committed
        self._monitor.line(lost.message, level="warning")
        if not self._again.pause(lost.message):
            return False
        self._monitor.line("restarting the query; the running batch is repeated")
        self._monitor.note_restart(lost)
        self._runner.restart()
        self._query = self._start()
        return True

    def _gives_up(self, error: CdcError) -> bool:
        """Whether the error may be left to the next run: a stop is requested, and the error is retryable."""
        passing = error.retryable or isinstance(error, CommitUnknown)
        if not (self._stopping or self._signals.stop.is_set()) or not passing:
            return False
        if not self._gave_up:
            commit, batch = "commit, which the next run finishes", "batch, which the next run repeats"
            failed_step = commit if self._runner.commit_failed else batch
            self._monitor.line(f"abandoned the running {failed_step}: {error}", level="warning")
        self._gave_up = True
        return True

    def _warm_once(self) -> None:
        """Once the stream reader is up, warm the workers up in a thread."""
        if self._warm is not None and self._query.isActive and not self._initializing():
            threading.Thread(target=self._run_warm, args=(self._warm,), name="warm-workers", daemon=True).start()
            self._warm = None

    def _run_warm(self, warm: Callable[[], None]) -> None:
        """Warm the workers up; errors are ignored after the end of the run, when Spark is gone."""
        try:
            warm()
        except Exception:
            if not self._finished:
                raise

    def _stop(self) -> bool:
        """Request that the stream reader plans no more batches; stop the query once it confirms; whether it is stopped.

        While the reader starts there is no batch either, so the query is stopped at once.
        """
        if not self._stopping:
            self._stopping, self._stopping_s = True, time.monotonic()
            if self._signals.stop.is_set():
                self._monitor.line("stopping after the running batch; a second signal aborts it")
            self._monitor.stopping()
            self._state.request_stop()
        if not (self._state.stop_confirmed() or self._initializing() or self._is_stuck()):
            return False
        self._query.stop()
        return True

    def _is_stuck(self) -> bool:
        """Whether no batch runs and the stream reader does not confirm: it compiles kernels or waits for an answer."""
        return self._progress.running is None and time.monotonic() - self._stopping_s >= _CONFIRMS_S

    def _initializing(self) -> bool:
        return bool(self._query.status["message"] == _INITIALIZING)

    def report(self) -> None:
        """Report what has happened since the last call."""
        self._monitor.update(self._query, last=self._finished)
