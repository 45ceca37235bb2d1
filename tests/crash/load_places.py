"""The servers that crash tests of the load sinks break: stand-ins, the sinks made for them, a look into the tables."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import doris_harness
import starrocks_harness
from doris_servers import own_doris
from load_changes import Table
from load_engine import LoadEngine
from starrocks_servers import own_starrocks

from cdc.sink import Sink
from cdc.source import Context
from cdc.state.store import Store
from cdc_standins import StandIn
from connectors.doris.sink import DorisSink
from connectors.shared.sql.text import quoted
from connectors.starrocks.sink import StarRocksSink

_FINISHED_S = 300.0
_FINAL = frozenset({"VISIBLE", "ABORTED"})


@dataclass(frozen=True, slots=True)
class Fault:
    """What the server does once, at a point of the protocol."""

    point: str
    action: str = "cut"
    args: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.point}-{self.action}"


@dataclass
class Place:
    """One stand-in. Each case has a database of its own in it, and a pipeline of its own."""

    kind: str
    standin: StandIn
    make: Callable[..., Sink]
    cases: int = 0

    @contextmanager
    def case(self) -> Iterator[str]:
        """A new database, gone at the end."""
        self.cases += 1
        name = f"case{self.cases}"
        self.standin.revive()
        yield name
        self.standin.revive()
        self.standin.query(f"DROP DATABASE IF EXISTS {name} FORCE")

    def sink(self, name: str, **more: Any) -> Callable[[Store], Sink]:
        """How a process of this case's pipeline makes its sink; `more` options by the names of the pipeline file."""
        return lambda store: self.make(Context(f"pipeline-{self.kind}-{name}", store), **more)

    def arm(self, fault: Fault) -> None:
        """The next time the server comes by."""
        self.standin.fault(fault.point, action=fault.action, **dict(fault.args))

    def met(self, point: str) -> int:
        """How often faults at a point were met since the server's start."""
        return int(self.standin.command("faults")["met"].get(point, 0))

    def come_back(self) -> None:
        """A server that was killed comes back, and so does a back end that was cut off; what is armed stays armed."""
        with suppress(OSError):
            self.standin.be_up()
            return
        self.standin.wait_killed()
        self.standin.restart()

    def check_loads(self, name: str, engine: LoadEngine) -> None:
        """Every load has ended, and just the decided ones are in the tables."""
        self.standin.revive()
        loads = self._finished(name)
        committed = Counter(load["label"] for load in loads if load["state"] == "VISIBLE")
        assert committed == _decided(engine), f"other labels than the decided ones: {loads}"

    def check(self, name: str, engine: LoadEngine, tables: list[Table]) -> None:
        """The tables are the source's, and the loads as they should be."""
        self.check_loads(name, engine)
        for table in tables:
            assert self._rows(table) == table.expected(), f"{table.id} is not the source's"
        found = self.standin.query(
            f"SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.columns WHERE TABLE_SCHEMA = '{name}'"
        )
        wanted = {(table.id.table, column.name) for table in tables for column in table.columns}
        assert {(str(table), str(column)) for table, column in found} == wanted

    def _finished(self, name: str) -> list[dict[str, Any]]:
        """All loads of the database, once none is under way: publishing is asynchronous."""
        deadline = time.monotonic() + _FINISHED_S
        while True:
            loads = [load for load in self.standin.transactions() if load["db"] == name]
            left = [load for load in loads if load["state"] not in _FINAL]
            if not left:
                return loads
            assert all(load["state"] == "COMMITTED" for load in left), f"left open: {left}"
            assert time.monotonic() < deadline, f"committed and never visible: {left}"
            time.sleep(0.01)

    def _rows(self, table: Table) -> Counter[tuple[Any, ...]]:
        names = ", ".join(quoted(column.name) for column in table.columns)
        rows = self.standin.query(f"SELECT {names} FROM {quoted(table.id.database, table.id.table)}")
        kinds = [str(column.type) for column in table.columns]
        return Counter(tuple(_value(cell, kind) for cell, kind in zip(row, kinds, strict=True)) for row in rows)


