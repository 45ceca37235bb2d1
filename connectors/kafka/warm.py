"""Load the kernels by encoding two rows; this compiles them if no cached code fits the machine."""

from __future__ import annotations

import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from connectors.kafka.encoding import debezium
from connectors.kafka.encoding.encoder import Encoder
from connectors.kafka.encoding.layout import Naming
from connectors.kafka.modes import EncodingModes

_TABLE = TableId("warm", "up")
_SCHEMA = TableSchema(
    (Column("id", DataType(Kind.INT), nullable=False), Column("note", DataType(Kind.STRING))), ("id",)
)


def warm() -> int:
    """Encode an update; return the number of messages. Driver or executor; repeating it costs nothing."""
    block = ChangeBlock(
        table=_TABLE,
        schema=_SCHEMA,
        rows=pa.RecordBatch.from_pylist([{"id": 1, "note": "a"}, {"id": 1, "note": "b"}], arrow_schema(_SCHEMA)),
        kinds=pa.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], pa.uint8()),
        sequence=pa.array([1, 1], pa.int64()),
        row=pa.array([0, 1], pa.int32()),
        timestamps_ms=pa.array([0, 0], pa.int64()),
    )
    layout = debezium.layout(_TABLE, _SCHEMA, Naming("cdc", ""), EncodingModes(), with_schema=False)
    encoder = Encoder(layout, tombstones=True, now_ms=lambda: 0)
    return sum(len(messages) for messages in encoder.encode(block))
