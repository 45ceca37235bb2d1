"""The life of one pipeline under the server, with runs that the test begins and ends."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cdc_process import wait_for

import cdc
from cdc.errors import CdcError, EditRefused, NotNow, SourceUnavailable, StateError, TransformError, WorkerLost
from cdc.job.control import RunControl
from cdc.serve import follow_up
from cdc.serve import supervisor as module
from cdc.serve.control import LogLine, PipelineView, RunView
from cdc.serve.history import RunHistory
from cdc.serve.supervisor import Supervisor
from cdc.serve.turns import RunTurns

FILE = "source:\n  type: values\n  rows: []\nsink:\n  type: values\n"
WAIT_S = 300.0


class Runs:
    """Stands in for runs of a pipeline and for the server; a run lasts until it is stopped or `end` is called."""

    def __init__(self) -> None:
        self.begun: queue.Queue[dict[str, Any]] = queue.Queue()
        self.ends: queue.Queue[CdcError | None] = queue.Queue()
        self.turns = RunTurns(4)
        self.alive, self.told = True, list[LogLine]()
        self.asked, self.spark_up = queue.Queue[None](), threading.Event()
        self.spark_up.set()

    def __call__(self, spec: Any, *, control: RunControl, **options: Any) -> None:
        self.begun.put({"spec": spec, "control": control, **options})
        while not (control.stop.is_set() or control.drain.is_set()):
            try:
                error = self.ends.get(timeout=0.01)
            except queue.Empty:
                continue
            if error is not None:
                raise error
            return

    def session(self) -> Any:
        self.asked.put(None)
        self.spark_up.wait()
        return object()

    def spark_alive(self) -> bool:
        return self.alive

    def siblings(self, spec: Any) -> None:
        return None

    def turn(self, wanted: Callable[[], bool], *, first: bool) -> Callable[[], None]:
        return self.turns.wait_turn(wanted, first=first)

    def expect(self) -> Callable[[], None]:
        return self.turns.expect()

    def log_line(self, name: str, line: LogLine) -> None:
        self.told.append(line)


class Kept:
    """A supervisor and what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs, self.supervisors = folder, Runs(), list[Supervisor]()

    def close(self) -> None:
        """End all of them, as the server does."""
        for supervisor in self.supervisors:
            supervisor.close()
            assert supervisor.join(WAIT_S)

    def keep(self, pipeline: str = "", state: str = "state") -> Supervisor:
        spec = cdc.load(self.folder / "p.yaml", text=FILE + (f"pipeline: {{{pipeline}}}\n" if pipeline else "")).spec
        supervisor = Supervisor(spec, self.folder / state, self.runs, self.runs)  # type: ignore[arg-type]
        self.supervisors.append(supervisor)
        supervisor.begin()
        return supervisor

    def begun(self) -> dict[str, Any]:
        return self.runs.begun.get(timeout=WAIT_S)

    def none_begins(self) -> None:
        with pytest.raises(queue.Empty):
            self.runs.begun.get(timeout=0.2)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    kept.close()


def shown(supervisor: Supervisor, state: str) -> PipelineView:
    """Its view once it is in a state."""
    tick, deadline = threading.Event(), WAIT_S
    while supervisor.view().state != state:
        tick.wait(0.01)
        deadline -= 0.01
        assert deadline > 0, f"still {supervisor.view()}, not {state}"
    return supervisor.view()


def test_a_continuous_pipeline_runs_until_it_is_stopped_and_that_is_kept(kept: Kept) -> None:
    supervisor = kept.keep()
    kept.begun()
    supervisor.stop()
    view = shown(supervisor, "stopped")
    assert [(run.why, run.outcome) for run in view.runs] == [("start", "stopped")]
    supervisor.close()
    assert supervisor.join(WAIT_S)
    again = kept.keep()
    kept.none_begins()
    assert again.view().state == "stopped"
    again.start()
    assert kept.begun()["control"].stop.is_set() is False


def test_what_is_stopped_while_spark_starts_waits_for_a_start(kept: Kept) -> None:
    kept.runs.spark_up.clear()
    supervisor = kept.keep()
    kept.runs.asked.get(timeout=WAIT_S)
    supervisor.stop()
    kept.runs.spark_up.set()
    kept.none_begins()
    assert (supervisor.view().state, kept.runs.asked.qsize()) == ("stopped", 0)
    supervisor.start()
    kept.begun()


