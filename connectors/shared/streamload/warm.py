"""Loads the kernels by encoding two rows; compiles them if no cached code fits this machine."""

from __future__ import annotations

import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from connectors.shared.conversion.fit import Fitter
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable
from connectors.shared.last_image.last_image import images
from connectors.shared.streamload.dialect import DORIS
from connectors.shared.streamload.encode import DelimitedEncoder

_TABLE = TableId("warm", "up")
_SCHEMA = TableSchema(
    (Column("id", DataType(Kind.INT), nullable=False), Column("note", DataType(Kind.STRING))), ("id",)
)
_TARGET = TargetTable(
    _TABLE,
    (TargetColumn("id", TargetKind.INT, nullable=False, is_key=True), TargetColumn("note", TargetKind.STRING)),
    ("id",),
)


def warm() -> int:
    """Choose last images, check and encode; returns the bytes written. Driver or executor; a repeat is free."""
    rows = pa.RecordBatch.from_pylist([{"id": 1, "note": "a"}, {"id": 1, "note": "b"}], arrow_schema(_SCHEMA))
    block = ChangeBlock(
        table=_TABLE,
        schema=_SCHEMA,
        rows=rows,
        kinds=pa.array([RowKind.INSERT, RowKind.DELETE], pa.uint8()),
        sequence=pa.array([1, 2], pa.int64()),
        row=pa.array([0, 0], pa.int32()),
        timestamps_ms=pa.array([0, 0], pa.int64()),
    )
    fitted = Fitter(_SCHEMA, _TARGET, DORIS.limits).check(images(block, _SCHEMA.primary_key))
    return len(DelimitedEncoder(_SCHEMA, _TARGET, DORIS).encode(fitted.rows, fitted.delete))
