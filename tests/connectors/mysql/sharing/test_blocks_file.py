"""Decoded blocks in a file: they come back as they were, or the file is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.block import ChangeBlock
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.testing.blocks import block, images
from connectors.mysql.sharing.blocks_file import BlocksFile, BlocksTooLarge, write_blocks

ORDERS, NOTES = TableId("shop", "orders"), TableId("shop", "no.tes")
SCHEMA = TableSchema(
    (
        Column("id", DataType(Kind.BIGINT), nullable=False),
        Column("amount", DataType(Kind.DECIMAL, 12, 2)),
        Column("kinds", DataType(Kind.STRING), comment="named like a column of the file"),
        Column("vector", DataType(Kind.VECTOR)),
    ),
    ("id",),
)
WIDER = replace(SCHEMA, columns=(*SCHEMA.columns, Column("more", DataType(Kind.BYTES))))


def some() -> list[ChangeBlock]:
    first = {"id": 1, "amount": Decimal("1.50"), "kinds": "köln", "vector": [0.5, 1.5]}
    return [
        block(ORDERS, SCHEMA, [("+I", first), ("-D", {"id": 2})], sequence=5),
        block(NOTES, WIDER, [("-U", {"id": 3, "more": b"\x00"}), ("+U", {"id": 3, "kinds": ""})], sequence=6),
        block(ORDERS, SCHEMA, [("+I", {"id": number}) for number in range(1000)], sequence=7),
        block(ORDERS, WIDER, [("+I", {"id": 4, "more": b"x"})], sequence=8),
    ]


def test_blocks_come_back_as_they_were(tmp_path: Path) -> None:
    path, made = tmp_path / "file", some()
    write_blocks(path, iter(made), (), Counter({"invalid-date-to-null a.b.c": 3}), 1 << 30)
    file = BlocksFile(path)
    path.unlink()  # what is mapped stays
    found = list(file.blocks())
    assert file.counts == {"invalid-date-to-null a.b.c": 3}
    assert [(each.table, each.schema) for each in found] == [(each.table, each.schema) for each in made]
    assert images(found) == images(made)
    for one, other in zip(found, made, strict=True):
        one.rows.validate(full=True)
        assert one.rows.schema.equals(other.rows.schema)
        for name in ("kinds", "sequence", "row", "timestamps_ms"):
            assert getattr(one, name).equals(getattr(other, name))
    assert images(file.blocks()) == images(made)  # and again


def test_metadata_is_that_of_each_row_for_any_of_them(tmp_path: Path) -> None:
    rows = block(ORDERS, SCHEMA, [("+I", {"id": number}) for number in range(3)])
    sequence = pa.array([10, 20, 20], pa.int64())
    places = {10: "a", 20: "b"}

    def column(name: str, sequences: pa.Array) -> pa.Array:
        return pa.array([f"{name}-{places[each]}" for each in sequences.to_pylist()], pa.string())

    write_blocks(
        tmp_path / "file",
        [replace(rows, sequence=sequence, metadata=column)],
        ("gtid", "server_id"),
        Counter(),
        1 << 30,
    )
    (found,) = BlocksFile(tmp_path / "file").blocks()
    assert found.metadata is not None
    assert found.metadata("gtid", sequence).to_pylist() == ["gtid-a", "gtid-b", "gtid-b"]
    assert found.metadata("server_id", sequence[2:]).to_pylist() == ["server_id-b"]


@pytest.mark.parametrize("cut", [1, 8, 200])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "file"
    write_blocks(path, some(), (), Counter(), 1 << 30)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ValueError, match=r"not whole|utf-8|Expecting|Extra data|decode"):
        BlocksFile(path)


def test_more_than_the_file_may_have_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(BlocksTooLarge):
        write_blocks(tmp_path / "file", some(), (), Counter(), 5000)
