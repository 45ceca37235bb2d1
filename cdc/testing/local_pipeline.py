"""A pipeline whose batches the caller runs, in this process and without Spark, with crashes and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from cdc import events as on
from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.offsets import BATCH_KEY, source_offset
from cdc.progress import Progress
from cdc.retry import RetryPolicy
from cdc.schema import SchemaChange, TableId
from cdc.sink import Sink
from cdc.source import Limits, Offset, Order, Source
from cdc.state.directory import StateDir
from cdc.tables.log import TableLog
from cdc.tables.orders import open_orders
from cdc.tables.requests import Mailbox
from cdc.testing.crashes import Crash, FailAt, crash_at
from cdc.testing.local_tasks import LocalTasks


@dataclass
class MemoryRun:
    """The result of a run: batches, the source's events, numbers of changes, counts by reason, end offset."""

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


class LocalPipeline:
    """A pipeline with its state directory, and the lives of its process.

    `middle` is the compiled pipeline file; an edited one applies from the next life on. Offsets are the engine's
    (`cdc.offsets`). `restarted` creates the sink of a life after a crash. `now` is the time of every batch, None for
    the clock; `name` is the source's name in the state directory, by default its class.
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
        self._now = now
        self._state = state if isinstance(state, StateDir) else StateDir(state)
        self._state.open(name="memory", source=name or type(source).__name__)
        if self._state.initial_offset() is None:
            self._state.store_initial_offset(start)
        self._tables = TableLog(self._state.store)
        self._planned: dict[int, tuple[Offset, Offset]] = {}
        self._events: list[on.SourceEvent] = []
        self._progress = Progress()
        self._begin(sink)

    def latest(self, at: Offset, batch: int, limits: Limits | None = None, wait_s: float = 0.0) -> Offset:
        """Return the end of a batch that begins `at` an offset of the source, after passing it the snapshot orders."""
        self._source.order(self.orders(batch))
        return self._source.latest_offset(at, limits, wait_s)

    def orders(self, batch: int) -> dict[TableId, Order]:
        """Return the open snapshot orders before a batch."""
        return open_orders(self._tables.at(batch - 1).tables)

    @property
    def has_requests(self) -> bool:
        """Whether requests wait for a batch, even an empty one."""
        return not Mailbox(self._state.store).is_empty()

    def plan(self, start: Offset, end: Offset) -> None:
        """Record where a batch begins and ends."""
        self._planned[start[BATCH_KEY]] = start, end

    def batch(self, start: Offset, end: Offset, parallelism: int, failures: Sequence[FailAt] = ()) -> None:
        """Run a batch, repeated after each requested crash. Raises CdcError."""
        self.plan(start, end)
        batch = start[BATCH_KEY]
        for failure in failures:
            if self._dies(batch, parallelism, failure):
                self._begin(self._restarted())
        self._live(batch, parallelism)
        if source_offset(start) != source_offset(end):
            self._events += self._source.events(source_offset(start), source_offset(end))

    def restart(self, source: Source | None = None) -> None:
        """Continue as another process, with the current `middle` and optionally another source object."""
        self.wait()
        self._source = source or self._source
        self._begin(self._restarted())

    def wait(self) -> None:
        """Wait for the last commit."""
        self._runner.finish()

    def finish(self, batches: int, offset: Offset) -> MemoryRun:
        """Wait for the last commit and return the result of all batches. Raises CdcError."""
        self.wait()
        if self._runner.error is not None:
            raise self._runner.error
        now = self._progress.totals()
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
        """Begin a new life."""
        self._recovered = False
        self._tasks = LocalTasks(self._source, sink, self.middle, self._state, self._now)
        self._runner = BatchRunner(
            self._source, sink, self.middle, self._state, self._planned.__getitem__, self._progress,
            RetryPolicy(timeout_s=10.0),
        )  # fmt: skip

    def recover(self) -> None:
        """Commit what an earlier life has decided, before anything is planned. Raises CdcError."""
        if not self._recovered:
            self._runner.recover()
            self._recovered = True

    def _live(self, batch: int, parallelism: int) -> None:
        """Run a batch as a real process does."""
        self.recover()
        self._runner(batch, partial(self._tasks.results, batch, *self._planned[batch], parallelism))

    def _dies(self, batch: int, parallelism: int, failure: FailAt) -> bool:
        """Run until the crash; return False when the batch did not reach that step."""
        with crash_at(failure, batch) as crash:
            with suppress(Crash):
                self._live(batch, parallelism)
            self._runner.finish()
        return crash.happened
