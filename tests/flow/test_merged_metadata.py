"""Metadata of blocks of several source tables, and several pieces of the log, that become one block."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from cdc.flow.gather import Metadata, merged_metadata
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.testing.blocks import block

SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False),), ("id",))


def knows(piece: str) -> Metadata:
    def own(name: str, sequence: pa.Array) -> pa.Array:
        return pa.array([f"{piece} {name} {each}" for each in sequence.to_pylist()])

    return own


def at(sequences: list[int], metadata: Metadata | None):
    rows = [("+I", {"id": number}) for number in sequences]
    return replace(block(TableId("a", "b"), SCHEMA, rows), sequence=pa.array(sequences, pa.int64()), metadata=metadata)


def test_each_row_is_told_by_the_piece_that_has_it() -> None:
    one, other = knows("one"), knows("other")
    merged = merged_metadata([at([5, 30], other), at([1, 3], one), at([4], one), at([7], other)])
    assert merged is not None
    told = merged("gtid", pa.array([30, 1, 4, 5, 3])).to_pylist()
    assert told == ["other gtid 30", "one gtid 1", "one gtid 4", "other gtid 5", "one gtid 3"]


def test_rows_of_which_nothing_is_known_are_null() -> None:
    merged = merged_metadata([at([1], None), at([5], knows("one"))])
    assert merged is not None
    assert merged("gtid", pa.array([5, 1])).to_pylist() == ["one gtid 5", None]
    assert merged_metadata([at([1], None), at([2], None)]) is None
