"""Derives, from a TABLE_MAP and the table's definition, a plan: one record of numbers per column for the row kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.block import arrow_schema
from cdc.errors import UnsupportedChange
from cdc.schema import Kind, TableSchema
from connectors.mysql.kernels import ops
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.definition_check import check_definition, hidden_columns
from connectors.mysql.rows.table_map import TableMapEvent
from connectors.mysql.table import MySqlColumn, MySqlTable, table_schema

_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_FIXED: dict[int, tuple[int, int, int]] = {
    codes.TINY: (ops.INT8, 1, 1),
    codes.SHORT: (ops.INT16, 2, 2),
    codes.LONG: (ops.INT32, 4, 4),
    codes.LONGLONG: (ops.INT64, 8, 8),
    codes.FLOAT: (ops.INT32, 4, 4),
    codes.DOUBLE: (ops.INT64, 8, 8),
    codes.YEAR: (ops.YEAR, 1, 4),
    codes.DATE: (ops.DATE, 3, 4),
    codes.NEWDATE: (ops.DATE, 3, 4),
    codes.TIME_OLD: (ops.TIME_OLD, 3, 8),
    codes.DATETIME_OLD: (ops.DATETIME_OLD, 8, 8),
    codes.TIMESTAMP_OLD: (ops.TIMESTAMP_OLD, 4, 8),
}
_FRACTIONAL: dict[int, tuple[int, int]] = {
    codes.TIME2: (ops.TIME2, 3),
    codes.DATETIME2: (ops.DATETIME2, 5),
    codes.TIMESTAMP2: (ops.TIMESTAMP2, 4),
}
Op = dict[str, int]
"""Fields of an ops.COLUMN record."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The steps for a column's bytes after the kernel: `inflate`, `inet4`, `inet6`, or nothing; then the charset.

    `charset` is the charset of text, which is converted to UTF-8, or validated if it is UTF-8 already.
    """

    step: str = ""
    charset: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RowPlan:
    """The plan by which one table's row images become columns.

    Attributes:
        table: the definition it was made from.
        schema: the schema that the sink sees.
        arrow: Arrow schema of a block's rows.
        numbers: ops.COLUMN[columns], followed by the kernel; addresses are zero. Hidden columns are at its end.
        labels: int64[labels + 1], offsets in `text` of the labels of all ENUM and SET columns.
        text: uint8, the labels in UTF-8.
        json_columns: number of binary JSON columns.
        raw: Arrow types of the kernel's own output, per column.
        finish: remaining steps after the kernel, per column; None for none.
    """

    table: MySqlTable
    schema: TableSchema
    arrow: pa.Schema
    numbers: npt.NDArray[np.void]
    labels: npt.NDArray[np.int64]
    text: npt.NDArray[np.uint8]
    json_columns: int
    raw: tuple[Any, ...]
    finish: tuple[Finish | None, ...]


def plan_table(
    table: MySqlTable,
    found: TableMapEvent,
    charsets: Sequence[str | None],
    *,
    where: str,
    tinyint1_as_boolean: bool = False,
    mariadb: bool = False,
) -> RowPlan:
    """Return the plan for rows announced by `found`, of a table defined as `table`.

    Args:
        charsets: per column, the charset of its text; None if unknown, which means UTF-8, or if it is not text.
        where: table and position, for errors.
        mariadb: the log is MariaDB's, whose rows may have hidden hashes at their end.

    Raises:
        SchemaUnknown: the two do not fit: number of columns, a type, precision, sign or name.
        UnsupportedChange: a storage form that this tool does not read.
    """
    hidden = hidden_columns(found, len(table.columns), mariadb=mariadb)
    check_definition(table, found, len(found.types) - hidden, where)
    schema = table_schema(table, tinyint1_as_boolean=tinyint1_as_boolean)
    numbers = np.zeros(len(found.types), ops.COLUMN)
    labels: list[bytes] = []
    json_columns = 0
    finish: list[Finish | None] = []
    for index, column in enumerate(table.columns):
        code, metadata = found.types[index], found.metadata[index]
        as_boolean = schema.columns[index].type.kind is Kind.BOOLEAN
        op = _operation(column, code, metadata, as_boolean=as_boolean, where=where)
        for field, value in op.items():
            numbers[field][index] = value
        if op["op"] in (ops.ENUM, ops.SET):
            numbers["b"][index], numbers["c"][index] = len(labels), len(column.labels)
            numbers["growth"][index] = _label_room(column)
            labels += [label.encode() for label in column.labels]
        if op["op"] == ops.JSON:
            numbers["b"][index] = json_columns
            json_columns += 1
        finish.append(_finish(column, code, charsets[index]))
    for index in range(len(table.columns), len(found.types)):
        for field, value in _op(*_FIXED[codes.LONGLONG][:2], width=8).items():
            numbers[field][index] = value
    ends = np.cumsum([0, *map(len, labels)], dtype=np.int64)
    text = np.frombuffer(b"".join(labels) or b"\0", np.uint8).copy()
    arrow = arrow_schema(schema)
    raw = tuple(kind if left is None else pa.binary() for kind, left in zip(arrow.types, finish, strict=True))
    return RowPlan(table, schema, arrow, numbers, ends, text, json_columns, raw, tuple(finish))


def _operation(column: MySqlColumn, code: int, metadata: int, *, as_boolean: bool, where: str) -> Op:
    """Return one record of the plan; the caller adds labels and JSON ordinals."""
    if as_boolean:
        return _op(ops.BOOLEAN, 1, width=ops.BITS_OUT)
    if code == codes.INT24:
        return _op(ops.UINT24 if column.unsigned else ops.INT24, 3, width=4)
    if code in (codes.TIME_OLD, codes.DATETIME_OLD, codes.TIMESTAMP_OLD) and column.length:
        raise UnsupportedChange(
            f"column {column.name} is stored in MariaDB's own format for fractional seconds",
            where=where,
            hint="on the source: SET GLOBAL mysql56_temporal_format=ON, then ALTER TABLE ... FORCE",
        )
    if code in _FIXED:
        op, need, width = _FIXED[code]
        return _op(op, need, width=width)
    if code in _FRACTIONAL:
        op, need = _FRACTIONAL[code]
        fraction = (metadata + 1) // 2
        return _op(op, need + fraction, a=fraction, width=8)
    if code == codes.NEWDECIMAL:
        return _decimal(metadata >> 8, metadata & 255)
    if code == codes.BIT:
        size = (metadata + 7) // 8
        return _op(ops.BITS, size, width=ops.BYTES_OUT, ratio=1)
    if code in (codes.ENUM, codes.SET):
        return _op(ops.ENUM if code == codes.ENUM else ops.SET, metadata, width=ops.BYTES_OUT)
    if code == codes.JSON:
        return _op(ops.JSON, metadata, width=ops.BYTES_OUT, growth=128, ratio=6)
    if code == codes.TYPED_ARRAY:
        raise UnsupportedChange(
            f"column {column.name} is an array of a functional index, which has no place in a row", where=where
        )
    return _sized(column, code, metadata)


def _sized(column: MySqlColumn, code: int, metadata: int) -> Op:
    """Return the record of values with a preceding length field."""
    if code in (codes.VARCHAR, codes.VAR_STRING, codes.VARCHAR_COMPRESSED, codes.STRING):
        need = 2 if metadata > 255 else 1
    else:
        need = {codes.TINY_BLOB: 1, codes.MEDIUM_BLOB: 3, codes.LONG_BLOB: 4}.get(code, metadata)
    if column.type == "vector":
        return _op(ops.VECTOR, need, width=ops.FLOATS_OUT, ratio=1)
    if column.type == "uuid":
        return _op(ops.UUID, need, width=ops.BYTES_OUT, growth=36)
    pad = metadata if code == codes.STRING and column.type != "char" else 0
    return _op(ops.BYTES, need, b=pad, width=ops.BYTES_OUT, growth=pad, ratio=1)


def _op(
    op: int, need: int, *, a: int = 0, b: int = 0, c: int = 0, d: int = 0, width: int, growth: int = 0, ratio: int = 0
) -> Op:
    return {"op": op, "need": need, "a": a, "b": b, "c": c, "d": d, "width": width, "growth": growth, "ratio": ratio}


def _decimal(precision: int, scale: int) -> Op:
    whole = precision - scale
    groups = (whole % 9, whole // 9, scale // 9, scale % 9)
    size = (groups[0] + 1) // 2 + 4 * (groups[1] + groups[2]) + (groups[3] + 1) // 2
    if precision <= 38:
        op, width, growth = ops.DECIMAL64 if precision <= 18 else ops.DECIMAL128, 16, 0
    else:
        op, width, growth = ops.DECIMAL_TEXT, ops.BYTES_OUT, 68
    return _op(op, size, a=groups[0], b=groups[1], c=groups[2], d=groups[3], width=width, growth=growth)


def _label_room(column: MySqlColumn) -> int:
    sizes = [len(label.encode()) + 1 for label in column.labels] or [0]
    return sum(sizes) if column.type == "set" else max(sizes)


def _finish(column: MySqlColumn, code: int, charset: str | None) -> Finish | None:
    step = column.type if column.type in ("inet4", "inet6") else ""
    if code in (codes.VARCHAR_COMPRESSED, codes.BLOB_COMPRESSED):
        step = "inflate"
    charset = (charset or "utf8mb4") if column.type in _TEXT else None
    return Finish(step, charset) if step or charset else None
