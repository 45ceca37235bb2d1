"""One batch on the driver: what runs again after a crash and what does not, which errors are tried again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from together import together

from cdc.errors import (
    CdcError,
    CommitFailed,
    CommitUnknown,
    EngineError,
    SinkError,
    SinkUnavailable,
    SourceError,
    SpecError,
    StateError,
    TransformError,
    WorkerLost,
)
from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.flow.rule_steps import RuleSteps
from cdc.flow.task import PrepareTask
from cdc.flow.task_result import TaskResult
from cdc.job.checkpoint import OffsetLog, logged_offset
from cdc.job.query import ForeachBatch
from cdc.offsets import BATCH_KEY
from cdc.progress import Progress
from cdc.retry import RetryPolicy
from cdc.route import RouteTable
from cdc.schema import AddColumn, Column, CreateTable, DataType, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, TaskAttempt
from cdc.source import Split
from cdc.spec.model import RouteRule
from cdc.state.decisions import CommitLog, Decision
from cdc.state.directory import StateDir
from cdc.state.store import LocalStore
from cdc.tables.log import TableLog
from cdc.testing import ListSink, ListSource, block

T, SINK_T = TableId("shop", "t"), TableId("lake", "t")
INT = DataType.parse("INT")
SCHEMA = TableSchema((Column("id", INT),), primary_key=("id",))
ITEMS = (
    CreateTable(T, SCHEMA),
    block(T, SCHEMA, [("+I", {"id": 1}), ("+I", {"id": 2})], sequence=1),
    block(T, SCHEMA, [("-D", {"id": 1})], sequence=2),
)


TO_LAKE = Middle(RouteTable([RouteRule(source_table=r"\.*.\.*", sink_table="lake.<>", replace_symbol="<>")]))


class Routes(RouteTable):
    """Routes into a lake; notes which tables it is asked to tell apart."""

    def __init__(self) -> None:
        super().__init__([RouteRule(source_table=r"\.*.\.*", sink_table="lake.<>", replace_symbol="<>")])
        self.seen: list[list[TableId]] = []

    def check(self, tables: Iterable[TableId]) -> None:
        self.seen.append(sorted(tables))


class Recorder(ListSink):
    """A ListSink that notes each call, and does `before[name]()` first."""

    def __init__(self, **before: Callable[[], None]) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._before = before

    def _note(self, name: str, text: str = "") -> None:
        self.calls.append(name + text)
        if name in self._before:
            self._before[name]()

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None:
        self._note("apply")
        super().apply(batch, changes)

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None:
        self._note("commit", f" {batch}: {[handle.partition for handle in prepared]}")
        super().commit(batch, prepared)

    def abort(self, batch: int, noted: Any = ()) -> None:
        self._note("abort", f" {batch}")
        super().abort(batch, noted)


class Frame:
    """What Spark gives to foreachBatch: collecting it prepares the splits. `rows` replaces what comes out."""

    def __init__(self, world: World, batch: int, rows: Callable[[], list[TaskResult]] | None = None) -> None:
        self._world, self._batch, self._rows = world, batch, rows

    def collect(self) -> list[tuple[str, bytes]]:
        found = self._rows() if self._rows else self._world.prepared(self._batch)
        return [result.to_row() for result in found]


class Clock:
    """Time passes only in pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class World:
    """A state directory with Spark's logs, a source of three items, one to a batch of offsets, and a sink."""

    def __init__(self, folder: Path, sink: Recorder) -> None:
        self.sink, self.source = sink, ListSource(ITEMS)
        self.state = StateDir(folder)
        self.state.open(name="p", source="list")
        self.state.store_initial_offset({"item": 0, BATCH_KEY: 0})
        self.clock = Clock()
        self.retry = RetryPolicy(60.0, clock=self.clock, sleep=self.clock.sleep)
        self.start()

    def start(self) -> None:
        """A new run on the same state; `recover` is the engine's first step in it."""
        self.routes, self.progress = Routes(), Progress()
        offsets = OffsetLog(self.state)
        self.runner = BatchRunner(
            self.source, self.sink, Middle(self.routes), self.state, offsets, self.progress, self.retry  # type: ignore[arg-type]
        )  # fmt: skip

    def plan(self, batch: int, item: int) -> None:
        """What Spark writes before it runs a batch that ends after `item` items."""
        log = self.state.checkpoint / "offsets" / str(batch)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({"item": item, BATCH_KEY: batch + 1})}')

    def prepared(self, batch: int) -> list[TaskResult]:
        end = logged_offset(self.state.checkpoint, batch)
        start = logged_offset(self.state.checkpoint, batch - 1) if batch else self.state.initial_offset()
        assert start is not None
        assert end is not None
        task = PrepareTask(self.source, self.sink, TO_LAKE, TableLog(self.state.store))
        return [task(batch, split) for split in reversed(self.source.splits(start, end, 2))]

    def begin(self, batch: int, rows: Callable[[], list[TaskResult]] | None = None) -> None:
        """Until Spark may go on: the commit is still under way."""
        ForeachBatch(self.runner, self.state)(Frame(self, batch, rows), batch)  # type: ignore[arg-type]

    def run(self, batch: int, rows: Callable[[], list[TaskResult]] | None = None) -> None:
        self.begin(batch, rows)
        self.runner.finish()
        if self.runner.error is not None:
            raise self.runner.error

    def decided(self, batch: int) -> Decision | None:
        return CommitLog(self.state.commits).get(batch)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, Recorder())


