"""Converts plain Python values to change blocks and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, arrow_schema
from cdc.schema import TableId, TableSchema

Row = dict[str, Any]
_KINDS = {kind.symbol: kind for kind in RowKind}


def block(
    table: TableId, schema: TableSchema, changes: Sequence[tuple[str, Mapping[str, Any]]], *, sequence: int = 1
) -> ChangeBlock:
    """Build a block of row images such as `("+I", {"id": 1})`; missing columns are NULL.

    Image n has the position (sequence, n). Values have the Python types that Arrow converts to the column's type: int,
    str, bytes, Decimal, date, datetime, timedelta, list.
    """
    unknown = {name for _, row in changes for name in row} - set(schema.names)
    if unknown:
        raise ValueError(f"{table} has no column {', '.join(sorted(unknown))}")
    arrow = arrow_schema(schema)
    columns = [pa.array([row.get(field.name) for _, row in changes], field.type) for field in arrow]
    count = len(changes)
    return ChangeBlock(
        table=table,
        schema=schema,
        rows=pa.RecordBatch.from_arrays(columns, schema=arrow),
        kinds=pa.array([_KINDS[symbol] for symbol, _ in changes], pa.uint8()),
        sequence=pa.array([sequence] * count, pa.int64()),
        row=pa.array(range(count), pa.int32()),
        timestamps_ms=pa.array([sequence * 1000] * count, pa.int64()),
    )


def images(blocks: Iterable[ChangeBlock]) -> list[tuple[str, Row]]:
    """Return the row images of blocks, in order, in the form that `block` takes."""
    return [
        (RowKind(kind).symbol, row)
        for item in blocks
        for kind, row in zip(item.kinds.to_pylist(), item.rows.to_pylist(), strict=True)
    ]
