"""Converts rows of a change block to the columns of a lake table: by name, in the table's order and Arrow types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc.errors import SinkError
from cdc.schema import TableId, TableSchema
from cdc.types.text import decimals, spans

_DAY = 86_400_000_000
_SAMPLE = 1_000
"""Rows of a file that are sampled for repeating values."""
_DIGITS = 76
"""Digits of Arrow's longest decimal."""
_REPEAT = 990
"""Below this number of distinct values in the sample, the column has about 50,000 at most."""


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of the table: its name, its type as the lake spells it, and whether it is nullable.

    `arrow` is the Arrow type of values written to it; None for an unsupported type.
    """

    name: str
    type: str
    nullable: bool
    arrow: pa.DataType | None


def check_columns(table: TableId, schema: TableSchema, columns: Sequence[LakeColumn]) -> None:
    """Raise SinkError when the table lacks a column of the rows, requires another one, or has an unsupported type."""
    there = {column.name.casefold() for column in columns}
    missing = [name for name in schema.names if name.casefold() not in there]
    if missing:
        hint = "add it there, or let schema.change.behavior: evolve add it"
        raise SinkError(f"the table has no column {', '.join(missing)}", where=str(table), hint=hint)
    given = {name.casefold() for name in schema.names}
    required = [column.name for column in columns if not column.nullable and column.name.casefold() not in given]
    if required:
        reason = f"column {', '.join(required)} is NOT NULL in the table, and the source has no such column"
        raise SinkError(reason, where=str(table), hint="let it be NULL there, or drop it there")
    for column in columns:
        if column.arrow is None:
            hint = "drop the column, or route the rows to another table"
            raise SinkError(f"column {column.name}: {column.type} is not written", where=str(table), hint=hint)


def as_stored(table: TableId, rows: pa.RecordBatch, columns: Sequence[LakeColumn]) -> pa.RecordBatch:
    """Return the rows with the table's columns, in its order and types; a column missing in the rows is NULL.

    Raises SinkError for a value that a column cannot hold, because its type differs from the source's.
    """
    places = {name.casefold(): place for place, name in enumerate(rows.schema.names)}
    arrays, fields = [], []
    for column in columns:
        wanted = column.arrow
        place = places.get(column.name.casefold())
        values = pa.nulls(rows.num_rows, wanted) if place is None else rows.column(place)
        try:
            arrays.append(converted(values, wanted))
        except pa.ArrowException as error:
            reason = f"a value does not fit into {column.name} {column.type}: {error}"
            hint = "`cdc resync` recreates the table with the source's types"
            raise SinkError(reason, where=str(table), hint=hint) from error
        if not column.nullable and arrays[-1].null_count:
            reason = f"a value of {column.name} is NULL (zero dates become NULL), which a key, or the table, excludes"
            hint = (
                "correct it at the source, exclude the table (tables.exclude) for the run that comes past it, then "
                "take it in again; a partition column is best NOT NULL there, and a column outside the key nullable in "
                "the table"
            )
            raise SinkError(reason, where=str(table), hint=hint)
        fields.append(pa.field(column.name, wanted, column.nullable))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def converted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert values to another Arrow type, each unchanged. Raises pa.ArrowInvalid for one that does not fit."""
    if values.type == wanted:
        return values
    if pa.types.is_duration(values.type):
        return _span_text(values) if pa.types.is_string(wanted) else pc.cast(values.view(pa.int64()), wanted)
    if pa.types.is_list(values.type):
        return pc.cast(values, wanted)
    if pa.types.is_string(wanted) and pa.types.is_binary(values.type):
        raise pa.ArrowInvalid("bytes are no text")
    if pa.types.is_string(wanted) and pa.types.is_floating(values.type):
        return pa.array([None if value is None else repr(value) for value in values.to_pylist()], wanted)
    if pa.types.is_string(wanted) and pa.types.is_decimal(values.type):
        return decimals(values)
    if pa.types.is_decimal(wanted) and pa.types.is_integer(values.type):
        # Arrow refuses by the digits that a type allows, not by those of the values.
        return values.cast(pa.decimal256(_DIGITS, wanted.scale)).cast(wanted)
    return pc.cast(values, wanted)


def has_nan(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a column of floating point numbers has a NaN."""
    return bool(pc.any(pc.is_nan(values)).as_py())


def repeating_columns(rows: pa.Table) -> bool | list[str]:
    """Return the columns of a Parquet file whose values repeat, True for all.

    For the others, such as a key, a dictionary costs time and space; nested columns are counted among these.
    """
    if rows.num_rows < _SAMPLE:
        return True
    flat = [column.name for column in rows.schema if not pa.types.is_nested(column.type)]
    some = rows.select(flat).take(np.linspace(0, rows.num_rows - 1, _SAMPLE, dtype=np.int64))
    return [name for name in flat if pc.count_distinct(some[name]).as_py() < _REPEAT]


def _span_text(values: pa.Array) -> pa.Array:
    """Format TIME values like MySQL: `-838:59:59`; with a fraction of six digits if there is one."""
    return pc.replace_substring_regex(spans(values), r"\.0+$", "")