def unread() -> list[TaskResult]:
    raise AssertionError("the batch was read again")


def test_a_batch_applies_prepares_decides_and_commits(world: World) -> None:
    world.plan(0, 2)
    world.run(0)
    assert world.sink.calls == ["abort 0", "apply", "commit 0: [1]"]
    assert world.sink.rows(SINK_T) == [{"id": 1}, {"id": 2}]
    world.plan(1, 3)
    world.run(1)
    assert world.sink.calls[3:] == ["commit 1: [0]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]
    assert world.routes.seen == [[T]]
    now = world.progress.totals()
    assert (now.batches, now.rows, now.last_batch) == (2, 3, 1)
    assert now.tables[SINK_T].schema_changes == 1


def test_handles_are_committed_in_the_order_of_the_partitions(world: World) -> None:
    world.plan(0, 3)
    world.run(0)
    assert world.sink.calls[-1] == "commit 0: [0, 1]"
    decided = world.decided(0)
    assert decided is not None
    assert [handle.partition for handle in decided.prepared] == [0, 1]
    assert (decided.start, decided.end) == ({"item": 0, BATCH_KEY: 0}, {"item": 3, BATCH_KEY: 1})
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_after_a_decision_nothing_is_read_again(world: World) -> None:
    world.plan(0, 3)
    world.run(0)
    (world.state.root / "commits" / "committed").unlink()  # as if the run had ended in the middle of the commit
    world.sink.calls.clear()
    world.start()
    world.runner.recover()
    assert world.sink.calls == ["commit 0: [0, 1]"]
    world.run(0, unread)
    assert world.sink.calls == ["commit 0: [0, 1]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]
    assert world.progress.totals().rows == 3
    world.sink.calls.clear()
    world.plan(1, 3)  # and the next batch cleans up after the crashed run
    world.run(1)
    assert world.sink.calls == ["abort 1", "commit 1: []"]
    assert world.routes.seen == [[T]]


def test_a_crash_before_the_decision_aborts_and_runs_again(world: World) -> None:
    world.plan(0, 3)

    def crash() -> list[TaskResult]:
        world.prepared(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.run(0, crash)
    assert world.decided(0) is None
    world.start()
    world.run(0)
    assert world.sink.calls == ["abort 0", "apply", "abort 0", "apply", "commit 0: [0, 1]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_the_guard_knows_the_tables_of_earlier_runs(world: World) -> None:
    world.plan(0, 2)
    world.run(0)
    world.start()
    world.plan(1, 3)
    world.run(1)
    assert world.routes.seen == [[T]]


def test_a_refused_route_stops_before_anything_is_applied(world: World) -> None:
    world.plan(0, 3)

    def refuse(tables: Iterable[TableId]) -> None:
        if list(tables):
            raise SpecError([])

    world.routes.check = refuse  # type: ignore[method-assign]
    with pytest.raises(SpecError):
        world.run(0)
    assert world.sink.calls == ["abort 0"]


def test_an_error_in_a_result_comes_out_as_what_it_is(world: World) -> None:
    world.plan(0, 3)
    error = SourceError("bad row", where="shop.t", hint="mend it")
    with pytest.raises(SourceError, match="bad row"):
        world.run(0, lambda: [TaskResult(), TaskResult(error=error.to_json())])
    assert isinstance(world.runner.error, SourceError)
    assert world.runner.error.hint == "mend it"
    assert world.decided(0) is None


def test_other_exceptions_become_errors_of_ours(world: World) -> None:
    world.plan(0, 3)

    def fail() -> list[TaskResult]:
        raise RuntimeError("Job aborted due to stage failure")

    with pytest.raises(EngineError, match="Job aborted"):
        world.run(0, fail)
    assert isinstance(world.runner.error, EngineError)


def failing(*errors: SinkError) -> Callable[[], None]:
    left = list(errors)

    def fail() -> None:
        if left:
            raise left.pop(0)

    return fail


@pytest.mark.parametrize("error", [CommitFailed, CommitUnknown, SinkUnavailable])
def test_a_commit_that_may_pass_is_tried_again(tmp_path: Path, error: type[SinkError]) -> None:
    world = World(tmp_path, Recorder(commit=failing(*[error("busy")] * 9)))
    seen: list[str] = []
    world.retry = replace(world.retry, waiting=lambda text: seen.append(text))
    world.start()
    world.plan(0, 3)
    world.run(0)
    assert world.sink.rows(SINK_T) == [{"id": 2}]
    assert world.sink.calls.count("commit 0: [0, 1]") == 10
    assert seen == ["commit of batch 0: busy"] * 9
    assert world.clock.now > 20


def test_a_commit_that_never_passes_stays_decided(tmp_path: Path) -> None:
    world = World(tmp_path, Recorder(commit=failing(*[CommitUnknown("no answer")] * 1000)))
    world.plan(0, 3)
    with pytest.raises(CommitUnknown):
        world.run(0)
    assert 60 <= world.clock.now < 75
    assert world.runner.commit_failed
    world.runner._error = EngineError("interrupted")  # the batch after it, by the end of the query
    assert isinstance(world.runner.error, CommitUnknown)
    world.sink._before.clear()
    world.start()
    world.runner.recover()
    world.run(0, unread)
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_what_is_final_and_a_run_that_is_to_stop_do_not_wait(tmp_path: Path) -> None:
    for number, (error, stopping) in enumerate([(SinkError("refused"), False), (CommitFailed("busy"), True)]):
        world = World(tmp_path / str(number), Recorder(commit=failing(error)))
        world.retry = replace(world.retry, stopping=lambda stopping=stopping: stopping)  # type: ignore[misc]
        world.start()
        world.plan(0, 3)
        with pytest.raises(type(error)):
            world.run(0)
        assert world.clock.now == 0


def test_schema_changes_and_clean_up_are_tried_again(tmp_path: Path) -> None:
    away = SinkUnavailable("no connection")
    world = World(tmp_path, Recorder(apply=failing(away), abort=failing(away)))
    world.plan(0, 3)
    world.run(0)
    assert world.sink.calls == ["abort 0", "abort 0", "apply", "apply", "commit 0: [0, 1]"]


def test_tasks_that_failed_with_what_may_pass_run_again(world: World) -> None:
    world.plan(0, 3)
    failures = [SinkUnavailable("no front end"), SinkUnavailable("no front end")]

    def away() -> list[TaskResult]:
        found = world.prepared(0)
        if failures:
            raise failures.pop()
        return found

    world.run(0, away)
    assert world.sink.calls == ["abort 0", "apply", "abort 0", "abort 0", "commit 0: [0, 1]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_tasks_that_have_waited_themselves_run_again(world: World) -> None:
    """As the pipeline's retry-timeout may be longer than that of its sink."""
    world.plan(0, 3)
    failures = [TaskResult(error=SinkUnavailable("no front end").to_json())]
    world.run(0, lambda: [*world.prepared(0), *(failures.pop() for _ in failures[:1])])
    assert world.sink.calls == ["abort 0", "apply", "abort 0", "commit 0: [0, 1]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]


@pytest.mark.parametrize("stopped", [True, False])
def test_they_run_again_for_as_long_as_everything_else_does(world: World, stopped: bool) -> None:
    world.plan(0, 3)
    if stopped:
        world.retry = replace(world.retry, stopping=lambda: True)
        world.start()

    def away() -> list[TaskResult]:
        raise SinkUnavailable("no front end")

    with pytest.raises(SinkUnavailable):
        world.run(0, away)
    assert world.clock.now == pytest.approx(0 if stopped else world.retry.timeout_s)
    assert world.decided(0) is None


def test_a_batch_that_lost_its_worker_runs_again_in_the_same_run(world: World) -> None:
    world.plan(0, 3)

    def lost() -> list[TaskResult]:
        world.prepared(0)
        raise RuntimeError("Job aborted: Python worker exited unexpectedly (crashed)")

    with pytest.raises(WorkerLost):
        world.run(0, lost)
    world.runner.restart()
    assert world.runner.error is None
    world.run(0)
    assert world.sink.calls == ["abort 0", "apply", "abort 0", "apply", "commit 0: [0, 1]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_the_batch_that_is_read_is_told_while_the_one_before_is_committed(tmp_path: Path) -> None:
    go_on = threading.Event()
    world = World(tmp_path, Recorder(commit=lambda: go_on.wait(120)))  # type: ignore[arg-type]
    world.plan(0, 2)
    world.begin(0)
    world.plan(1, 3)

    def prepared() -> list[TaskResult]:
        go_on.set()
        world.runner._commits.finish()
        assert world.progress.running == 1
        return world.prepared(1)

    world.run(1, prepared)
    assert world.progress.running is None


def test_a_full_disk_at_the_decision_commits_nothing(world: World) -> None:
    world.plan(0, 3)
    commits = world.state.root / "commits"
    commits.rmdir()
    commits.symlink_to("/proc/self")  # where nothing can be written, not even by root
    with pytest.raises(StateError, match="cannot write the state"):
        world.run(0)
    assert not any(call.startswith("commit") for call in world.sink.calls)
    commits.unlink()
    world.start()
    world.run(0)
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_old_decisions_go(world: World) -> None:
    for batch in range(20):
        world.plan(batch, min(batch + 1, 3))
        world.run(batch)
    assert world.decided(19) is not None
    assert world.decided(2) is None


def test_offsets_that_do_not_fit_are_refused(world: World) -> None:
    world.plan(1, 3)
    with pytest.raises(StateError, match="offsets of batch 1 are missing"):
        world.run(1)
    world.plan(0, 2)
    (world.state.checkpoint / "offsets" / "1").write_text(f'v1\n{{}}\n{{"item": 3, "{BATCH_KEY}": 7}}')
    world.start()
    with pytest.raises(StateError, match="missing or of another batch"):
        world.run(1)


def test_a_decision_of_another_history_is_refused(world: World) -> None:
    # Spark's checkpoint was removed, the decisions were not: committing the old one would skip what is read now.
    world.plan(0, 3)
    world.run(0)
    world.start()
    world.plan(0, 2)
    with pytest.raises(StateError, match="about other offsets than were logged for it"):
        world.run(0, unread)
    (world.state.root / "commits" / "committed").unlink()
    world.sink.calls.clear()
    with pytest.raises(StateError, match="about other offsets than were logged for it"):
        world.runner.recover()
    assert world.sink.calls == []


def test_the_next_batch_is_prepared_while_a_commit_goes_on(tmp_path: Path) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        assert go_on.wait(120)

    world = World(tmp_path, Recorder(commit=slow))
    world.plan(0, 2)
    world.begin(0)
    assert started.wait(120)
    assert world.sink.rows(SINK_T) == []

    def prepared() -> list[TaskResult]:
        results = world.prepared(1)
        assert world.sink.rows(SINK_T) == []
        go_on.set()
        return results

    world.plan(1, 3)
    world.run(1, prepared)
    assert world.sink.calls == ["abort 0", "apply", "commit 0: [1]", "commit 1: [0]"]
    assert world.sink.rows(SINK_T) == [{"id": 2}]


def test_schema_changes_wait_for_the_commit_under_way(tmp_path: Path) -> None:
    go_on = threading.Event()
    world = World(tmp_path, Recorder(commit=lambda: started.set() or go_on.wait(120)))  # type: ignore[func-returns-value]
    started = threading.Event()
    world.source = ListSource((*ITEMS[:2], AddColumn(T, Column("note", INT))))
    world.start()
    world.plan(0, 2)
    world.begin(0)
    assert started.wait(120)
    world.plan(1, 3)
    later = threading.Thread(target=world.run, args=(1,))
    later.start()
    assert world.sink.calls == ["abort 0", "apply", "commit 0: [1]"]
    go_on.set()
    later.join(120)
    assert world.sink.calls == ["abort 0", "apply", "commit 0: [1]", "apply", "commit 1: []"]


def test_a_failed_commit_stops_the_batch_after_it(tmp_path: Path) -> None:
    world = World(tmp_path, Recorder(commit=failing(SinkError("refused"))))
    world.plan(0, 2)
    world.begin(0)
    world.plan(1, 3)
    with pytest.raises(SinkError):
        world.begin(1)
    world.start()
    world.runner.recover()
    assert world.sink.rows(SINK_T) == [{"id": 2}]


@together("content", ["v2\n{}\n{}", "v1\n{}", "", "v1", 'v1\n{}\n{"item', "v1\n{}\n[1]"])
def test_an_offset_log_that_is_damaged_or_of_another_spark_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(content)
    with pytest.raises(StateError, match="cannot be read") as caught:
        logged_offset(tmp_path, 0)
    assert caught.value.where == str(tmp_path / "offsets" / "0")
    assert logged_offset(tmp_path, 1) is None


def result_of(sink: Any, source: ListSource | None = None) -> TaskResult:
    return PrepareTask(source or ListSource(ITEMS), sink, TO_LAKE, TableLog(LocalStore(Path("none"))))(
        3, Split(1, [0, 3])
    )


def test_a_sink_meets_what_fails_before_the_first_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's notes it; the tasks behind waited for half an hour for one whose functions could not be opened."""
    met: list[str] = []

    class Meeting(ListSink):
        def prepare(self, task: TaskAttempt, blocks: Any) -> Sequence[Prepared]:
            try:
                return super().prepare(task, blocks)
            except CdcError as error:
                met.append(error.message)
                raise

    def fail(*_: object) -> None:
        raise TransformError("cannot be opened")

    monkeypatch.setattr(RuleSteps, "__enter__", fail)
    with pytest.raises(TransformError, match="cannot be opened"):
        result_of(Meeting()).raise_error()
    assert met == ["cannot be opened"]


def test_a_task_returns_errors_that_would_come_again() -> None:
    class Refusing(ListSink):
        def prepare(self, task: TaskAttempt, blocks: Any) -> Sequence[Prepared]:
            raise SinkError(f"refused {task.batch}/{task.partition}")

    with pytest.raises(SinkError, match="refused 3/1"):
        TaskResult.from_row(*result_of(Refusing()).to_row()).raise_error()


def test_a_task_raises_errors_that_may_pass() -> None:
    class Away(ListSink):
        def prepare(self, task: TaskAttempt, blocks: Any) -> Sequence[Prepared]:
            raise SinkUnavailable("no connection")

    with pytest.raises(SinkUnavailable, match="no connection"):
        result_of(Away())


def test_what_tasks_report_comes_back_once_the_decision_is_on_disk(world: World) -> None:
    told: list[Any] = []

    class Learning(ListSource):
        def store_reports(self, reports: Sequence[dict[str, Any]]) -> None:
            told.append((list(reports), world.decided(0) is not None, list(world.sink.calls)))

    world.source = Learning(ITEMS)
    world.start()
    world.plan(0, 2)
    world.run(0, lambda: [TaskResult(reports=({"chunk": 0},)), TaskResult(reports=({"chunk": 1},))])
    (world.state.root / "commits" / "committed").unlink()  # a crash in between
    world.runner.recover()
    reports = [{"chunk": 0}, {"chunk": 1}]
    assert [(item[0], item[1]) for item in told] == [(reports, True), (reports, True)]
    assert not [call for call in told[0][2] if call.startswith("commit")]


def test_a_result_is_read_as_it_was_written() -> None:
    class Counting(ListSource):
        def read(self, split: Split, count: Any, report: Any) -> Any:
            report({"chunk": 3, "rows": 2})
            count("invalid-date-to-null shop.t.d", 2)
            count("invalid-date-to-null shop.t.d", 1)
            return super().read(split, count, report)

    sink = ListSink()
    sink.apply(0, [CreateTable(SINK_T, SCHEMA)])
    result = result_of(sink, Counting(ITEMS))
    assert result.counts == {"invalid-date-to-null shop.t.d": 3}
    assert result.reports == ({"chunk": 3, "rows": 2},)
    assert result.newest_ms == 2000
    assert [handle.table for handle in result.prepared] == [SINK_T]
    assert TaskResult.from_row(*result.to_row()) == result
    result.raise_error()
