"""Records as the encoder makes them: texts with escapes anywhere, events that share parts, keys and values left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.testing.blocks import block
from connectors.kafka.encoding import debezium
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.encoding.records import Record
from connectors.kafka.modes import EncodingModes

TABLE = TableId("shop", "orders")
LONG = "a name of more than sixteen bytes"
SCHEMA = TableSchema((Column("id", DataType(Kind.INT), False), Column(LONG, DataType(Kind.STRING))), ("id",))


def records(found: ChangeBlock) -> list[Record]:
    layout = debezium.layout(found.table, found.schema, Naming("cdc", "1"), EncodingModes(), with_schema=False)
    return [
        record for part in Encoder(layout, tombstones=True, now_ms=lambda: 7).encode(found) for record in part.records
    ]


def rows(texts: list[str]) -> list[tuple[str, dict[str, Any]]]:
    return [("+I", {"id": number, LONG: text}) for number, text in enumerate(texts)]


def test_text_with_an_escape_at_any_place_is_read_back() -> None:
    escapes = ['"', "\\", "\n", "\x00", "\x1f", "é", "\x7f", "𝄞", "!"]
    texts = [
        "x" * before + each + "y" * after for each in escapes for before in range(18) for after in (0, 1, 7, 8, 20)
    ]
    found = [json.loads(record["value"])["after"][LONG] for record in records(block(TABLE, SCHEMA, rows(texts)))]
    assert found == texts


def _known(name: str, at: int) -> str | int:
    return {"server_id": at, "binlog_begin": 100 * at - 1}.get(name, f"{name}-{at}")


def test_each_message_says_its_own_place_and_time_whatever_it_shares_with_its_neighbours() -> None:
    sequence, times = [5, 5, 6, 6, 5, 5, 9], [10, 10, 10, 11, 10, 10, 10]
    found = replace(
        block(TABLE, SCHEMA, rows(["a"] * len(sequence))),
        sequence=pa.array(sequence, pa.int64()),
        timestamps_ms=pa.array(times, pa.int64()),
        row=pa.array(range(len(sequence)), pa.int32()),
        position_text=lambda sequence: f"binlog.{sequence}:{100 * sequence}",
        metadata=lambda name, of: pa.array([_known(name, each) for each in of.to_pylist()]),
    )
    sources = [json.loads(record["value"])["source"] for record in records(found)]
    told = [
        (each["file"], each["pos"], each["gtid"], each["server_id"], each["ts_ms"], each["ts_ns"], each["row"])
        for each in sources
    ]
    assert told == [
        (f"log_file-{at}", 100 * at - 1, f"gtid-{at}", at, ms, ms * 1_000_000, row)
        for row, (at, ms) in enumerate(zip(sequence, times, strict=True))
    ]


def test_a_tombstone_has_no_value_and_a_table_without_a_key_no_keys() -> None:
    gone = block(TABLE, SCHEMA, [("+I", {"id": 1, LONG: "a"}), ("-D", {"id": 1, LONG: "a"})])
    assert [sorted(record) for record in records(gone)] == [["key", "value"], ["key", "value"], ["key"]]
    unkeyed = block(TABLE, replace(SCHEMA, primary_key=()), rows(["a"]))
    assert [sorted(record) for record in records(unkeyed)] == [["value"]]


def test_sizes_are_those_of_key_and_value() -> None:
    layout = debezium.layout(TABLE, SCHEMA, Naming("cdc", "1"), EncodingModes(), with_schema=True)
    found = block(TABLE, SCHEMA, [*rows(["a", "bb", '"']), ("-D", {"id": 1, LONG: "a"})])
    (messages,) = Encoder(layout, tombstones=True, now_ms=lambda: 7).encode(found)
    assert messages.sizes.tolist() == [sum(map(len, record.values())) for record in messages.records]