def _value(cell: Any, kind: str) -> Any:
    """A cell as the source has it: text as text, and 64 unsigned bits as a number."""
    if cell is None:
        return None
    if kind == "BIGINT UNSIGNED":
        return int(cell)
    return cell.decode() if isinstance(cell, bytes) else cell


def _decided(engine: LoadEngine) -> Counter[str]:
    """The labels in the decision files."""
    labels: Counter[str] = Counter()
    files = [path for path in (engine.state.root / "commits").glob("*.json") if path.stem.isdigit()]
    assert len(files) == engine.batches, "a batch has no decision"
    for path in files:
        for handle in json.loads(path.read_text(encoding="utf-8"))["prepared"]:
            if handle["handle"]["label"]:
                labels[handle["handle"]["label"]] += 1
    return labels


def _cut(points: str) -> tuple[Fault, ...]:
    return tuple(Fault(point) for point in points.split())


def _status(points: str) -> tuple[Fault, ...]:
    return tuple(Fault(point, "status") for point in points.split())


_SLOW = Fault("publish", "slow", (("seconds", 0.1),))
_BACK_END_GONE = Fault("be.load.body", "be_down")

WHILE_PREPARED = {
    "doris": (*_cut("fe.load be.load be.load.body be.load.done sql"), _BACK_END_GONE),
    "starrocks": (
        *_cut("fe.txn.begin be.txn.begin be.txn.begin.done fe.txn.load be.txn.load be.load.body be.txn.load.done"),
        *_cut("fe.txn.prepare be.txn.prepare be.txn.prepare.done sql"),
        _BACK_END_GONE,
    ),
}
"""Faults met before a decision."""

WHILE_FINISHED = {
    "doris": (*_cut("fe.2pc be.2pc be.2pc.done fe.state sql.done"), _SLOW),
    "starrocks": (
        *_cut("fe.txn.commit fe.txn.commit.done fe.state fe.txn.rollback fe.txn.rollback.done be.txn.rollback"),
        *_cut("be.txn.rollback.done fe.txn.commit fe.txn.commit.done sql.done"),
        _SLOW,
        Fault("publish.wait", "late"),
    ),
}
"""As many faults met in a commit, an abort, or a schema change."""

ANSWERED = {
    "doris": (
        *_status("fe.load fe.2pc be.load be.load.done be.2pc be.2pc.done fe.state"),
        Fault("be.load", "refuse", (("message", "[E-235]version count: 2001, exceed limit: 2000"),)),
        Fault("be.2pc", "refuse", (("message", "get tableList write lock timeout"),)),
    ),
    "starrocks": _status(
        "fe.txn.begin be.txn.load fe.txn.prepare be.txn.prepare.done fe.txn.commit fe.txn.commit.done fe.state"
    ),
}
"""Faults that are answered, with an error."""

FAULTS = {kind: (*WHILE_PREPARED[kind], *WHILE_FINISHED[kind], *ANSWERED[kind]) for kind in WHILE_PREPARED}

KILLS = {
    "doris": ("fe.load", "be.load.body", "be.load.done", "be.2pc", "be.2pc.done", "publish", "ddl", "sql.done", "job"),
    "starrocks": (
        "be.txn.begin.done", "be.load.body", "be.txn.load.done", "be.txn.prepare", "be.txn.prepare.done",
        "fe.txn.commit", "fe.txn.commit.done", "publish", "sql.done",
    ),
}  # fmt: skip
"""Points where the server is killed."""


@contextmanager
def doris_place() -> Iterator[Place]:
    """A Doris of one's own."""
    with own_doris() as server:

        def make(context: Context, **more: Any) -> Sink:
            return DorisSink(doris_harness.sink_options(server, **more), context)

        yield Place("doris", server.own, make)


@contextmanager
def starrocks_place() -> Iterator[Place]:
    """A StarRocks of one's own."""
    with own_starrocks() as server:
        assert server.standin is not None

        def make(context: Context, **more: Any) -> Sink:
            return StarRocksSink(starrocks_harness.sink_options(server, **more), context)

        yield Place("starrocks", server.standin, make)


PLACES = {"doris": doris_place, "starrocks": starrocks_place}
