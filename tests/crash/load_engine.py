"""The engine's batches in this process: its own runner, task, state directory and commit log around a list of changes.

What Spark does is done here: offset logs, tasks that are tried again, batches that run again after a crash. A crash is
an exception that nothing catches. It is raised at a crash point, in whatever thread gets there, and from then on at
every point, so that a process that is dead decides and commits nothing more.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from unittest.mock import patch

from cdc.block import ChangeBlock
from cdc.errors import CdcError, CommitUnknown
from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.flow.task_result import TaskResult
from cdc.job.checkpoint import OffsetLog, logged_offset
from cdc.job.query import ForeachBatch
from cdc.offsets import BATCH_KEY
from cdc.progress import Progress
from cdc.retry import RetryPolicy
from cdc.schema import SchemaChange
from cdc.sink import Sink
from cdc.state.directory import StateDir
from cdc.state.splits import SplitLog
from cdc.state.store import Store
from cdc.testing import ListSource

Item = SchemaChange | ChangeBlock

IN_A_WORKER = "in-prepare"
"""There a Python worker may die without the driver."""
_TASK_TRIES = 4
_LIVES = 12
RETRY = RetryPolicy(timeout_s=0.0)
"""A life ends with the first thing that fails: what the next one makes of it is what the tests are about."""


class Crash(BaseException):
    """The process died here."""


class WorkerDied(Exception):
    """A Python worker died here; Spark tries its task again."""


@dataclass
class Crashes:
    """Where the process dies next: at the `passes`-th time that it reaches `point` in `batch` or later."""

    point: str = ""
    batch: int = 0
    passes: int = 1
    worker: bool = False
    dead: bool = False
    happened: list[str] = field(default_factory=list)

    def arm(self, point: str, batch: int, *, passes: int = 1, worker: bool = False) -> None:
        """Die there, once."""
        self.point, self.batch, self.passes, self.worker = point, batch, passes, worker

    def __call__(self, point: str, batch: int) -> None:
        """The hook of `cdc.process.faults`."""
        if self.dead:
            raise Crash(point)
        if point != self.point or batch < self.batch:
            return
        self.passes -= 1
        if self.passes > 0:
            return
        self.point = ""
        self.happened.append(f"{point}:{batch}")
        if self.worker:
            raise WorkerDied
        self.dead = True
        raise Crash(point)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While the block runs, the points of this process are these."""
        with patch("cdc.process.faults.hook", self):
            yield


class _Frame:
    """What Spark gives to foreachBatch: collecting it runs the tasks, each up to four times."""

    def __init__(self, engine: LoadEngine, sink: Sink, batch: int) -> None:
        self._engine, self._sink, self._batch = engine, sink, batch

    def collect(self) -> list[tuple[str, bytes]]:
        engine = self._engine
        start, end = engine.offsets(self._batch)
        source = ListSource(engine.items)
        splits = list(
            SplitLog(engine.state.splits).splits(source, start, end, engine.rng.randint(1, engine.parallelism + 1))
        )
        if not engine.in_order:
            engine.rng.shuffle(splits)
        task = PrepareTask.of(source, pickle.loads(pickle.dumps(self._sink)), engine.middle, engine.state)
        return [self._run(lambda split=split: task(self._batch, split)).to_row() for split in splits]

    def _run(self, task: Callable[[], TaskResult]) -> TaskResult:
        for _ in range(_TASK_TRIES - 1):
            try:
                return task()
            except CdcError as error:
                self._engine.errors.append(error)
            except WorkerDied:
                pass
        return task()


@dataclass
class LoadEngine:
    """One pipeline: its state directory, its changes so far, and the lives of its process.

    `make_sink` makes the sink as a new process does. `between` is called when a process has ended badly, before the
    next one starts. What lives ended with is in `errors`: only what a further try may mend is allowed there.
    With `in_order` each task comes after those before it, for a sink where one waits for the other.
    `source` is the type that the state directory is made for.
    """

    folder: Path
    make_sink: Callable[[Store], Sink]
    between: Callable[[], None]
    rng: Random = field(default_factory=lambda: Random(0))
    parallelism: int = 2
    in_order: bool = False
    source: str = "list"
    items: list[Item] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    logged: int = 0
    crashes: Crashes = field(default_factory=Crashes)
    errors: list[CdcError] = field(default_factory=list)
    lives: int = 0
    middle: Middle = field(default_factory=Middle)

    def __post_init__(self) -> None:
        self.state = StateDir(self.folder)
        self.state.open(name="load", source=self.source)
        self.state.store_initial_offset({"item": 0, BATCH_KEY: 0})

    @property
    def batches(self) -> int:
        """How many batches were given."""
        return len(self.ends)

    def add(self, items: Sequence[Item]) -> int:
        """One more batch of changes; its number."""
        self.items += items
        self.ends.append(len(self.items))
        return len(self.ends) - 1

    def offsets(self, batch: int) -> tuple[dict[str, int], dict[str, int]]:
        """The offsets of a planned batch, with the batch numbers."""
        start = logged_offset(self.state.checkpoint, batch - 1) if batch else self.state.initial_offset()
        end = logged_offset(self.state.checkpoint, batch)
        assert start is not None
        assert end is not None
        return start, end

    def catch_up(self) -> None:
        """Start the process, again after each bad end, until every batch is committed."""
        with self.crashes.installed():
            for _ in range(_LIVES):
                try:
                    self.live()
                except Crash:
                    pass
                except CdcError as error:
                    if not error.retryable and not isinstance(error, CommitUnknown):
                        raise
                    self.errors.append(error)
                else:
                    return
                self.between()
        raise AssertionError(f"no life got to the end: {self.crashes.happened}, {[str(e) for e in self.errors]}")

    def live(self) -> None:
        """One life of the process. Raises Crash, or what the run ended with."""
        self.lives += 1
        self.crashes.dead = False
        sink, first = self.make_sink(self.state.sink), self.logged
        source, offsets = ListSource(self.items), OffsetLog(self.state)
        runner = BatchRunner(
            source, sink, self.middle, self.state, offsets, Progress(), RETRY
        )  # fmt: skip
        try:
            runner.recover()
            while self.logged < self.batches:
                self._plan(self.logged)
                batch = ForeachBatch(runner, self.state)
                batch(_Frame(self, sink, self.logged), self.logged)  # type: ignore[arg-type]
                self.logged += 1
        finally:
            runner.finish()
            if self.crashes.dead and self.logged > first and self.rng.random() < 0.5:
                self.logged -= 1  # foreachBatch had returned, and Spark had not logged it
        if self.crashes.dead:
            raise Crash
        if runner.error is not None:
            raise runner.error

    def _plan(self, batch: int) -> None:
        """What Spark writes before it runs a batch."""
        path = self.state.checkpoint / "offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        end = {"item": self.ends[batch], BATCH_KEY: batch + 1}
        path.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}', encoding="utf-8")
