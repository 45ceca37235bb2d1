"""What a sink without SQL cannot do in place comes about by a re-snapshot into its shadow table, whatever crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from document_sink import DocumentSink
from live_source import LiveSource
from test_document_sink import DocumentHarness
from together import together

from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.route import RouteTable
from cdc.schema import (
    AlterColumnType,
    AlterPrimaryKey,
    Column,
    CreateTable,
    DataType,
    DropColumn,
    RenameColumn,
    SchemaChange,
    TableId,
    TableSchema,
)
from cdc.sink_columns import Coercion
from cdc.source import Context
from cdc.state.store import LocalStore
from cdc.testing import FailAt, block, run_in_memory

T = TableId("shop", "t")
ID, V = Column("id", DataType.parse("INT"), nullable=False), Column("v", DataType.parse("INT"))
BEFORE = TableSchema((ID, V), ("id",))
TEXT = Column("v", DataType.parse("STRING"))
OTHER = Column("w", DataType.parse("INT"))
CHANGES: dict[str, tuple[SchemaChange, TableSchema, dict[str, Any]]] = {
    "another type": (AlterColumnType(T, TEXT, V), TableSchema((ID, TEXT), ("id",)), {"id": 3, "v": "x"}),
    "another name": (RenameColumn(T, "v", "w"), TableSchema((ID, OTHER), ("id",)), {"id": 3, "w": 7}),
    "a column less": (DropColumn(T, "v"), TableSchema((ID,), ("id",)), {"id": 3}),
    "another key": (AlterPrimaryKey(T, ("id", "v")), TableSchema((ID, V), ("id", "v")), {"id": 3, "v": 7}),
}


@together("failure", [None, *FailAt])
@together("name", CHANGES)
def test_the_table_ends_as_the_sources(name: str, failure: FailAt | None, tmp_path: Path) -> None:
    change, after, row = CHANGES[name]
    rows = [("+I", row), ("+I", {**row, "id": 4})]
    items: list[Any] = [CreateTable(T, BEFORE), block(T, BEFORE, [("+I", {"id": 1, "v": 1})])]
    items += [change, *([] if failure is None else [failure]), block(T, after, rows[:1], sequence=2)]
    source = LiveSource(items, {T: block(T, after, rows, sequence=9)})
    context = Context("pipeline-1", LocalStore(tmp_path / "sink"))

    def sink() -> DocumentSink:
        return DocumentSink(tmp_path / "cluster.json", context)

    routing = Middle(RouteTable(()), Policy(Behavior.EVOLVE), Coercion("fail"))
    run_in_memory(source, sink(), restarted=sink, middle=routing, state=tmp_path / "state")
    harness = DocumentHarness(tmp_path)
    found = harness.rows(T)
    assert found is not None
    assert sorted(found, key=lambda each: each["id"]) == [image for _, image in rows]
    assert harness.rows(sink().shadow(T)) is None
