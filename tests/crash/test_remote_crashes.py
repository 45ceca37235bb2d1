"""State in an object store: the process and its machine die at each put in turn, before and after the store has it.

Each life has an empty folder on a machine of its own; Spark's offsets, the splits, the decisions and the staged rows
come from the store. Where a batch ends and how it is cut is chosen again by whoever finds nothing about it, so what was
not in the store in time shows as rows that are lost or there twice.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import obstore
import pytest
from hdfs_server import ImitatedHdfs

from cdc.block import ChangeBlock
from cdc.flow.batch import BatchRunner
from cdc.flow.middle import Middle
from cdc.flow.task import PrepareTask
from cdc.job.checkpoint import OffsetLog, logged_offset, repair
from cdc.job.query import ForeachBatch
from cdc.offsets import BATCH_KEY
from cdc.progress import Progress
from cdc.retry import RetryPolicy
from cdc.schema import AddColumn, Column, CreateTable, DataType, Kind, SchemaChange, TableId, TableSchema
from cdc.sink import Prepared, Sink, TaskAttempt
from cdc.source import Context, Limits
from cdc.state.append_log import AppendLog
from cdc.state.decisions import CommitLog
from cdc.state.directory import StateDir
from cdc.state.remote import hdfs as hdfs_module
from cdc.state.remote.hdfs import HdfsBucket
from cdc.state.remote.run import _RemoteRun
from cdc.state.splits import SplitLog
from cdc.state.store import Store
from cdc.tables.log import TableLog
from cdc.testing import ListSource
from cdc.testing.blocks import block, images
from connectors.duckdb.options import DuckDbSinkOptions
from connectors.duckdb.sink import DuckDbSink

ORDERS = TableId("shop", "orders")
_ID, _NOTE = Column("id", DataType(Kind.BIGINT), False), Column("note", DataType(Kind.STRING))
NARROW = TableSchema((_ID,), ())
WIDE = TableSchema((_ID, _NOTE), ())
ROWS = 8


def items() -> list[SchemaChange | ChangeBlock]:
    """A table without a key, so that a row that is there twice shows, and a column in the middle."""
    first = [block(ORDERS, NARROW, [("+I", {"id": number})], sequence=number) for number in range(ROWS // 2)]
    then = [block(ORDERS, WIDE, [("+I", {"id": number})], sequence=number) for number in range(ROWS // 2, ROWS)]
    return [CreateTable(ORDERS, NARROW), *first, AddColumn(ORDERS, _NOTE), *then]


class Died(BaseException):
    """The machine is gone."""


@dataclass
class Machine:
    """Dies at its n-th put of something other than the lease; the store has it then or has not."""

    at: int = 0
    after: bool = False
    puts: int = 0
    dead: bool = False

    def put(self, real: Callable[..., Any], store: Any, name: str, data: Any, more: Mapping[str, Any]) -> Any:
        if self.dead:
            raise Died
        if name.partition("/")[0] == "lock":
            return real(store, name, data, **more)
        self.puts += 1
        self.dead = self.puts == self.at
        if self.dead and not self.after:
            raise Died
        done = real(store, name, data, **more)
        if self.dead:
            raise Died
        return done

    @contextmanager
    def running(self) -> Iterator[None]:
        put, hdfs_put = obstore.put, HdfsBucket._put

        def into_hdfs(store: HdfsBucket, name: str, data: Any, **more: Any) -> bool:
            return bool(self.put(hdfs_put, store, name, data, more))

        with (
            patch("obstore.put", lambda store, name, data, **more: self.put(put, store, name, data, more)),
            patch.object(HdfsBucket, "_put", into_hdfs),
        ):
            yield


class Process(Machine):
    """Dies at its n-th put or change of a file instead, also within a line of a log; its machine and folder stay."""

    @contextmanager
    def running(self) -> Iterator[None]:
        with super().running(), ExitStack() as patches:
            for name in ("fsync", "replace", "unlink", "mkdir"):
                patches.enter_context(patch.object(os, name, partial(self._change, getattr(os, name))))
            append = AppendLog._append_bytes
            torn = lambda log, file, data: self._append(partial(append, log), file, data)  # noqa: E731
            patches.enter_context(patch.object(AppendLog, "_append_bytes", torn))
            yield

    def _change(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        return self.put(lambda *_, **__: real(*given, **named), None, "file", None, {})

    def _append(self, real: Callable[..., Any], file: Any, data: bytes) -> None:
        if self.puts + 1 == self.at and not self.after and not self.dead:
            file.seek(0, os.SEEK_END)
            file.write(data[: len(data) // 2])
        self._change(real, file, data)


class _Frame:
    """What Spark gives to foreachBatch, with tasks in one process."""

    def __init__(self, life: _Life, batch: int) -> None:
        self._life, self._batch = life, batch

    def collect(self) -> list[tuple[str, bytes]]:
        life, state = self._life, self._life.state
        start, end = OffsetLog(state)(self._batch)
        state.adopt_plan(self._batch)
        splits = SplitLog(state.splits).splits(life.source, start, end, life.rng.randint(1, 3))
        task = PrepareTask(life.source, life.sink, Middle(), TableLog(state.store))
        return [task(self._batch, split).to_row() for split in splits]


class _Life:
    """A run on a new machine, from its start to the end of the list."""

    def __init__(self, state: StateDir, sink: Sink, rng: Random) -> None:
        self.state, self.sink, self.rng, self.source = state, sink, rng, ListSource(items())

    def live(self) -> None:
        state, log = self.state, CommitLog(self.state.commits)
        repair(state.checkpoint, lambda batch: log.get(batch) is not None)
        runner = BatchRunner(
            self.source, self.sink, Middle(), state, OffsetLog(state), Progress(),
            RetryPolicy(timeout_s=0.0),
        )  # fmt: skip
        try:
            runner.recover()
            batch = self._newest()
            while self._plan(batch):
                ForeachBatch(runner, state)(_Frame(self, batch), batch)  # type: ignore[arg-type]
                batch += 1
        finally:
            runner.finish()
        if runner.error is not None:
            raise runner.error

    def _newest(self) -> int:
        folder = self.state.checkpoint / "offsets"
        return max((int(path.name) for path in folder.iterdir()), default=0) if folder.exists() else 0

    def _plan(self, batch: int) -> bool:
        """What Spark logs before a batch; False at the end of the list."""
        if logged_offset(self.state.checkpoint, batch) is not None:
            return True
        before = logged_offset(self.state.checkpoint, batch - 1) if batch else self.state.initial_offset()
        assert before is not None
        start = {"item": before["item"]}
        end = self.source.latest_offset(start, Limits(1 << 20, self.rng.randint(1, 5)), 0.0)
        if end == start:
            return False
        path = self.state.checkpoint / "offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**end, BATCH_KEY: batch + 1})
        path.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{text}', encoding="utf-8")
        return True


@dataclass
class Server:
    """A system whose tasks commit by themselves, with a fence per partition."""

    rows: list[int] = field(default_factory=list)
    fences: dict[int, int] = field(default_factory=dict)


class FencedSink(Sink):
    """Writes in the task, as the Kafka sink does."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def apply(self, batch: int, changes: Sequence[SchemaChange]) -> None: ...

    def prepare(self, task: TaskAttempt, blocks: Iterator[ChangeBlock]) -> Sequence[Prepared]:
        ids = [row["id"] for _, row in images(blocks)]
        if self._server.fences.get(task.partition, -1) < task.batch:
            self._server.rows += ids
            self._server.fences[task.partition] = task.batch
        return [Prepared(ORDERS, task.partition, None, len(ids))]

    def commit(self, batch: int, prepared: Sequence[Prepared]) -> None: ...

    def abort(self, batch: int, noted: Any = ()) -> None: ...


