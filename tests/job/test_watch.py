"""The main thread of a run with a query that does as it is told: clean stops, failures, a slow machine, Java's end."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import StreamingQueryException

from cdc.errors import CommitUnknown, EngineError, SourceError, SourceUnavailable, WorkerLost
from cdc.job import long_steps, watch
from cdc.job.error_transport import CrossingError, recover
from cdc.job.monitor import Monitor
from cdc.job.report import Reporter
from cdc.job.snapshot_monitor import SnapshotMonitor
from cdc.job.watch import QueryStart, Watch
from cdc.process.signals import Signals
from cdc.progress import Progress
from cdc.retry import RetryPolicy
from cdc.state.directory import StateDir
from cdc.state.notices import Notices
from cdc.state.waits import Waits
from cdc.status.recording import Recording, first_status


class ListedQuery:
    """Runs for a number of ticks; each may do something, such as raise."""

    def __init__(self, *ticks: Callable[[], object]) -> None:
        self._ticks = list(ticks)
        self.stopped = self.reported = False
        self.status = {"message": "Processing new data"}
        self.lastProgress: dict[str, Any] | None = None

    @property
    def isActive(self) -> bool:
        return bool(self._ticks) and not self.stopped

    def awaitTermination(self, seconds: float) -> bool:
        """Another tick; at the end, its thread reports that it has ended."""
        if not self.isActive:
            self.reported = True
            return True
        self._ticks.pop(0)()
        return not self._ticks

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.stopped = True


class Run:
    def __init__(self, folder: Path, *queries: ListedQuery) -> None:
        self.state = StateDir(folder)
        self.state.open(name="p", source="list")
        self.signals, self.progress, self.err = Signals(), Progress(), io.StringIO()
        self.runner: Any = SimpleNamespace(
            error=None, commit_failed=False, finish=lambda: None, restart=lambda: setattr(self.runner, "error", None)
        )
        self.slept = 0.0
        self.starts, self.queries = 0, list(queries)
        reporter = Reporter("text", io.StringIO(), self.err)
        retry = RetryPolicy(60.0, stopping=self.signals.stop.is_set, clock=lambda: self.slept, sleep=self._sleep)
        first = first_status(folder, "p", name="p", source="list", sink="list", file="p.yaml", behavior="evolve")
        self.recording = Recording(first, folder, self.progress, lambda text: None)
        snapshots = SnapshotMonitor(list, self.state.store, reporter.line)
        monitor = Monitor(self.progress, reporter, self.recording, self.state, snapshots)
        query = QueryStart(self._start, lambda: None, self._start)  # type: ignore[arg-type]
        self.watch = Watch(query, self.runner, self.progress, monitor, self.state, self.signals, retry)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds

    def _start(self) -> ListedQuery:
        self.starts += 1
        return self.queries[self.starts - 1]


def nothing() -> None:
    """A tick without events."""


def raising(error: Exception) -> Callable[[], None]:
    def tick() -> None:
        raise error

    return tick


def test_it_ends_with_the_query(tmp_path: Path) -> None:
    run = Run(tmp_path, ListedQuery(nothing, nothing))
    run.watch.until_end()
    assert (run.starts, run.queries[0].stopped) == (1, False)


@pytest.mark.parametrize("last", [nothing, raising(StreamingQueryException("the disk is full"))])
def test_spark_is_there_until_the_thread_of_the_query_has_ended(tmp_path: Path, last: Callable[[], None]) -> None:
    """It was stopped at once, and Java printed twenty lines before the error."""
    run = Run(tmp_path, ListedQuery(last))
    with suppress(EngineError):
        run.watch.until_end()
    assert run.queries[0].reported


def test_what_an_executor_waits_for_is_said(tmp_path: Path) -> None:
    run = Run(tmp_path, ListedQuery(lambda: Waits(run.state.sink).note("Kafka k:1: no answer"), nothing))
    run.watch.until_end()
    assert run.err.getvalue().count("warning: Kafka k:1: no answer") == 1


def test_what_takes_long_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_steps, "FIRST_S", 0.0)
    monkeypatch.setattr(long_steps, "LONGEST_S", 0.0)

    def begun() -> None:
        run.progress.begin(3)
        run.progress.step = "reads and writes rows"

    run = Run(tmp_path, ListedQuery(nothing, nothing, begun, nothing, nothing))
    run.watch.until_end()
    assert "the stream reader starts and plans the first batch: 0 s so far" in run.err.getvalue()
    assert "batch 3 reads and writes rows: 0 s so far" in run.err.getvalue()


def test_a_stop_waits_for_the_stream_reader(tmp_path: Path) -> None:
    ticks: list[str] = []

    def asked() -> None:
        ticks.append("asked")
        run.signals.handle(signal.SIGTERM, None)

    def busy() -> None:
        assert run.state.stop_requested()
        assert not query.stopped  # a batch is running
        ticks.append("busy")

    def idle() -> None:
        run.state.confirm_stop()
        ticks.append("idle")

    query = ListedQuery(nothing, asked, busy, busy, idle, raising(AssertionError("the query goes on")))
    run = Run(tmp_path, query)
    run.watch.until_end()
    assert ticks == ["asked", "busy", "busy", "idle"]
    assert query.stopped
    assert run.err.getvalue().count("stopping after the running batch") == 1


def test_a_stop_does_not_wait_for_a_stream_reader_that_still_compiles(tmp_path: Path) -> None:
    query = ListedQuery(lambda: run.signals.handle(signal.SIGTERM, None), raising(AssertionError("it is waited for")))
    query.status = {"message": "Initializing sources"}
    run = Run(tmp_path, query)
    run.watch.until_end()
    assert query.stopped


@pytest.mark.parametrize("batch", [None, 3])
def test_a_stop_waits_for_a_batch_and_not_for_a_planner_that_compiles_or_gets_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int | None
) -> None:
    monkeypatch.setattr(watch, "_CONFIRMS_S", 0.0)
    asked, confirmed = (lambda: run.signals.handle(signal.SIGTERM, None)), (lambda: run.state.confirm_stop())
    run: Run = Run(tmp_path, ListedQuery(asked, nothing, confirmed, raising(AssertionError("the query goes on"))))
    run.progress.running = batch
    run.watch.until_end()
    assert run.queries[0].stopped
    assert run.state.stop_confirmed() == (batch is not None)


@pytest.mark.parametrize(
    "text", ["java.lang.InterruptedException", "SparkException: Job 7 cancelled part of cancelled job group 3f"]
)
def test_a_stop_that_interrupts_a_batch_which_begins_just_then_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """No batch ran when the query was stopped, and one did when Spark carried that out."""
    monkeypatch.setattr(watch, "_CONFIRMS_S", 0.0)

    def interrupted() -> None:
        run.queries[0].stopped = True
        run.runner.error = recover(Exception(f"An error occurred while calling o9.collectToPython.\n: {text}\n\tat x"))

    query = ListedQuery(lambda: run.signals.handle(signal.SIGTERM, None), nothing)
    monkeypatch.setattr(query, "stop", interrupted)
    run = Run(tmp_path, query)
    run.watch.until_end()
    assert "abandoned the running batch, which the next run repeats: the query was stopped" in run.err.getvalue()


@pytest.mark.parametrize("outside", [False, True])
def test_a_drain_goes_on_with_a_query_that_ends_by_itself(tmp_path: Path, outside: bool) -> None:
    def asked() -> None:
        run.state.request_drain() if outside else run.signals.drain.set()

    def bounded() -> None:
        assert not run.state.stop_requested()  # else its stream reader would plan nothing

    first = ListedQuery(asked, nothing, lambda: run.state.confirm_stop(), raising(AssertionError("the query goes on")))
    run = Run(tmp_path, first, ListedQuery(bounded, bounded))
    run.watch.until_end()
    assert (run.starts, first.stopped, run.queries[1].stopped) == (2, True, False)


def test_a_stop_ends_a_drain(tmp_path: Path) -> None:
    def both() -> None:
        run.signals.drain.set()
        run.signals.stop.set()

    run = Run(tmp_path, ListedQuery(both, lambda: run.state.confirm_stop(), nothing))
    run.watch.until_end()
    assert run.starts == 1


def test_a_request_of_another_process_ends_the_run_as_a_signal_does(tmp_path: Path) -> None:
    asked, confirmed = (lambda: run.state.request_stop()), (lambda: run.state.confirm_stop())
    run: Run = Run(tmp_path, ListedQuery(asked, confirmed, nothing, nothing))
    run.watch.until_end()
    assert run.signals.stop.is_set()
    assert run.queries[0].stopped


def test_a_failure_comes_out_as_our_error(tmp_path: Path) -> None:
    error = SourceError("refused", where="db", hint="mend it")
    run = Run(tmp_path, ListedQuery(raising(StreamingQueryException(f"Spark: {CrossingError(error)}"))))
    with pytest.raises(SourceError, match=r"db: refused \(mend it\)"):
        run.watch.until_end()
    run = Run(tmp_path, ListedQuery(raising(StreamingQueryException("Spark: a callback failed"))))
    run.runner.error = error  # what the batch itself has met says more than Spark's text
    with pytest.raises(SourceError, match="refused"):
        run.watch.until_end()


@pytest.mark.parametrize("stopping", [True, False])
def test_a_batch_that_waits_for_the_source_does_not_hold_up_a_stop(tmp_path: Path, stopping: bool) -> None:
    def gone() -> None:
        raise StreamingQueryException(str(CrossingError(SourceUnavailable("the server is away"))))

    run = Run(tmp_path, ListedQuery(lambda: None, gone))
    if not stopping:
        with pytest.raises(SourceUnavailable, match="the server is away"):
            run.watch.until_end()
        return
    run.signals.stop.set()
    run.watch.until_end()
    assert run.err.getvalue().count("abandoned the running batch, which the next run repeats: the server is away") == 1


LOST = StreamingQueryException("Python worker exited unexpectedly (crashed)")


@pytest.mark.parametrize("text", ["Python worker failed to connect back.", str(LOST)])
def test_after_the_end_of_a_helper_process_the_query_is_started_again(tmp_path: Path, text: str) -> None:
    gone = StreamingQueryException(text)
    run = Run(tmp_path, ListedQuery(raising(gone)), ListedQuery(raising(gone)), ListedQuery(nothing))
    run.watch.until_end()
    assert run.starts == 3
    assert run.err.getvalue().count("restarting the query") == 2


def test_a_helper_process_that_always_ends_fails_the_run_in_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path, *(ListedQuery(raising(LOST)) for _ in range(100)))
    with pytest.raises(WorkerLost, match="exited unexpectedly"):
        run.watch.until_end()
    assert 60 <= run.slept < 75


def test_a_stop_ends_the_wait_for_a_helper_process(tmp_path: Path) -> None:
    run = Run(tmp_path, ListedQuery(raising(LOST)))
    run.signals.stop.set()
    run.watch.until_end()
    assert (run.starts, run.slept) == (1, 0)
    assert "abandoned the running batch, which the next run repeats" in run.err.getvalue()


def test_a_query_that_ends_silently_after_its_batch_lost_a_worker_is_started_again(tmp_path: Path) -> None:
    def fail() -> None:
        run.runner.error = WorkerLost("killed")

    run = Run(tmp_path, ListedQuery(fail, nothing), ListedQuery(nothing))
    run.watch.until_end()
    assert run.starts == 2


@pytest.mark.parametrize("stopping", [True, False])
def test_a_commit_that_waits_does_not_hold_up_a_stop(tmp_path: Path, stopping: bool) -> None:
    run = Run(tmp_path, ListedQuery(nothing))
    run.runner.error, run.runner.commit_failed = CommitUnknown("no answer"), True
    if not stopping:
        with pytest.raises(CommitUnknown):
            run.watch.until_end()
        return
    run.signals.stop.set()
    run.watch.until_end()
    assert "abandoned the running commit, which the next run finishes: no answer" in run.err.getvalue()


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111)])
def test_the_end_of_java_is_an_engine_error(tmp_path: Path, error: Exception) -> None:
    class Gone(ListedQuery):
        @property
        def lastProgress(self) -> None:  # type: ignore[override]
            raise error

        @lastProgress.setter
        def lastProgress(self, value: None) -> None:
            """Nothing is kept."""

    run = Run(tmp_path, Gone(raising(error), raising(error)))
    with pytest.raises(EngineError, match="Spark's Java process has ended"):
        run.watch.until_end()
    run.watch.report()  # which the end of a run does once more
    run.signals.stop.set()
    run.watch.until_end()  # a signal to the whole group ends Java, too
    assert (
        "abandoned the running batch, which the next run repeats: Spark's Java process has ended" in run.err.getvalue()
    )


def test_lag_and_notes_of_the_source_are_shown_once(tmp_path: Path) -> None:
    query = ListedQuery(nothing, nothing, nothing)
    query.lastProgress = {"sources": [{"latestOffset": lag(7, "waiting for the server")}]}
    run = Run(tmp_path, query)
    run.watch.until_end()
    assert run.progress.totals().lag_bytes == 7
    assert run.err.getvalue().count("warning: waiting for the server") == 1
    query.lastProgress = {"sources": []}
    run.watch.report()


def test_every_notice_of_the_source_is_told_once_and_at_once(tmp_path: Path) -> None:
    """Without a progress report of Spark's, which an idle query makes every ten seconds."""
    run = Run(tmp_path, ListedQuery(nothing, nothing, nothing))
    notices = Notices(run.state.store)
    for said in (["one", "two"], [], ["three"]):
        notices.add(said)
        run.watch.report()
        run.watch.report()
    assert told(run) == ["one", "two", "three"]


def test_a_notice_of_a_run_that_was_killed_is_told_by_the_next_one(tmp_path: Path) -> None:
    killed = Run(tmp_path, ListedQuery(nothing))
    Notices(killed.state.store).add(["before the end"])
    after = Run(tmp_path, ListedQuery(nothing))
    after.watch.report()
    assert told(after) == ["before the end"]
    last = Run(tmp_path, ListedQuery(nothing))
    last.watch.report()
    assert told(last) == []


def told(run: Run) -> list[str]:
    return [line.partition("warning: ")[2] for line in run.err.getvalue().splitlines()]


def lag(size: int, note: str) -> str:
    """As Spark reports it: JSON as a text."""
    return json.dumps({"bytes": size, "note": note, "notices": [], "noticed": 0})


def test_handlers_are_taken_back_from_whoever_took_them() -> None:
    signals = Signals()
    before = signal.getsignal(signal.SIGINT)
    with signals.installed():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark does when it starts
        signals.install()
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.stop.wait(60)
    assert signal.getsignal(signal.SIGINT) is before