def test_a_start_while_spark_starts_is_the_run_that_is_due(kept: Kept) -> None:
    kept.runs.spark_up.clear()
    supervisor = kept.keep()
    kept.runs.asked.get(timeout=WAIT_S)
    supervisor.start()
    kept.runs.spark_up.set()
    kept.begun()
    kept.runs.ends.put(None)
    assert len(shown(supervisor, "finished").runs) == 1
    kept.none_begins()


def test_a_start_while_a_run_is_under_way_is_refused_and_one_behind_a_stop_is_not(kept: Kept) -> None:
    supervisor = kept.keep()
    kept.begun()
    with pytest.raises(NotNow, match="a run is active"):
        supervisor.start()
    supervisor.stop()
    supervisor.start()
    kept.begun()
    assert [run.outcome for run in supervisor.view().runs] == [None, "stopped"]


def test_a_run_waits_for_its_turn_to_start_and_gives_it_back_when_it_reads(kept: Kept) -> None:
    kept.runs.turns = RunTurns(1, longest_s=1000)
    kept.keep()
    first = kept.begun()["control"]
    second = kept.keep()
    kept.none_begins()
    assert second.view().state == "starting"
    first.reads()
    kept.begun()


def test_after_a_restart_what_was_live_begins_before_all_others(kept: Kept) -> None:
    kept.keep("name: live")
    kept.begun()
    kept.close()
    kept.runs.turns = RunTurns(1, longest_s=1000)
    kept.runs.spark_up.clear()
    while not kept.runs.asked.empty():
        kept.runs.asked.get()
    kept.keep("name: new", state="other")
    kept.keep("name: live")
    for _ in range(2):
        kept.runs.asked.get(timeout=WAIT_S)
    kept.runs.spark_up.set()
    first = kept.begun()
    assert first["spec"].name == "live"
    kept.none_begins()
    first["control"].reads()
    assert kept.begun()["spec"].name == "new"


def test_after_a_restart_a_source_that_was_read_to_its_end_is_not_read_again_unless_its_file_has_changed(
    kept: Kept,
) -> None:
    kept.keep()
    kept.begun()
    kept.runs.ends.put(None)
    shown(kept.supervisors[0], "finished")
    kept.close()
    again = kept.keep()
    kept.none_begins()
    assert again.view().state == "finished"
    again.start()
    kept.begun()
    kept.runs.ends.put(None)
    shown(again, "finished")
    kept.close()
    kept.keep("parallelism: 2")
    kept.begun()


def test_a_run_that_a_killed_server_leaves_is_in_the_history(kept: Kept) -> None:
    history = RunHistory(kept.folder / "state")
    history.record_start(RunView(1_000.0, None, None, "start"))
    (kept.folder / "state" / "status.json").write_text("{}")
    os.utime(kept.folder / "state" / "status.json", (1_500.0, 1_500.0))
    supervisor = kept.keep()
    kept.begun()
    run = supervisor.view().runs[1]
    assert (run.outcome, run.started_s, run.ended_s) == ("lost", 1_000.0, 1_500.0)
    assert "the last run was lost" in kept.runs.told[0].message
    kept.close()
    assert [each.outcome for each in kept.keep().view().runs[-2:]] == ["stopped", "lost"]


def test_a_pipeline_that_fails_again_and_again_needs_attention_though_it_waits_for_its_next_try(kept: Kept) -> None:
    supervisor = kept.keep("restart: fixed-delay, restart.fixed-delay.delay: 1 ms, restart.fixed-delay.attempts: 9")
    for _ in range(2):
        kept.begun()
        kept.runs.ends.put(SourceUnavailable("no connection"))
    kept.begun()
    assert supervisor.view().attention == ""
    kept.runs.ends.put(SourceUnavailable("no connection"))
    kept.begun()
    assert supervisor.view().attention == "failed 3 times in a row"
    kept.runs.ends.put(TransformError("no number"))
    assert shown(supervisor, "failed").attention == "failed"
    supervisor.stop()
    assert supervisor.view().attention == ""


def test_a_stop_and_work_between_runs_wait_for_no_turn(kept: Kept) -> None:
    kept.runs.turns = RunTurns(1, longest_s=1000)
    kept.keep()
    kept.begun()
    second = kept.keep()
    assert second.between_runs(lambda: "done", WAIT_S) == "done"
    second.stop()
    assert second.view().state == "stopped"
    kept.supervisors[0].stop()
    kept.none_begins()


