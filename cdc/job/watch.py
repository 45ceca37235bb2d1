"""The main thread of a run: passes stop requests on, and turns failures into our errors. Driver."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from cdc.errors import CdcError, CommitUnknown, StateError, WorkerLost
from cdc.flow.batch import BatchRunner
from cdc.job.error_transport import recover
from cdc.job.monitor import Monitor
from cdc.job.spark.session import errors_ignored_after_stop, java_errors_named
from cdc.process.signals import ABORTED, STOPPED_EARLY, STOPPING
from cdc.progress import Progress
from cdc.retry import Backoff, RetryPolicy
from cdc.state.directory import StateDir

_TICK_S = 0.2
_IDLE_TICK_S = 0.5  # each costs a few calls into Java, which count where many pipelines have nothing to do
_INITIALIZING = "Initializing sources"
_AGAIN = "a start of the query"


class Signals:
    """First SIGINT or SIGTERM asks for a clean stop, the second one ends the process at once.

    `drain` asks for what the log holds now, and the end after it. `stopped_early`: the line of a run that has read
    nothing by then.
    """

    stopped_early: ClassVar[str] = STOPPED_EARLY

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
        self.install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def errors_ignored_after_stop(self) -> AbstractContextManager[None, bool | None]:
        """A failure in the block after a signal is no error: one to the whole group has ended Java, too."""
        return errors_ignored_after_stop(self.stop)

    def install(self) -> None:
        """Install the handlers. Main thread."""
        if threading.current_thread() is threading.main_thread():
            for number in STOPPING:
                signal.signal(number, self.handle)


@dataclass(frozen=True, slots=True)
class QueryStart:
    """The start of a run's query.

    Attributes:
        start: starts it.
        warm: lets the workers load what the first batch needs.
        drained: starts one that ends at what the log holds then; None where `start` does.
    """

    start: Callable[[], StreamingQuery]
    warm: Callable[[], None]
    drained: Callable[[], StreamingQuery] | None = None


class Watch:
    """The main thread of a run: passes a stop request on, and turns failures into our errors. Starts the query."""

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

    def until_end(self) -> None:
        """Returns when the query ended by itself or was stopped; raises what it failed with."""
        try:
            with java_errors_named():
                self._follow()
        except WorkerLost as lost:
            if not self._gives_up(lost):
                raise
        finally:
            self._finished = True
            self._runner.finish()
        if self._runner.error is not None and not self._gives_up(self._runner.error):
            raise self._runner.error

    def _follow(self) -> None:
        while not self._has_ended():
            self.report()
            self._warm_once()
            if self._is_stop_requested() and self._stop() and not self._drains():
                return

    def _is_stop_requested(self) -> bool:
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
        self._monitor.line("draining: what the log holds now is still committed")
        self._stopping = False
        self._runner.restart()
        self._state.clear_control()
        self._query, self._drained = self._drained(), None
        return True

    def _has_ended(self) -> bool:
        """Wait one tick for the end of the query; end it when a commit has failed."""
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
        """The error that keeps this run from writing anything more, such as another run that has begun."""
        try:
            self._state.store.check()
        except StateError as error:
            return error
        return None

    def _raise_failure(self) -> bool:
        error = self._query.exception() or self._runner.error
        return True if error is None else self._raise_or_restart(error)

    def _raise_or_restart(self, error: BaseException) -> bool:
        """Raise our error, unless only a process of Spark's is gone: then start the query again, and its batch."""
        known = self._runner.error or recover(error)
        if isinstance(known, WorkerLost) and self._restart_query(known):
            return False
        if not self._gives_up(known):
            raise known from error
        return True

    def _restart_query(self, lost: WorkerLost) -> bool:
        """Whether the query runs again; not once the time for that is up or the run is to stop.

        The time starts over with every batch that was committed in between.
        """
        committed = self._progress.totals().batches
        if committed != self._again_at:
            self._again, self._again_at = Backoff(self._retry, _AGAIN), committed
        self._monitor.line(lost.message, level="warning")
        if not self._again.pause(lost.message):
            return False
        self._monitor.line("starting the query again; the batch that was running is repeated")
        self._monitor.note_restart(lost)
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
            self._monitor.line(f"gave up the running {what}: {error}", level="warning")
        self._gave_up = True
        return True

    def _warm_once(self) -> None:
        """Once the stream reader is up, let the workers load what the first batch needs, in a thread."""
        if self._warm is not None and self._query.isActive and not self._initializing():
            threading.Thread(target=self._run_warm, args=(self._warm,), name="warm-workers", daemon=True).start()
            self._warm = None

    def _run_warm(self, warm: Callable[[], None]) -> None:
        """A run that ends while its workers still warm up takes Spark away from under them."""
        try:
            warm()
        except Exception:
            if not self._finished:
                raise

    def _stop(self) -> bool:
        """Ask the stream reader to plan no more; once it says so no batch is running, and the query can end. Before the
        reader is up there is none either: kernels that it compiles are not waited for."""
        if not self._stopping:
            self._stopping = True
            if self._signals.stop.is_set():
                self._monitor.line("stopping after the running batch; a second signal aborts it")
            self._monitor.stopping()
            self._state.request_stop()
        if not (self._state.stop_confirmed() or self._initializing()):
            return False
        self._query.stop()
        return True

    def _initializing(self) -> bool:
        return bool(self._query.status["message"] == _INITIALIZING)

    def report(self) -> None:
        """Show what happened since the last call."""
        self._monitor.update(self._query, last=self._finished)
