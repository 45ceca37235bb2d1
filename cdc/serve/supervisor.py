"""Keeps one pipeline running, or runs it on schedule: a thread that waits for the next run, runs it, and goes on.

| a run ends because | what follows |
|---|---|
| it was stopped on request | nothing until `start`; that is kept, also over a restart of the server |
| something has to be done while nothing runs (an edit, a savepoint) | that, then the next run at once |
| the source has an end, or the schedule's run has caught up | `finished`, or the next time of the schedule |
| it failed, and Spark has ended under it | the next run, once Spark is up again |
| it failed otherwise | what `pipeline.restart` says (`cdc.restarts`) |
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from cdc.errors import CdcError, EngineError, NotNow, StateError
from cdc.restarts import Restarts
from cdc.serve.attention import Waiting, reason
from cdc.serve.control import ErrorView, LogLine, Outcome, PipelineView, RunView, State
from cdc.serve.follow_up import FollowUp, NextRun, after_failure, after_success
from cdc.serve.hints import for_a_server
from cdc.serve.history import RunHistory
from cdc.serve.host import Host
from cdc.serve.log_file import RunLog
from cdc.serve.times import Times
from cdc.spec.life import restart_policy
from cdc.status.file import FILE_NAME, last_status

if TYPE_CHECKING:
    from cdc.job.control import RunControl
    from cdc.job.spark.shared import SharedSpark
    from cdc.spec.model import PipelineSpec
    from cdc.status.model import StatusDocument

T = TypeVar("T")


_CLOCK_S = 30.0
"""How often the clock is looked at that a schedule goes by: it may be set, and goes on while the machine sleeps."""


class Supervisor:
    """One pipeline of the folder. Methods may be called from any thread."""

    def __init__(self, spec: PipelineSpec, root: Path, host: Host, run: Callable[..., object] | None = None) -> None:
        """`run` stands in for `cdc.job.run.run` in tests."""
        self._job = run
        self.spec, self.root, self._host = spec, root, host
        self._history = RunHistory(root)
        self.log = RunLog(root, lambda line: host.log_line(spec.label, line))
        self._changed = threading.Condition()
        self._jobs: list[tuple[Callable[[], Any], Future[Any]]] = []
        self._closed = False
        self._control: RunControl | None = None
        self._run: RunView | None = None
        self._last_error: ErrorView | None = None
        self._due: NextRun | None = None
        self._state: State = "starting"
        self._waiting = Waiting()
        self._arrived: Callable[[], None] | None = None
        self.file_errors: tuple[str, ...] = ()
        self._after: Supervisor | None = None
        self._thread = threading.Thread(target=self._work, name=f"keep-{spec.label}", daemon=True)
        self._use(spec)

    def _use(self, spec: PipelineSpec) -> None:
        """Take a version of the file; between two runs."""
        self.spec = spec
        self._times = Times(spec.pipeline)
        self._restarts = Restarts(restart_policy(spec.pipeline, "exponential-delay"))
        self._shown = spec.model_dump(mode="json", by_alias=True, exclude={"rules", "rule_settings"})
        self._version = hashlib.sha256(json.dumps(self._shown, sort_keys=True).encode()).hexdigest()

    def begin(self, after: Supervisor | None = None) -> None:
        """Start its thread: the first run begins at once, or at the first time of the schedule; and once `after`, which
        has the same state directory and ends, has ended. A source that was read to its end is not read again."""
        self._after = after
        self._lose()
        with self._changed:
            if self._history.stopped:
                self._state = "stopped"
            elif self._times.schedule is None and self._history.finished == self._version:
                self._state = "finished"
            else:
                self._plan_first()
                if self._history.ran_until_server_ended() and self._due is not None and self._due.left_s() <= 0:
                    self._arrived = self._host.expect()
        self._thread.start()

    def _lose(self) -> None:
        """A run of an earlier server that was killed goes into the history."""
        if self._after is not None:
            return
        status = last_status(self.root)
        path = self.root / FILE_NAME
        rows, batches = (0, 0) if status is None else (status.totals.rows, status.batches_total)
        lost = self._history.lose(path.stat().st_mtime if path.exists() else 0.0, rows, batches)
        if lost is not None:
            self._log("the run before ended without a word: the server was killed, or its machine failed", "warning")

    def _plan_first(self) -> None:
        begins_s = self._times.first_s(time.time(), self._history.last_begun_s())
        self._plan("start" if begins_s is None else "schedule", begins_s)

    def _plan(self, why: str, begins_s: float | None = None, *, pause_s: float | None = None) -> None:
        """The next run, at a time or after a pause. Its state while it is waited for depends on why it begins."""
        now = time.time()
        if pause_s is not None:
            self._due = NextRun(why, now + pause_s, time.monotonic() + pause_s)
        else:
            self._due = NextRun(why, now if begins_s is None else begins_s)
        later = self._due.at_s > now
        self._state = "starting" if not later else "scheduled" if why == "schedule" else "waiting"
        self._changed.notify_all()

    def view(self) -> PipelineView:
        """How it is. Never waits for a run."""
        with self._changed:
            running, due, control = self._run, self._due, self._control
            error, state, waiting = self._last_error, self._state, self._waiting
            count = self._restarts.count
        runs, totals = list(self._history.runs()), self._history.totals
        if running is not None and control is not None:
            now = control.progress.totals()
            runs.insert(0, replace(running, rows=now.rows, batches=now.batches))
            totals = totals.with_run(runs[0])
            error = None if now.batches else error
        spec = self.spec
        return PipelineView(
            name=spec.label, file=spec.file, source=spec.source.type, sink=spec.sink.type, state=state,
            state_dir=str(self.root), schedule=spec.pipeline.schedule or "",
            next_run_s=due.at_s if due is not None and running is None else None, runs=runs, restarts=count,
            last_error=error, file_errors=self.file_errors, spec=self._shown,
            attention=reason(state, runs, waiting, time.time()), totals=totals,
        )  # fmt: skip

    def start(self) -> None:
        """Begin a run now; failures before are forgotten. Raises NotNow while a run is under way that was not stopped,
        StateError when it cannot be kept that it is not held any more: it begins all the same."""
        with self._changed:
            if self._run is not None and not self._history.stopped:
                raise NotNow("a run is under way", where=self.spec.label, hint="stop it first to begin another one")
            self._restarts.forget()
            if self._run is None:
                self._plan("start")
            self._history.set_stopped(False)

    def stop(self, *, drain: bool = False) -> None:
        """End the run, after what the log holds now where it is to `drain`; no other begins until `start`. Raises
        StateError when it cannot be kept that it is held: it ends all the same."""
        with self._changed:
            self._due = None
            if self._run is None:
                self._state = "stopped"
            elif self._control is not None:
                self._state = "stopping"
                (self._control.drain if drain else self._control.stop).set()
            self._changed.notify_all()
            self._history.set_stopped(True)

    def change(self, spec: PipelineSpec) -> None:
        """Go on with another version of the file: a run under way is stopped, and started over with it."""

        def use() -> None:
            self._use(spec)
            with self._changed:
                if not self._history.stopped and (self._state in ("failed", "finished") or spec.pipeline.schedule):
                    self._plan_first()

        self._enqueue(use)

    def between_runs(self, work: Callable[[], T], timeout_s: float) -> T:
        """Do something while nothing runs; a run under way is stopped for it, and goes on. Raises what `work` raises,
        and NotNow when the run does not end in time; it is then done when it does."""
        future = self._enqueue(work)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            message = f"the running batch has not ended after {timeout_s:.0f} s"
            raise NotNow(message, where=self.spec.label, hint="ask again later") from error

    def _enqueue(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            self._jobs.append((work, future))
            if self._control is not None:
                self._state = "stopping"
                self._control.stop.set()
            self._changed.notify_all()
        return future

    def close(self) -> None:
        """End with the running batch, for good; `join` waits for it."""
        with self._changed:
            self._closed = True
            if self._control is not None:
                self._state = "stopping"
                self._control.stop.set()
            self._changed.notify_all()

    def join(self, timeout_s: float | None = None) -> bool:
        """Whether its thread has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            if self._after is not None:
                self._after.join()
                self._after = None
            while (why := self._await_next_run()) is not None:
                try:
                    self._run_once(why)
                except Exception as error:  # noqa: BLE001 - shown; a thread that ended would leave the pipeline to nobody
                    self._note_failure(error)
        finally:
            self._note_arrival()
            self.log.close()

    def _note_arrival(self) -> None:
        """True once it has had its first turn, or will have none: pipelines that were not live need not wait for it."""
        if self._arrived is not None:
            self._arrived()
            self._arrived = None

    def _note_failure(self, error: Exception) -> None:
        """Something went wrong around a run: it has failed, until somebody starts it."""
        from cdc.flow.commits import as_cdc_error

        with self._changed:
            self._state, self._due, self._run, self._control = "failed", None, None, None
            self._last_error = ErrorView.of(as_cdc_error(error), time.time())
        self._log(f"failed, and is not started again: {as_cdc_error(error)}", "error")

    def _await_next_run(self) -> str | None:
        """Wait for the next run, and do meanwhile what is to be done while nothing runs; None at the end."""
        while True:
            with self._changed:
                if self._closed:
                    return None
                if not self._jobs:
                    left_s = None if self._due is None else self._due.left_s()
                    if self._due is None or (left_s is not None and left_s > 0):
                        self._changed.wait(None if left_s is None else min(left_s, _CLOCK_S))
                        continue
                    why, self._due = self._due.why, None
                    return why
                work, future = self._jobs.pop(0)
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised to the one who asked
                future.set_exception(error)

    def _run_once(self, why: str) -> None:
        session = self._host.session()
        if session is None:
            return
        started = self._host.turn(self._may_begin, first=self._arrived is not None)
        self._note_arrival()
        try:
            self._run_in_turn(why, session, started)
        finally:
            started()

    def _may_begin(self) -> bool:
        return not (self._closed or self._jobs or self._history.stopped)

    def _run_in_turn(self, why: str, session: SharedSpark, started: Callable[[], None]) -> None:
        from cdc.job.control import RunControl

        run = RunView(time.time(), None, None, why)
        with self._changed:
            if not self._may_begin():
                if not self._history.stopped:  # else it was stopped while Spark, or its turn, was waited for
                    self._plan(why)
                return
            self._due = None
            log = cast("IO[str]", self.log)
            again, words = why == "restart", partial(for_a_server, name=self.spec.label)
            beside = self._host.siblings(self.spec)
            control = RunControl(log=log, shared=session, siblings=beside, again=again, reads=started, words=words)
            self._control = control
            self._run, self._waiting = run, Waiting()
            self._state = "starting"
            self._write_history(lambda: self._history.record_start(run))
        error = self._failure(control)
        with self._changed:
            self._end_run(control, error)
            self._changed.notify_all()

    def _failure(self, control: RunControl) -> CdcError | None:
        """Run the pipeline; what it failed with."""
        from cdc.flow.commits import as_cdc_error

        try:
            self._run_job(control)
        except Exception as error:  # noqa: BLE001 - one pipeline's failure is no other's: shown, and restarted by policy
            return control.words(as_cdc_error(error))
        return None

    def _run_job(self, control: RunControl) -> None:
        from cdc.job.run import run

        (self._job or run)(
            self.spec,
            state_dir=self.root,
            log_format="json",
            control=control,
            on_status=self._on_status,
        )

    def _on_status(self, status: StatusDocument) -> None:
        running = status.state == "running"
        self._waiting = self._waiting.after(running=running, note=status.note, now_s=time.time())
        if running and self._state == "starting":
            self._state = "running"

    def _end_run(self, control: RunControl, error: CdcError | None) -> None:
        """A run has ended: what became of it, and what follows."""
        now_s, progress, run = time.time(), control.progress.totals(), self._run
        if run is None:
            raise EngineError("a run has ended that did not begin")
        stop_requested = control.stop.is_set() or control.drain.is_set()
        shown = None if error is None else ErrorView.of(error, now_s)
        outcome: Outcome = "failed" if error is not None else "stopped" if stop_requested else "finished"
        ended = replace(run, ended_s=now_s, outcome=outcome, rows=progress.rows, batches=progress.batches, error=shown)
        self._run = self._control = None
        self._waiting = Waiting()
        self._last_error = shown or (None if progress.batches or not stop_requested else self._last_error)
        version = self._version if outcome == "finished" else ""
        self._write_history(lambda: self._history.add(ended, version))
        if error is None:
            self._restarts.forget()
        if self._history.stopped or self._closed:
            self._state = "stopped"
        elif error is not None:
            if error.retryable and not self._host.spark_alive():
                self._plan("restart")
                return
            batch, committed = control.progress.running, progress.batches > 0
            self._follow(
                after_failure(error, self._restarts, self._times, batch=batch, committed=committed, now_s=time.time())
            )
        elif stop_requested:
            self._plan("request")
        else:
            self._follow(after_success(self._times, ended.started_s, time.time()))

    def _follow(self, then: FollowUp) -> None:
        """Plan the next run, or be in the state that is left without one."""
        if (skipped_s := then.skipped_s) is not None:
            skipped = RunView(skipped_s, skipped_s, "skipped", "schedule")
            self._write_history(lambda: self._history.add(skipped))
        if then.why is None:
            self._state = then.state
        else:
            self._plan(then.why, then.begins_s, pause_s=then.pause_s)
        if then.message:
            self._log(then.message, then.level)

    def _write_history(self, write: Callable[[], None]) -> None:
        """Put a run into the history: where there is no room for it, the next one that has some brings it along."""
        try:
            write()
        except StateError as error:
            self._log(f"the history of its runs is not kept on disk: {error}", "warning")

    def _log(self, message: str, level: str) -> None:
        self._host.log_line(self.spec.label, LogLine(time.time(), level, message))