def test_a_run_begins_once_the_keeper_before_it_has_ended(kept: Kept) -> None:
    first = kept.keep()
    kept.begun()
    spec = first.spec
    again = Supervisor(spec, kept.folder / "state", kept.runs, kept.runs)  # type: ignore[arg-type]
    kept.supervisors.append(again)
    again.begin(first)
    kept.none_begins()
    first.close()
    kept.begun()
    assert first.join(WAIT_S)


def test_a_run_can_be_drained(kept: Kept) -> None:
    supervisor = kept.keep()
    control = kept.begun()["control"]
    supervisor.stop(drain=True)
    shown(supervisor, "stopped")
    assert (control.drain.is_set(), control.stop.is_set()) == (True, False)


def test_a_source_with_an_end_is_finished(kept: Kept) -> None:
    supervisor = kept.keep()
    kept.begun()
    kept.runs.ends.put(None)
    assert shown(supervisor, "finished").next_run_s is None
    kept.none_begins()


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (
            "revert the edit, or start over with another --state-dir",
            "revert the edit, or start over with another pipeline.name (its state is in a folder of that name)",
        ),
        ("choose another --state-dir", "choose another --state-root of `cdc serve`"),
        ("give the --state-dir that the pipeline runs with", "it has none until a run has committed its first batch"),
        ("run `cdc resync FILE shop.a`, `cdc resync FILE shop.b`", "run `cdc resync p shop.a`, `cdc resync p shop.b`"),
    ],
)
def test_the_next_step_is_one_that_a_server_has(kept: Kept, hint: str, told: str) -> None:
    supervisor = kept.keep()
    kept.begun()
    kept.runs.ends.put(EditRefused("goes elsewhere", hint=hint))
    error = shown(supervisor, "failed").last_error
    assert error is not None
    assert (error.type, error.hint) == ("EditRefused", told)


def test_what_failed_is_started_again_as_often_as_the_strategy_allows(kept: Kept) -> None:
    supervisor = kept.keep("restart: fixed-delay, restart.fixed-delay.delay: 1 ms, restart.fixed-delay.attempts: 2")
    for _ in range(3):
        kept.begun()
        kept.runs.ends.put(SourceUnavailable("no connection", hint="is it up?"))
    view = shown(supervisor, "failed")
    assert [run.why for run in view.runs] == ["restart", "restart", "start"]
    assert view.last_error is not None
    assert (view.last_error.type, view.last_error.hint, view.restarts) == ("SourceUnavailable", "is it up?", 2)
    kept.none_begins()
    supervisor.start()
    kept.begun()
    assert supervisor.view().restarts == 0


def test_an_error_that_comes_again_is_not_restarted_and_the_server_says_why(kept: Kept) -> None:
    supervisor = kept.keep()
    kept.begun()
    kept.runs.ends.put(TransformError("no number"))
    shown(supervisor, "failed")
    assert kept.runs.told[-1].level == "error"
    assert "the next run would meet the same" in kept.runs.told[-1].message


def test_a_failure_because_spark_has_ended_does_not_count(kept: Kept) -> None:
    supervisor = kept.keep("restart: none")
    kept.begun()
    kept.runs.alive = False
    kept.runs.ends.put(WorkerLost("Spark's Java process has ended"))
    kept.begun()
    assert supervisor.view().restarts == 0


def test_a_pipeline_with_a_schedule_waits_runs_and_waits_again(kept: Kept) -> None:
    supervisor = kept.keep("schedule: '@yearly'")
    kept.none_begins()
    assert supervisor.view().state == "scheduled"
    supervisor.start()
    kept.begun()
    kept.runs.ends.put(None)
    view = shown(supervisor, "scheduled")
    assert view.next_run_s is not None
    assert (view.runs[0].outcome, view.schedule) == ("finished", "@yearly")


def test_a_scheduled_run_that_failed_too_often_is_left_for_the_next_time(kept: Kept) -> None:
    supervisor = kept.keep("schedule: '@yearly', restart: none")
    supervisor.start()
    kept.begun()
    kept.runs.ends.put(SourceUnavailable("no connection"))
    view = shown(supervisor, "scheduled")
    assert view.last_error is not None


