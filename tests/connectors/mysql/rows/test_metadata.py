"""Metadata of rows: file, position, server and transaction, also of a transaction that began in an earlier buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from log_script import chunk, insert, pieces

from cdc.block import ChangeBlock
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.testing.blocks import block
from connectors.mysql import events
from connectors.mysql.log.receive_buffer import ReceiveBuffer
from connectors.mysql.rows.metadata import NAMES, LogMetadata

TABLE, SCHEMA = TableId("shop", "t"), TableSchema((Column("id", DataType.parse("INT")),))
SCRIPT = [*insert(7, "shop.t"), *insert(8, "shop.t"), *insert(9, "shop.t")]


@pytest.fixture(scope="module")
def whole() -> ReceiveBuffer:
    return chunk(SCRIPT, "binlog.000004")


def decode(buffer: ReceiveBuffer) -> Iterator[ChangeBlock]:
    """One row for each rows event, as the decoder numbers them."""
    ends = buffer.end_position[buffer.type == events.WRITE_ROWS_V2]
    if len(ends):
        made = block(TABLE, SCHEMA, [("+I", {"id": 1})] * len(ends))
        yield replace(made, sequence=pa.array(4 << 40 | ends))


@pytest.mark.parametrize("cuts", [(), (1,), (3,), (6, 8, 13), range(1, len(SCRIPT))])
def test_each_row_has_its_place_and_transaction(cuts: tuple[int, ...], whole: ReceiveBuffer) -> None:
    metadata = LogMetadata(NAMES)
    found: list[tuple[object, ...]] = []
    for buffer in pieces(whole, cuts):
        for made in metadata.blocks(buffer, decode):
            assert made.metadata is not None
            found += zip(*(made.metadata(name, made.sequence).to_pylist() for name in NAMES), strict=True)
    ends = whole.end_position[whole.type == events.WRITE_ROWS_V2].tolist()
    source = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    server = int.from_bytes(whole.data[int(whole.start[0]) + 5 :][:4].tobytes(), "little")
    assert found == [
        ("binlog.000004", end, server, f"{source}:{number}") for end, number in zip(ends, (7, 8, 9), strict=True)
    ]


def test_rows_that_a_filter_has_left_keep_theirs(whole: ReceiveBuffer) -> None:
    (made,) = LogMetadata(NAMES).blocks(whole, decode)
    assert made.metadata is not None
    last = made.sequence.take(pa.array(np.array([2])))
    assert made.metadata("gtid", last).to_pylist() == ["00010203-0405-0607-0809-0a0b0c0d0e0f:9"]


def test_what_nobody_asks_for_is_not_looked_at(whole: ReceiveBuffer) -> None:
    (made,) = LogMetadata(("op_ts", "sequence")).blocks(whole, decode)
    assert made.metadata is None