@dataclass
class World:
    """A pipeline, its store, and what is in its sink; the sink is on no machine that dies. `url` "" keeps the state in
    the folder alone. It `moves` to another machine for each life, or stays where it is."""

    folder: Path
    make: Callable[[Store], Sink]
    rows: Callable[[], list[int]]
    url: str = field(default_factory=lambda: f"memory:///{secrets.token_hex(8)}")
    lives: int = 0
    slept_s: float = 0.0
    moves: bool = True

    def live(self, machine: Machine, rng: Random) -> bool:
        """One life; False when the machine died."""
        self.lives += 1
        root = self.folder / f"machine-{self.lives if self.moves else 0}"
        retry = RetryPolicy(0.0, clock=lambda: time.monotonic() + self.slept_s, sleep=self._sleep)
        run = _RemoteRun(self.url, root, retry, 600.0) if self.url else None
        with machine.running():
            try:
                if run is not None:
                    run.begin(lambda told: None)
                state = StateDir(root)
                state.open(name="moving", source="list")
                if state.initial_offset() is None:
                    state.store_initial_offset({"item": 0, BATCH_KEY: 0})
                _Life(state, self.make(state.sink), rng).live()
                if run is not None:
                    run.end()
            except Died:
                pass
            finally:
                if run is not None:
                    run._ended.set()
        return not machine.dead

    def _sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def check(self) -> None:
        assert Counter(self.rows()) == Counter(range(ROWS))


