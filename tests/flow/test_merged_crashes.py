"""Every batch of a pipeline with rules and a table that several go to dies at every point of the protocol, in turn."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from live_source import LiveSource

from cdc.offsets import numbered
from cdc.options import SinkOptions
from cdc.process.faults import POINTS
from cdc.schema import (
    AddColumn,
    AlterColumnType,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    RenameColumn,
    TableId,
    TableSchema,
    TruncateTable,
)
from cdc.source import Context
from cdc.spec.check import check
from cdc.state.store import LocalStore
from cdc.testing import block
from cdc.testing.cases import middle
from cdc.testing.local_pipeline import LocalPipeline

pytestmark = pytest.mark.usefixtures("files_stay_open")

Crash = Enum("Crash", {point: point for point in POINTS})
ONE, TWO, LOG = TableId("s1", "t"), TableId("s2", "t"), TableId("s1", "log")


def text(path: Path) -> str:
    rule = {"source-table": r"s[0-9].t", "projection": r"\*, n * 2 AS twice", "filter": "n > 0", "mask": {"v": "MASK"}}
    soft = {"source-table": "s1.log", "projection": r"\*, UPPER(v) AS loud", "filter": "v <> 'no'"}
    route = {"source-table": r"s[0-9].t", "sink-table": "ods.t", "shard-column": "origin", "shard-gone": "delete"}
    return yaml.safe_dump({
        "source": {"type": "values", "rows": []},
        "sink": {"type": "duckdb", "path": str(path)},
        "transform": [rule, soft],
        "route": [route, {"source-table": "s1.log", "sink-table": "ods.log"}],
        "pipeline": {"schema.change.behavior": "evolve"},
    })  # fmt: skip


def schema(*columns: str, key: str = "id") -> TableSchema:
    """Columns as `name TYPE`."""
    made = [
        Column(name, DataType.parse(kind), name != key) for name, _, kind in (each.partition(" ") for each in columns)
    ]
    return TableSchema(tuple(made), (key,) if key else ())


OLD = schema("id INT", "n INT", "v STRING", "x INT")
WIDE = schema("id INT", "n INT", "v STRING", "y INT", "z INT")
TEXT = schema("id INT", "n INT", "v STRING", "x STRING")
LATE = schema("id INT", "n BIGINT", "v STRING", "x STRING")
KEYLESS = schema("n INT", "v STRING", key="")


def row(number: int, n: int | None, **more: Any) -> dict[str, Any]:
    return {"id": number, "n": n, "v": f"v{number}", **more}


def items() -> list[Any]:
    inserted = [("+I", row(number, number - 1, x=number * 7)) for number in range(1, 6)]
    moved = [("-U", row(2, 1, x=14)), ("+U", row(2, 0, x=14)), ("-U", row(1, 0, x=7)), ("+U", row(9, 4, x=None))]
    return [
        CreateTable(ONE, OLD), CreateTable(LOG, KEYLESS),
        block(ONE, OLD, inserted, sequence=1),
        block(LOG, KEYLESS, [("+I", {"n": 1, "v": "a"}), ("+I", {"n": 1, "v": "a"}), ("+I", {"n": 2, "v": "no"})],
              sequence=2),
        CreateTable(TWO, TEXT),
        block(TWO, TEXT, [("+I", row(3, 5, x="three"))], sequence=3),
        block(ONE, OLD, moved, sequence=4),
        RenameColumn(ONE, "x", "y"), AddColumn(ONE, Column("z", DataType.parse("INT"))),
        block(ONE, WIDE, [("+I", row(20, 6, y=1, z=2)), ("-D", row(3, 2, y=21, z=None))], sequence=5),
        block(LOG, KEYLESS, [("-U", {"n": 2, "v": "no"}), ("+U", {"n": 2, "v": "b"}), ("-D", {"n": 1, "v": "a"})],
              sequence=6),
        AlterColumnType(TWO, Column("n", DataType.parse("BIGINT")), Column("n", DataType.parse("INT"))),
        DropColumn(ONE, "z"), TruncateTable(TWO),
        block(TWO, LATE, [("+I", row(30, 2, x="thirty"))], sequence=7),
    ]  # fmt: skip


def played(folder: Path, failures: list[Any]) -> dict[str, list[Any]]:
    """The sink's tables in the end."""
    path = folder / "sink.duckdb"
    spec = check("rules.yaml", text(path).encode(), env={}).spec
    assert isinstance(spec.sink, SinkOptions)
    build = spec.sink.build
    now = [("+I", row(number, n, y=number)) for number, n in ((2, 0), (9, 4), (20, 6))]
    behind = schema("id INT", "n INT", "v STRING", "y INT")
    source = LiveSource(items(), {ONE: block(ONE, behind, now, sequence=50)})
    context = Context("p", LocalStore(folder / "state"))
    at = source.initial_offset()
    pipeline = LocalPipeline(
        source, build(context), folder / "engine", numbered(at, 0), lambda: build(context), middle(spec)
    )
    number = 0
    while (end := pipeline.latest(at, number)) != at:
        pipeline.batch(numbered(at, number), numbered(end, number + 1), 2, failures)
        at, number = end, number + 1
    pipeline.finish(number, at)
    with duckdb.connect(str(path), read_only=True) as file:
        return {name: file.execute(f"SELECT * FROM ods.{name} ORDER BY ALL").fetchall() for name in ("t", "log")}


@pytest.mark.slow
def test_a_process_that_dies_at_any_point_changes_nothing_behind_rules_and_merged_routes(tmp_path: Path) -> None:
    whole = played(tmp_path / "whole", [])
    assert [each[:2] for each in whole["t"]] == [(9, "s1.t"), (20, "s1.t"), (30, "s2.t")]
    assert whole["log"] == [(1, "a", "A"), (2, "b", "B")]
    assert played(tmp_path / "dying", list(Crash)) == whole
