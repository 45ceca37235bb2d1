"""Rows as plain JSON, where no recording says what they are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc.block import ChangeBlock
from cdc.errors import SinkError
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.testing.blocks import block
from connectors.kafka.encoding import maxwell
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.layout import Layout

TABLE = TableId("shop", "orders")
SCHEMA = TableSchema(
    (Column("id", DataType(Kind.INT), False), Column("doc", DataType(Kind.JSON), source_type="json")), ("id",)
)


def written(layout: Layout, found: ChangeBlock) -> list[tuple[Any, Any]]:
    """Key and value of each message."""
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 0)
    return [
        (key and json.loads(key), value and json.loads(value))
        for messages in encoder.encode(found)
        for key, value in zip(messages.keys, messages.values, strict=True)
    ]


def test_rows_of_a_snapshot_are_maxwells_bootstrap() -> None:
    found = replace(block(TABLE, SCHEMA, [("+I", {"id": 1, "doc": '{"a": [1]}'})]), snapshot=True)
    ((key, value),) = written(maxwell.layout(TABLE, SCHEMA), found)
    assert key == {"database": "shop", "table": "orders", "pk.id": 1}
    assert (value["type"], value["data"]) == ("bootstrap-insert", {"id": 1, "doc": {"a": [1]}})


def test_bytes_that_are_no_shape_stop_the_run_with_the_columns_name() -> None:
    schema = TableSchema((Column("id", DataType(Kind.INT), False), Column("at", DataType(Kind.GEOMETRY))), ("id",))
    found = block(TABLE, schema, [("+I", {"id": 1, "at": b"\0\0\0\0\1"})])
    with pytest.raises(SinkError, match="column at GEOMETRY: 5 bytes that are no shape"):
        written(maxwell.layout(TABLE, schema), found)