def _duckdb(folder: Path) -> World:
    path = folder / "lake.duckdb"

    def make(store: Store) -> Sink:
        return DuckDbSink(DuckDbSinkOptions(type="duckdb", path=str(path), threads=1), Context("moving-1", store))

    def rows() -> list[int]:
        with duckdb.connect(str(path), read_only=True) as connection:
            return [int(row[0]) for row in connection.sql("SELECT id FROM shop.orders").fetchall()]

    return World(folder, make, rows)


def _fenced(folder: Path) -> World:
    server = Server()
    return World(folder, lambda store: FencedSink(server), lambda: server.rows)


def _in_hdfs(folder: Path) -> World:
    return replace(_fenced(folder), url=f"hdfs://imitated:8020/{secrets.token_hex(8)}")


SINKS = {"duckdb": _duckdb, "fenced": _fenced, "in hdfs": _in_hdfs}
_ALL = os.environ.get("CDC_FAULT_MATRIX") == "all"
"""Every put with every sink; otherwise every second with the fenced one, others after than before the store has it."""


def _puts(make: Callable[[Path], World], folder: Path) -> int:
    """How many puts a run has that nothing happens to."""
    machine = Machine()
    world = make(folder)
    assert world.live(machine, Random(1))
    world.check()
    return machine.puts


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", sorted(SINKS))
def test_a_machine_that_dies_at_any_put_loses_and_doubles_nothing(
    kind: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs = ImitatedHdfs()
    monkeypatch.setattr(hdfs_module, "_open_client", lambda cluster, process: hdfs)
    folder = tmp_path / "clean"
    folder.mkdir()
    puts = _puts(SINKS[kind], folder)
    assert puts > ROWS
    every = {"fenced": 2, "in hdfs": 6}.get(kind, 18) if not _ALL else 1
    for at in range(1 + after, puts + 1, every):
        folder = tmp_path / str(at)
        folder.mkdir()
        world, lives = SINKS[kind](folder), 0
        assert not world.live(Machine(at, after), Random(1)), f"put {at} of {puts} never came"
        while not world.live(Machine(at=5 if lives < 1 else 0, after=not after), Random(at + lives)):
            lives += 1
        world.check()


@pytest.mark.slow
@pytest.mark.parametrize("store", ["in a folder", "in an object store"])
@pytest.mark.parametrize("kind", ["duckdb", "fenced"])
def test_a_process_that_dies_at_any_change_of_a_file_loses_and_doubles_nothing(
    store: str, kind: str, tmp_path: Path
) -> None:
    """The next one has what it left in the folder. Every second tries to go on and dies, too."""

    def world(name: str) -> World:
        folder = tmp_path / name
        folder.mkdir()
        made = replace(SINKS[kind](folder), moves=False)
        return replace(made, url="") if store == "in a folder" else made

    clean, first = Process(), world("clean")
    assert first.live(clean, Random(1))
    first.check()
    assert clean.puts > ROWS
    for at in range(1, clean.puts + 1, 1 if _ALL else {"duckdb": 46, "fenced": 5}[kind]):
        died, after = world(str(at)), at % 3 == 0
        assert not died.live(Process(at, after), Random(1)), f"change {at} of {clean.puts} never came"
        if at % 2:
            died.live(Process(at // 2 + 1, not after), Random(at))
        assert died.live(Process(), Random(at))
        died.check()
