"""A `cdc serve` of made up pipelines, whose status documents are on disk as real ones are."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cdc.api import load
from cdc.errors import NotNow, PipelineUnknown, TableUnknown
from cdc.evolution.apply import apply_changes
from cdc.progress import ChangeCounts
from cdc.schema import AddColumn, Column, DataType, DropColumn, Kind, TableId, TableSchema
from cdc.serve.control import Control, ErrorView, LogLine, PipelineView, RunView
from cdc.spec.model import PipelineSpec
from cdc.state.store import LocalStore
from cdc.status.file import write_status
from cdc.status.model import (
    Batch,
    Copy,
    Error,
    Point,
    SchemaEvent,
    SchemaTotals,
    SinkLag,
    SourceNotice,
    StatusDocument,
    TableStatus,
)
from cdc.tables.entry import TableViews
from cdc.tables.log import TableLog

KEPT = "source: {type: values, rows: []}\nsink: {type: values}\n"
"""What the files of the pipelines said when they were read."""
HOSTILE = "</script><script>alert(1)</script>\"' onload=x \u202egnp.exe"
PHASES = {"schema": 0.01, "dispatch": 0.06, "read": 0.11, "decode": 0.21, "transform": 0.05, "prepare": 0.32,
          "decide": 0.02, "commit": 0.14}  # fmt: skip


class FakeControl:
    """Does what it is asked for by noting it in `asked`."""

    def __init__(self, views: Sequence[PipelineView]) -> None:
        self._views = {view.name: view for view in views}
        self.asked: list[tuple[str, ...]] = []

    def pipelines(self) -> Sequence[PipelineView]:
        return list(self._views.values())

    def pipeline(self, name: str) -> PipelineView:
        if name not in self._views:
            raise PipelineUnknown("there is no such pipeline", where=name, hint="see the list")
        return self._views[name]

    def spec(self, name: str) -> PipelineSpec:
        return load(self.pipeline(name).file, text=KEPT).spec

    def put(self, view: PipelineView) -> None:
        self._views[view.name] = view

    def start(self, name: str) -> None:
        self.asked.append(("start", self.pipeline(name).name))

    def stop(self, name: str, *, drain: bool = False) -> None:
        if self.pipeline(name).state == "stopped":
            raise NotNow("it is stopped already", where=name, hint="start it")
        self.asked.append(("drain" if drain else "stop", name))

    def savepoint(self, name: str) -> Path:
        self.asked.append(("savepoint", name))
        return Path("/savepoints") / name

    def resync(self, name: str, table: str) -> None:
        if table == "shop.nothing":
            raise TableUnknown("the pipeline does not capture this table", where=table, hint="see its tables")
        self.asked.append(("resync", name, table))

    def pause(self, name: str, table: str) -> str:
        self.asked.append(("pause", name, table))
        return f"{table} is paused."

    def resume(self, name: str, table: str) -> str:
        self.asked.append(("resume", name, table))
        return f"{table} is resumed."

    def log(self, name: str, last: int = 100) -> Sequence[LogLine]:
        hostile = LogLine(time.time(), "warning", f"seen {HOSTILE}", {"table": HOSTILE})
        return [hostile, LogLine(time.time(), "info", "batch committed", {"rows": 12})][:last]


def fake(view: PipelineView, *more: PipelineView) -> FakeControl:
    """A server with these pipelines."""
    control: Control = FakeControl([view, *more])  # it is one, as the type checker sees
    assert isinstance(control, FakeControl)
    return control


def view(name: str, root: Path, state: str = "running", **fields: object) -> PipelineView:
    """A pipeline with its folder below `root`."""
    folder = root / f"state-{abs(hash(name))}"
    folder.mkdir(parents=True, exist_ok=True)
    made = PipelineView(name, str(root / "shop.yaml"), "mysql", "duckdb", "running", str(folder))
    return replace(made, state=state, **fields)  # type: ignore[arg-type]


def status(name: str, count: int = 12, **fields: object) -> StatusDocument:
    """A document of a busy run with so many tables."""
    now = time.time()
    made = StatusDocument(
        f"{name}-1", name, "mysql", "duckdb", "running", os.getpid(), socket.gethostname(), now - 4000, now,
        lag=SinkLag(1.4, 2_400_000, 812, 0.4), position={"file": "binlog.000042", "position": 19_234_871},
        read=1_402_311, batches_total=1820, totals=ChangeCounts(900_120, 401_002, 91_889),
        read_per_s=5210.0, written_per_s=4871.0,
        phases=PHASES, schema=SchemaTotals("evolve", 14, 1), runs=4, restarts=1, dead_letters=3,
        tables=tuple(_table(number) for number in range(count)),
        batches=tuple(_batch(number, now) for number in range(50)),
        points=tuple(_point(number, now) for number in range(240)),
        schema_changes=(SchemaEvent(now - 900, 1210, "shop.orders", "add.column note STRING", "applied"),
                        SchemaEvent(now - 300, 1500, "shop.users", "drop.column", "held-back")),
        errors=(Error(now - 700, "SinkUnavailable", "no connection", "fe:9030", "start it, or wait", True),),
        paused=("shop.archive",),
        notices=(SourceNotice(now - 90, "shop.users is re-snapshotted: it was altered"),),
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]


def _batch(number: int, now: float) -> Batch:
    return Batch(1770 + number, now - 50 + number, 0.9 + number % 7 / 10, 4000 + number * 31, 5, 0.4, PHASES)


def _point(number: int, now: float) -> Point:
    read, written = 5000.0 + number * 13 % 900, 4700.0 + number * 29 % 800
    return Point(now - 1200 + 5 * number, abs(number % 40 - 20) / 10, read, written)


def _table(number: int) -> TableStatus:
    copy = Copy("copying", 420_000, 1_000_000, 42, 100, 9000, 64, "it was altered") if number == 1 else None
    return TableStatus(
        f"shop.table_{number:03}",
        ChangeCounts(1000 * number, 300, 20),
        1400 * number,
        210.5,
        230.5,
        1,
        time.time() - 2,
        copy,
    )


def form(page: str, action: str) -> dict[str, str]:
    """The hidden fields of a page's form for an action."""
    found = next(each for each in page.split("<form")[1:] if f'value="{action}"' in each)
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', found))


