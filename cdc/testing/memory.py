"""A pipeline run in this process, without Spark: the engine's own batches (`cdc.flow`), with crashes and restarts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cdc import events as on
from cdc import faults
from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.flow.offsets import BATCH_KEY, numbered, source_offset
from cdc.flow.progress import Progress
from cdc.flow.splits import SplitLog
from cdc.flow.task import PrepareTask, TaskResult
from cdc.retry import RetryPolicy
from cdc.schema import SchemaChange, TableId
from cdc.sink import Sink
from cdc.source import Limits, Offset, Order, Source
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.orders import open_orders
from cdc.tables.requests import Mailbox
from cdc.testing.list_source import FailAt, ListSource

if TYPE_CHECKING:
    from cdc.transform.rules import Rules


@dataclass
class MemoryRun:
    """The account of a run: batches, the events of the source, changes counted, counted reasons, its end."""

    batches: int = 0
    events: list[on.SourceEvent] = field(default_factory=list)
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    offset: Offset = field(default_factory=dict)

    @property
    def changes(self) -> list[SchemaChange]:
        """The schema changes among the events."""
        return on.changes(self.events)


def run_in_memory(
    source: Source,
    sink: Sink,
    *,
    limits: Limits | None = None,
    parallelism: int = 1,
    start: Offset | None = None,
    first_batch: int = 0,
    restarted: Callable[[], Sink] | None = None,
    state: Path | StateDir | None = None,
    rules: Rules | None = None,
    middle: Middle | None = None,
    now: datetime | None = None,
) -> MemoryRun:
    """Read the source to its end, batch after batch: apply, prepare, decide, commit.

    A `FailAt` in a `ListSource` kills the run at that step of its batch, once; then it goes on as after a restart, with
    the sink that `restarted` makes (the same object when not given). `start` and `first_batch` continue a run; with
    changes to tables that it knew, `state` is needed, which keeps the engine's state from run to run: a folder or more.
    `rules` are the transform rules, `middle` is all there is between source and sink; `now` is the moment of every
    batch instead of the clock's.

    Raises CdcError; what was decided before is committed by then.
    """
    at = source.initial_offset() if start is None else start
    with TemporaryDirectory(prefix="cdc-run-") if state is None else nullcontext(state) as place:
        root = place if isinstance(place, StateDir) else Path(place)
        pipeline = LocalPipeline(
            source, sink, root, numbered(at, first_batch), restarted or (lambda: sink), middle or Middle(rules=rules),
            now,
        )  # fmt: skip
        batch = first_batch
        try:
            while (end := pipeline.latest(at, batch, limits)) != at or pipeline.is_asked:
                failures = source.failures(at, end) if isinstance(source, ListSource) else []
                pipeline.batch(numbered(at, batch), numbered(end, batch + 1), parallelism, failures)
                source.commit(end)
                at, batch = end, batch + 1
        finally:
            pipeline.wait()
        source.stop()
        return pipeline.finished(batch - first_batch, at)


class LocalPipeline:
    """One pipeline with its state directory, and the lives of its process.

    `middle` is what the pipeline file says; one that is edited counts from the next life on. Offsets are the engine's
    (`cdc.flow.offsets`). `restarted` makes the sink of a life that follows a crash. `now` is the moment of every batch,
    None for the clock's; `name` what the state directory calls the source, else its class.
    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        state: Path | StateDir,
        start: Offset,
        restarted: Callable[[], Sink],
        middle: Middle | None = None,
        now: datetime | None = None,
        name: str = "",
    ) -> None:
        self._source, self._restarted, self.middle = source, restarted, middle or Middle()
        self._clock = time.time if now is None else now.timestamp
        self._state = state if isinstance(state, StateDir) else StateDir(state)
        self._state.open(name="memory", source=name or type(source).__name__)
        if self._state.initial_offset() is None:
            self._state.store_initial_offset(start)
        self._planned: dict[int, tuple[Offset, Offset]] = {}
        self._events: list[on.SourceEvent] = []
        self._progress = Progress()
        self._begin(sink)

    def latest(self, at: Offset, batch: int, limits: Limits | None = None, wait_s: float = 0.0) -> Offset:
        """The end of a batch that begins `at` an offset of the source, with the orders before it."""
        self._source.order(self.orders(batch))
        return self._source.latest_offset(at, limits, wait_s)

    def orders(self, batch: int) -> dict[TableId, Order]:
        """The snapshots that tables wait for before a batch."""
        return open_orders(TableLog(self._state.store).at(batch - 1).tables)

    @property
    def is_asked(self) -> bool:
        """Whether requests wait for a batch, be it an empty one."""
        return not Mailbox(self._state.store).is_empty()

    def plan(self, start: Offset, end: Offset) -> None:
        """Log where a batch begins and ends."""
        self._planned[start[BATCH_KEY]] = start, end

    def batch(self, start: Offset, end: Offset, parallelism: int, failures: Sequence[FailAt] = ()) -> None:
        """One batch, tried again after each crash that is asked for. Raises CdcError."""
        self.plan(start, end)
        batch = start[BATCH_KEY]
        for failure in failures:
            if self._dies(batch, parallelism, failure):
                self._begin(self._restarted())
        self._live(batch, parallelism)
        if source_offset(start) != source_offset(end):
            self._events += self._source.events(source_offset(start), source_offset(end))

    def restart(self, source: Source | None = None) -> None:
        """Another process goes on, by the `middle` of now; perhaps with another source object."""
        self.wait()
        self._source = source or self._source
        self._begin(self._restarted())

    def wait(self) -> None:
        """Wait for the last commit."""
        self._runner.finish()

    def finished(self, batches: int, offset: Offset) -> MemoryRun:
        """Wait for the last commit; what all batches did. Raises CdcError."""
        self.wait()
        if self._runner.error is not None:
            raise self._runner.error
        now = self._progress.snapshot()
        totals = now.tables.values()
        return MemoryRun(
            batches,
            self._events,
            sum(table.inserts for table in totals),
            sum(table.updates for table in totals),
            sum(table.deletes for table in totals),
            Counter(now.counts),
            offset,
        )

    def _begin(self, sink: Sink) -> None:
        """A new process."""
        between = self.middle
        self._recovered = False
        self._task = PrepareTask.of(self._source, sink, between, self._state)
        self._runner = BatchRunner(
            self._source, sink, between, self._state, self._planned.__getitem__, self._progress,
            RetryPolicy(timeout_s=10.0),
        )  # fmt: skip

    def recover(self) -> None:
        """Commit what an earlier process has decided, before anything is planned. Raises CdcError."""
        if not self._recovered:
            self._runner.recover()
            self._recovered = True

    def _live(self, batch: int, parallelism: int) -> None:
        """Run a batch as a live process does."""
        self.recover()
        self._runner(batch, lambda: self._tasks(batch, parallelism))

    def _dies(self, batch: int, parallelism: int, failure: FailAt) -> bool:
        """Live until the crash; False when the batch never came to that step."""
        with _crash_at(failure.value, batch) as crash:
            with suppress(_Crash):
                self._live(batch, parallelism)
            self._runner.finish()
        return crash.happened

    def _tasks(self, batch: int, parallelism: int) -> list[TaskResult]:
        start, end = self._planned[batch]
        if source_offset(start) == source_offset(end):
            return []
        splits = SplitLog(self._state.splits, self._clock).splits(self._source, start, end, parallelism)
        return [TaskResult.from_row(*self._task(batch, split).to_row()) for split in splits]


class _Crash(BaseException):
    """The process died here."""


class _CrashPoint:
    """The hook of `cdc.faults`: dies at one point of one batch, and from then on at every point."""

    def __init__(self, point: str, batch: int) -> None:
        self._point, self._batch, self.happened = point, batch, False

    def __call__(self, point: str, batch: int) -> None:
        if self.happened or (point, batch) == (self._point, self._batch):
            self.happened = True
            raise _Crash(point)


@contextmanager
def _crash_at(point: str, batch: int) -> Iterator[_CrashPoint]:
    crash, before = _CrashPoint(point, batch), faults.hook
    faults.hook = crash
    try:
        yield crash
    finally:
        faults.hook = before
