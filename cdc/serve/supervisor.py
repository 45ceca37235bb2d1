"""Keeps one pipeline running, or runs it on schedule: a thread that waits for the next run, executes it, and repeats.

| a run ends because | what follows |
|---|---|
| it was stopped on request | nothing until `start`, also after a restart of the server |
| work has to be done while nothing runs (an edit, a savepoint) | the work, then the next run at once |
| the source has an end, or a scheduled run has caught up | `finished`, or the next scheduled time |
| it failed because Spark has ended | the next run, once Spark is up again |
| it failed otherwise | a restart as `pipeline.restart` says (`cdc.restarts`) |
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
from cdc.serve.attention import Waiting, reason
from cdc.serve.control import ErrorView, LogLine, Outcome, PipelineView, RunView, State
from cdc.serve.follow_up import FollowUp, NextRun, RunPolicy
from cdc.serve.hints import for_a_server
from cdc.serve.history import RunHistory
from cdc.serve.host import Host
from cdc.serve.log_file import RunLog

if TYPE_CHECKING:
    from cdc.job.control import RunControl
    from cdc.job.spark.shared import SharedSpark
    from cdc.spec.model import PipelineSpec
    from cdc.status.model import StatusDocument

T = TypeVar("T")


_CLOCK_S = 30.0
"""How often the clock of a schedule is read: it may be set, and continues while the machine sleeps."""


class Supervisor:
    """Supervises one pipeline of the folder. All methods are thread-safe."""

    def __init__(self, spec: PipelineSpec, root: Path, host: Host, run: Callable[..., object] | None = None) -> None:
        """Create a supervisor. `run` replaces `cdc.job.run.run` in tests."""
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
        """Switch to a version of the file, between two runs."""
        self.spec = spec
        self._policy = RunPolicy(spec.pipeline)
        self._shown = spec.model_dump(mode="json", by_alias=True, exclude={"rules", "rule_settings"})
        self._version = hashlib.sha256(json.dumps(self._shown, sort_keys=True).encode()).hexdigest()

    def begin(self, after: Supervisor | None = None) -> None:
        """Start its thread. The first run begins at once, or at the first scheduled time, but not before `after`, a
        stopping supervisor with the same state directory, has ended. A source read to its end is not read again."""
        self._after = after
        self._note_lost_run()
        with self._changed:
            if self._history.stopped:
                self._state = "stopped"
            elif self._policy.times.schedule is None and self._history.finished == self._version:
                self._state = "finished"
            else:
                self._plan_first()
                if self._history.ran_until_server_ended() and self._due is not None and self._due.left_s() <= 0:
                    self._arrived = self._host.expect()
        self._thread.start()

    def _note_lost_run(self) -> None:
        """Add the lost run of a killed server to the history."""
        if self._after is None and self._history.note_lost_run():
            self._log("the last run was lost: the server was killed, or its machine failed", "warning")

    def _plan_first(self) -> None:
        begins_s = self._policy.times.first_s(time.time(), self._history.last_begun_s())
        self._plan("start" if begins_s is None else "schedule", begins_s)

    def _plan(self, why: str, begins_s: float | None = None, *, pause_s: float | None = None) -> None:
        """Plan the next run, at a time or after a pause. The state until then depends on what starts it."""
        now = time.time()
        if pause_s is not None:
            self._due = NextRun(why, now + pause_s, time.monotonic() + pause_s)
        else:
            self._due = NextRun(why, now if begins_s is None else begins_s)
        later = self._due.at_s > now
        self._state = "starting" if not later else "scheduled" if why == "schedule" else "waiting"
        self._changed.notify_all()

    def view(self) -> PipelineView:
        """Return the current view. Never waits for a run."""
        with self._changed:
            running, due, control = self._run, self._due, self._control
            error, state, waiting = self._last_error, self._state, self._waiting
            count = self._policy.restarts.count
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
        """Start a run now and forget earlier failures. Raises NotNow while a run is active and not stopping, StateError
        when the new state cannot be stored: the run begins nevertheless."""
        with self._changed:
            if self._run is not None and not self._history.stopped:
                raise NotNow("a run is active", where=self.spec.label, hint="stop it first to start another one")
            self._policy.restarts.forget()
            if self._run is None:
                self._plan("start")
            self._history.set_stopped(False)

    def stop(self, *, drain: bool = False) -> None:
        """Stop the run, with `drain` at the current end of the log; no other begins until `start`. Raises StateError
        when the new state cannot be stored: the run ends nevertheless."""
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
        """Continue with another version of the file: the current run is stopped, and restarted with it."""

        def use() -> None:
            self._use(spec)
            with self._changed:
                if not self._history.stopped and (self._state in ("failed", "finished") or spec.pipeline.schedule):
                    self._plan_first()

        self._enqueue(use)

    def between_runs(self, work: Callable[[], T], timeout_s: float) -> T:
        """Do some work while nothing runs: the current run is stopped for it, and restarted. Raises the errors of
        `work`, and NotNow when the run does not end in time; the work is then done later."""
        future = self._enqueue(work)
        try:
            return future.result(timeout_s)
        except TimeoutError as error:
            message = f"the running batch has not ended after {timeout_s:.0f} s"
            raise NotNow(message, where=self.spec.label, hint="try again later") from error

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
        """End permanently after the running batch; `join` waits for it."""
        with self._changed:
            self._closed = True
            if self._control is not None:
                self._state = "stopping"
                self._control.stop.set()
            self._changed.notify_all()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for its thread; return whether it has ended."""
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
                except Exception as error:  # noqa: BLE001 - shown; the thread must not end
                    self._note_failure(error)
        finally:
            self._note_arrival()
            self.log.close()

    def _note_arrival(self) -> None:
        """Report that it had its first turn, or will have none: pipelines that were not active need not wait for it."""
        if self._arrived is not None:
            self._arrived()
            self._arrived = None

    def _note_failure(self, error: Exception) -> None:
        """Mark the pipeline as failed after an error outside of a run, until it is started."""
        from cdc.flow.commits import as_cdc_error

        with self._changed:
            self._state, self._due, self._run, self._control = "failed", None, None, None
            self._last_error = ErrorView.of(as_cdc_error(error), time.time())
        self._log(f"failed, and is not restarted: {as_cdc_error(error)}", "error")

    def _await_next_run(self) -> str | None:
        """Wait for the next run, and do queued work meanwhile; return None at the end."""
        while True:
            with self._changed:
                if self._closed:
                    return None
                if not self._jobs:
                    self._replan()
                    left_s = None if self._due is None else self._due.left_s()
                    if self._due is None or (left_s is not None and left_s > 0):
                        self._changed.wait(None if left_s is None else min(left_s, _CLOCK_S))
                        continue
                    why, self._due = self._due.why, None
                    return why
                work, future = self._jobs.pop(0)
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised to the caller
                future.set_exception(error)

    def _replan(self) -> None:
        """Let a scheduled run begin earlier if the clock was set back since it was planned."""
        if self._due is not None and self._due.why == "schedule":
            at_s = self._policy.times.earlier_s(self._due.at_s, self._history.last_begun_s(), time.time())
            self._due = replace(self._due, at_s=at_s)

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
                if not self._history.stopped:  # else it was stopped while it waited for Spark or its turn
                    self._plan(why)
                return
            self._due = None
            log = cast("IO[str]", self.log)
            again, reword = why == "restart", partial(for_a_server, name=self.spec.label)
            siblings = self._host.siblings(self.spec)
            control = RunControl(log=log, shared=session, siblings=siblings, again=again, reads=started, reword=reword)
            self._control = control
            self._run, self._waiting = run, Waiting()
            self._state = "starting"
            self._write_history(lambda: self._history.record_start(run))
        error = self._failure(control)
        with self._changed:
            self._end_run(control, error)
            self._changed.notify_all()

    def _failure(self, control: RunControl) -> CdcError | None:
        """Run the pipeline; return the error that it failed with."""
        from cdc.flow.commits import as_cdc_error

        try:
            self._run_job(control)
        except Exception as error:  # noqa: BLE001 - isolated from other pipelines: shown, and restarted by policy
            return control.reword(as_cdc_error(error))
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
        """Record the end of a run, and plan what follows."""
        now_s, progress, run = time.time(), control.progress.totals(), self._run
        if run is None:
            raise EngineError("a run has ended that was not started")
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
            self._policy.restarts.forget()
        if self._history.stopped or self._closed:
            self._state = "stopped"
        elif error is not None:
            if error.retryable and not self._host.spark_alive():
                self._plan("restart")
                return
            batch, committed = control.progress.running, progress.batches > 0
            self._follow(self._policy.after_failure(error, batch=batch, committed=committed, now_s=time.time()))
        elif stop_requested:
            self._plan("request")
        else:
            self._follow(self._policy.after_success(ended.started_s, time.time()))

    def _follow(self, then: FollowUp) -> None:
        """Plan the next run, or take the resulting state without one."""
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
        """Write the history; on a full disk, the next successful write includes the run."""
        try:
            write()
        except StateError as error:
            self._log(f"the history of its runs cannot be stored: {error}", "warning")

    def _log(self, message: str, level: str) -> None:
        self._host.log_line(self.spec.label, LogLine(time.time(), level, message))