def told(control: FakeControl, name: str, document: StatusDocument) -> None:
    """Put a document in a pipeline's folder."""
    write_status(Path(control.pipeline(name).state_dir), document)


def shop(root: Path) -> FakeControl:
    """One pipeline with everything, a scheduled one, one that failed, and one with a hostile name."""
    now = time.time()
    error = ErrorView(
        "SinkError", "the disk is full", "warehouse.duckdb", "free some space and start it", now - 60, False
    )
    control = fake(
        view("shop", root, spec={"transform": [{"source-table": "shop.\\.*"}], "route": []},
             runs=(RunView(now - 4000, None, None, "start", 100, 4),)),
        view("nightly", root, "scheduled", schedule="0 2 * * *", next_run_s=now + 3600,
             runs=(RunView(now - 90_000, now - 89_000, "finished", "schedule", 120_000, 90),)),
        view("billing", root, "failed", last_error=error, attention="failed"),
        view(HOSTILE, root, "invalid", attention="invalid file", file_errors=(f"shop.yaml:3:1: {HOSTILE}",)),
    )  # fmt: skip
    told(control, "shop", status("shop", 120))
    told(control, HOSTILE, _hostile())
    schemas(Path(control.pipeline("shop").state_dir))
    return control


def _hostile() -> StatusDocument:
    now = time.time()
    return status(
        HOSTILE,
        tables=(TableStatus(HOSTILE, ChangeCounts(1, 1, 1)),),
        errors=(Error(now, HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        notices=(SourceNotice(now, HOSTILE),),
        paused=(HOSTILE,),
        resumed=(HOSTILE,),
        schema_changes=(SchemaEvent(now, 1, HOSTILE, HOSTILE, "applied"),),
        note=HOSTILE,
        source=HOSTILE,
    )


def schemas(folder: Path) -> None:
    """A table with three versions, and one with a hostile name."""
    orders = TableId("shop", "orders")
    integer, text = DataType(Kind.INT), DataType(Kind.STRING)
    log = TableLog(LocalStore(folder))
    first = TableSchema((Column("id", integer, nullable=False), Column("note", text)), ("id",))
    tables = {orders: first, TableId("shop", HOSTILE): first}
    log.write(0, TableViews(sink=tables))
    for batch, change in ((7, AddColumn(orders, Column("qty", integer))), (9, DropColumn(orders, "note"))):
        tables = apply_changes(tables, [change])
        log.write(batch, TableViews(sink=tables))
