"""Rows and the columns of the sink's tables."""

from __future__ import annotations

import pytest

from cdc.errors import EngineError
from cdc.schema import Column, CreateTable, DataType, TableId, TableSchema
from cdc.testing import ListSink, ListSource, block, run_in_memory

T = TableId("shop", "t")
ID, NOTE = Column("id", DataType.parse("INT")), Column("note", DataType.parse("STRING"))
NARROW, WIDE = TableSchema((ID,), ("id",)), TableSchema((ID, NOTE), ("id",))


def test_rows_of_other_columns_than_the_sinks_never_reach_it() -> None:
    items = [CreateTable(T, NARROW), block(T, WIDE, [("+I", {"id": 1})])]
    with pytest.raises(EngineError, match=r"shop\.t: rows with the columns id, note .* do not fit the sink's table"):
        run_in_memory(ListSource(items), ListSink())


def test_the_order_of_columns_does_not_count() -> None:
    moved = TableSchema((NOTE, ID), ("id",))
    sink = ListSink()
    run_in_memory(ListSource([CreateTable(T, WIDE), block(T, moved, [("+I", {"id": 1, "note": "a"})])]), sink)
    assert sink.rows(T) == [{"id": 1, "note": "a"}]
