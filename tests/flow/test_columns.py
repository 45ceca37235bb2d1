"""Rows and the columns of the sink's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.errors import EngineError
from cdc.evolution.behavior import Behavior, Policy
from cdc.flow.middle import Middle
from cdc.schema import Column, CreateTable, DataType, DropColumn, TableId, TableSchema
from cdc.testing import ListSink, ListSource, block, run_in_memory

T = TableId("shop", "t")
ID, NOTE = Column("id", DataType.parse("INT")), Column("note", DataType.parse("STRING"))
NARROW, WIDE = TableSchema((ID,), ("id",)), TableSchema((ID, NOTE), ("id",))


def test_rows_of_other_columns_than_the_sinks_never_reach_it() -> None:
    items = [CreateTable(T, NARROW), block(T, WIDE, [("+I", {"id": 1})])]
    with pytest.raises(EngineError, match=r"shop\.t: rows with the columns id, note .* do not fit the sink's") as error:
        run_in_memory(ListSource(items), ListSink())
    assert "skipped under another schema.change.behavior" in error.value.hint


def test_a_column_that_lenient_has_kept_is_null_once_the_behavior_is_evolve(tmp_path: Path) -> None:
    items: list[Any] = [CreateTable(T, WIDE), block(T, WIDE, [("+I", {"id": 1, "note": "a"})]), DropColumn(T, "note")]
    source, sink = ListSource([*items, block(T, NARROW, [("+I", {"id": 2})], sequence=2)]), ListSink()
    lenient, evolve = (Middle(policy=Policy(Behavior(name))) for name in ("lenient", "evolve"))
    done = run_in_memory(source, sink, middle=lenient, state=tmp_path)
    source._items += (block(T, NARROW, [("+I", {"id": 3})], sequence=3),)
    run_in_memory(source, sink, middle=evolve, state=tmp_path, start=done.offset, first_batch=done.batches)
    assert [row["note"] for row in sink.rows(T)] == ["a", None, None]


def test_the_order_of_columns_does_not_count() -> None:
    moved = TableSchema((NOTE, ID), ("id",))
    sink = ListSink()
    run_in_memory(ListSource([CreateTable(T, WIDE), block(T, moved, [("+I", {"id": 1, "note": "a"})])]), sink)
    assert sink.rows(T) == [{"id": 1, "note": "a"}]
