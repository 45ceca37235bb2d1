"""The plan by which a result's columns become the same Arrow columns that the log's decoder creates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from cdc.block import arrow_schema
from cdc.errors import SchemaUnknown
from cdc.schema import Kind
from connectors.mysql.kernels import ops
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.column_plan import Finish, RowPlan
from connectors.mysql.snapshot.read.kernels import protocol
from connectors.mysql.snapshot.read.result_stream import ResultColumn
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema
from connectors.shared.sql.text import quoted

_FIXED: Final = {
    "tinyint": (codes.TINY, protocol.INT8, 1, 1),
    "smallint": (codes.SHORT, protocol.INT16, 2, 2),
    "mediumint": (codes.INT24, protocol.INT32, 4, 4),
    "int": (codes.LONG, protocol.INT32, 4, 4),
    "bigint": (codes.LONGLONG, protocol.INT64, 8, 8),
    "float": (codes.FLOAT, protocol.INT32, 4, 4),
    "double": (codes.DOUBLE, protocol.INT64, 8, 8),
    "year": (codes.YEAR, protocol.YEAR, 2, 4),
}
"""Column type -> type code in the result, operation, bytes on the wire, bytes in the block."""
_STAMPS: Final = {
    "date": (codes.DATE, protocol.DATE, 4),
    "time": (codes.TIME_OLD, protocol.TIME, 8),
    "datetime": (codes.DATETIME_OLD, protocol.MOMENT, 8),
    "timestamp": (codes.TIMESTAMP_OLD, protocol.MOMENT, 8),
}
_STRINGS: Final = frozenset(
    {
        codes.VARCHAR, codes.VECTOR, codes.JSON, codes.ENUM, codes.SET, codes.TINY_BLOB, codes.MEDIUM_BLOB,
        codes.LONG_BLOB, codes.BLOB, codes.VAR_STRING, codes.STRING, codes.GEOMETRY,
    }
)  # fmt: skip
_TEXT: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})


def select_from(table: MySqlTable, where: str = "", *, versions: bool = False) -> str:
    """Return a SELECT of all columns in table order, also invisible and generated ones, without any conversion.

    `versions`: include past row versions that the server keeps.
    """
    columns = ", ".join(quoted(column.name) for column in table.columns)
    name = quoted(table.id.database, table.id.table) + (" FOR SYSTEM_TIME ALL" if versions else "")
    return f"SELECT {columns} FROM {name}" + (f" WHERE {where}" if where else "")


def result_plan(
    table: MySqlTable, columns: Sequence[ResultColumn], *, where: str, tinyint1_as_boolean: bool
) -> RowPlan:
    """Return the plan for rows of `select_from`. Raises SchemaUnknown when the result has other columns."""
    if len(columns) != len(table.columns):
        raise _does_not_fit(f"the result has {len(columns)} columns, the definition {len(table.columns)}", where)
    schema = table_schema(table, tinyint1_as_boolean=tinyint1_as_boolean)
    numbers = np.zeros(len(columns), ops.COLUMN)
    finish: list[Finish | None] = []
    for index, (column, found) in enumerate(zip(table.columns, columns, strict=True)):
        as_boolean = schema.columns[index].type.kind is Kind.BOOLEAN
        for field, value in _operation(column, found, as_boolean=as_boolean, where=where).items():
            numbers[field][index] = value
        finish.append(Finish(charset=column.charset or "utf8mb4") if column.type in _TEXT else None)
    arrow = arrow_schema(schema)
    raw = tuple(kind if left is None else pa.binary() for kind, left in zip(arrow.types, finish, strict=True))
    nothing = np.zeros(1, np.int64)
    return RowPlan(table, schema, arrow, numbers, nothing, np.zeros(1, np.uint8), 0, raw, tuple(finish))


def _operation(column: MySqlColumn, found: ResultColumn, *, as_boolean: bool, where: str) -> dict[str, int]:
    """Return the fields of the column's ops.COLUMN record."""
    kind = column.type
    expected = _FIXED.get(kind) or _STAMPS.get(kind)
    expected_code = {"decimal": codes.NEWDECIMAL, "bit": codes.BIT}.get(kind) if expected is None else expected[0]
    fits = found.type in _STRINGS if expected_code is None else found.type == expected_code
    integer = kind in _FIXED and kind not in ("float", "double", "year")
    if not fits or (integer and found.unsigned != column.unsigned):
        sign = "unsigned " if found.unsigned else ""
        raise _does_not_fit(f"column {column.name} {kind}: the result has {sign}type code {found.type} there", where)
    if kind in _FIXED:
        _, op, need, width = _FIXED[kind]
        op = protocol.YEAR2 if kind == "year" and found.width == 2 else op
        return _op(protocol.BOOLEAN, need=need, width=ops.BITS_OUT) if as_boolean else _op(op, need=need, width=width)
    if kind in _STAMPS:
        return _op(_STAMPS[kind][1], width=_STAMPS[kind][2])
    if kind == "decimal":
        precision, scale = 10 if column.length is None else column.length, column.scale or 0
        if precision > 38:
            return _op(protocol.DECIMAL_TEXT, c=scale, width=ops.BYTES_OUT, growth=68)
        return _op(protocol.DECIMAL64 if precision <= 18 else protocol.DECIMAL128, c=scale, width=16)
    if kind == "bit":
        size = ((column.length or 1) + 7) // 8
        if as_boolean:
            return _op(protocol.BIT, width=ops.BITS_OUT)
        return _op(protocol.BITS, b=size, width=ops.BYTES_OUT, growth=size, ratio=1)
    if kind == "vector":
        return _op(protocol.FLOATS, width=ops.FLOATS_OUT, ratio=1)
    return _op(protocol.BYTES, width=ops.BYTES_OUT, ratio=1)


def _op(
    op: int, *, need: int = 0, b: int = 0, c: int = 0, width: int, growth: int = 0, ratio: int = 0
) -> dict[str, int]:
    return {"op": op, "need": need, "b": b, "c": c, "width": width, "growth": growth, "ratio": ratio}


def _does_not_fit(message: str, where: str) -> SchemaUnknown:
    return SchemaUnknown(message, where=where, hint="the table was changed while it was read; the chunk is read again")