class Clocks:
    """Time as a supervisor has it."""

    def __init__(self) -> None:
        self.set_s = 0.0
        self.monotonic = time.monotonic

    def time(self) -> float:
        return time.time() + self.set_s


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    clocks = Clocks()
    for each in (module, follow_up):
        monkeypatch.setattr(each, "time", clocks)
    monkeypatch.setattr(module, "_CLOCK_S", 0.01)
    return clocks


def test_a_run_on_schedule_begins_when_the_clock_says_so_though_it_was_set_or_the_machine_slept(
    kept: Kept, clocks: Clocks
) -> None:
    supervisor = kept.keep("schedule: every 1 d")
    shown(supervisor, "scheduled")
    clocks.set_s = 86_400.0
    assert kept.begun()["control"] is not None


def test_a_restart_waits_no_longer_when_the_clock_is_set_back(kept: Kept, clocks: Clocks) -> None:
    kept.keep("restart: fixed-delay, restart.fixed-delay.delay: 100 ms")
    kept.begun()
    clocks.set_s = -86_400.0
    kept.runs.ends.put(SourceUnavailable("away"))
    clocks.set_s = -2 * 86_400.0
    assert kept.begun()["control"].again


def test_an_error_is_over_once_a_run_has_come_to_its_end(kept: Kept) -> None:
    supervisor = kept.keep("schedule: every 1 s, restart: fixed-delay, restart.fixed-delay.delay: 10 ms")
    kept.begun()
    kept.runs.ends.put(SourceUnavailable("away"))
    kept.begun()
    assert supervisor.view().last_error is not None
    kept.runs.ends.put(None)
    wait_for("no error", lambda: supervisor.view().last_error is None)


def test_work_between_two_runs_stops_the_run_and_it_goes_on(kept: Kept) -> None:
    supervisor = kept.keep()
    kept.begun()
    assert supervisor.between_runs(lambda: supervisor.view().runs[0].outcome, WAIT_S) == "stopped"
    kept.begun()
    with pytest.raises(NotNow, match="not now"):
        supervisor.between_runs(refuse, WAIT_S)
    kept.begun()


def refuse() -> None:
    raise NotNow("not now")


def test_an_edit_takes_the_place_of_what_runs_and_wakes_what_failed(kept: Kept) -> None:
    supervisor = kept.keep()
    kept.begun()
    supervisor.change(cdc.load("q.yaml", text=FILE + "pipeline: {name: p, parallelism: 3}\n").spec)
    assert kept.begun()["spec"].pipeline.parallelism == 3
    kept.runs.ends.put(TransformError("no number"))
    shown(supervisor, "failed")
    supervisor.change(cdc.load("q.yaml", text=FILE + "pipeline: {name: p, parallelism: 4}\n").spec)
    assert kept.begun()["spec"].pipeline.parallelism == 4


def test_secrets_are_masked(kept: Kept) -> None:
    spec = cdc.load("p.yaml", text=FILE + "pipeline: {hash-key: sixteen characters at least}\n").spec
    supervisor = Supervisor(spec, kept.folder / "other", kept.runs, kept.runs)  # type: ignore[arg-type]
    assert "sixteen" not in str(supervisor.view())


def no_room(*arguments: Any) -> None:
    raise StateError("cannot write the state: No space left on device")


def test_without_room_for_its_history_a_pipeline_is_kept_all_the_same(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = kept.keep("restart: fixed-delay, restart.fixed-delay.delay: 1 ms")
    kept.begun()
    monkeypatch.setattr(RunHistory, "_write", no_room)
    kept.runs.ends.put(SourceUnavailable("gone"))
    kept.begun()
    with pytest.raises(StateError, match="No space left"):
        supervisor.stop()
    wait_for("the end of the run", lambda: supervisor.view().state == "stopped")
    assert "the history of its runs cannot be stored" in " ".join(line.message for line in kept.runs.told)
    monkeypatch.undo()
    supervisor.start()
    kept.begun()
    assert [run.outcome for run in supervisor.view().runs] == [None, "stopped", "failed"]


def test_what_nobody_foresaw_around_a_run_is_a_failure_and_a_start_mends_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = kept.keep()
    kept.begun()
    monkeypatch.setattr(Supervisor, "_end_run", lambda *arguments: 1 / 0)
    kept.runs.ends.put(None)
    wait_for("the failure", lambda: supervisor.view().state == "failed")
    assert "division by zero" in str(supervisor.view().last_error)
    monkeypatch.undo()
    supervisor.start()
    kept.begun()
