"""Builds the engine's input from a block: the columns that an expression reads, and hidden ones about row and batch."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind, arrow_type
from cdc.schema import Kind, TableSchema
from cdc.transform.catalogue.time import NOW

_LTZ = pa.timestamp("us", tz="UTC")
_HIDDEN: dict[str, pa.DataType] = {
    "__row": pa.int32(),
    NOW: _LTZ,
    "__source_table": pa.string(),
    "__sequence": pa.int64(),
    "__image": pa.int32(),
    "__namespace_name__": pa.string(),
    "__schema_name__": pa.string(),
    "__table_name__": pa.string(),
    "__data_event_type__": pa.string(),
    "op_ts": pa.int64(),
    "sequence": pa.int64(),
}
_OF_SOURCE: dict[str, pa.DataType] = {
    "binlog_file": pa.string(), "binlog_pos": pa.int64(), "server_id": pa.int64(), "gtid": pa.string(),
}  # fmt: skip
_HIDDEN |= _OF_SOURCE
OF_CHANGE = frozenset({NOW, "__sequence", "__image", "__data_event_type__", "op_ts", "sequence", *_OF_SOURCE})
"""Hidden columns that describe the change or the batch of a row, not the row."""

OF_TABLE = frozenset({"__namespace_name__", "__schema_name__", "__table_name__"})
"""Hidden columns with the table's name."""


class BadText(Exception):
    """A text value that is not UTF-8; `row` is its number in the block."""

    def __init__(self, column: str, row: int) -> None:
        super().__init__(f"the value is not UTF-8 text in column {column}")
        self.column, self.row = column, row


def engine_schema(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of the engine's input; columns are named c0, c1, ..., except `__row`."""
    known = {column.name: column.type for column in schema.columns}
    fields = []
    for number, name in enumerate(names):
        if name in known:
            kind = pa.int64() if known[name].kind is Kind.TIME else arrow_type(known[name])
            fields.append(pa.field(f"c{number}", kind))
        else:
            fields.append(pa.field(name if name == "__row" else f"c{number}", _HIDDEN[name]))
    return pa.schema(fields)


def engine_names(names: Sequence[str]) -> dict[str, str]:
    """Return each column's name in the engine's SQL."""
    return {name: '"__row"' if name == "__row" else f"c{number}" for number, name in enumerate(names)}


def engine_batch(
    block: ChangeBlock, names: Sequence[str], schema: pa.Schema, now: datetime.datetime, *, namespaces: bool = False
) -> pa.RecordBatch:
    """Return the engine's input for a block. Raises BadText: text that is not UTF-8 would crash the engine."""
    known = {column.name: number for number, column in enumerate(block.schema.columns)}
    arrays = []
    for field, name in zip(schema, names, strict=True):
        if name not in known:
            arrays.append(hidden(block, name, now, namespaces=namespaces))
            continue
        array = block.rows.column(known[name])
        if pa.types.is_duration(array.type):
            array = array.view(pa.int64())
        if pa.types.is_string(field.type):
            _check_text(array, name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def hidden(block: ChangeBlock, name: str, now: datetime.datetime, *, namespaces: bool = False) -> pa.Array:
    """Return a hidden column: metadata, the row's number, the batch's time.

    `namespaces` is whether the table's id may be `namespace.schema.table`.
    """
    count = len(block)
    if name == "__row":
        return pa.array(np.arange(count, dtype=np.int32))
    if name == NOW:
        moment = now.astimezone(datetime.UTC)
        return pa.repeat(pa.scalar(moment.replace(microsecond=moment.microsecond // 1000 * 1000), _LTZ), count)
    if name == "__data_event_type__":
        return pa.array([kind.symbol for kind in RowKind]).take(block.kinds)
    if name in ("__sequence", "sequence"):
        return block.sequence
    if name == "__image":
        return block.row
    if name == "op_ts":
        return block.timestamps_ms
    if name in _OF_SOURCE:
        kind = _OF_SOURCE[name]
        return pa.nulls(count, kind) if block.metadata is None else block.metadata(name, block.sequence)
    namespace, schema, table = block.table.names(namespaces=namespaces)
    text = {
        "__table_name__": table, "__schema_name__": schema, "__namespace_name__": namespace,
        "__source_table": str(block.table),
    }[name]  # fmt: skip
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _check_text(array: pa.Array, name: str) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for row in range(len(array)):
            try:
                array.slice(row, 1).validate(full=True)
            except pa.ArrowInvalid as error:
                raise BadText(name, row) from error
        raise
