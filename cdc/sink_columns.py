"""Converts blocks to the columns of their sink table: missing columns are NULL, other types are cast. Executor.

Columns are matched by case-insensitive name, and values converted per Arrow column. A column that already has the
sink's type is not converted. Values that the sink's type cannot hold fail the task, or become NULL and are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from cdc.block import ChangeBlock, arrow_schema, arrow_type
from cdc.errors import SinkError
from cdc.evolution.merge import column_index
from cdc.route import Target
from cdc.schema import TableSchema
from cdc.source import Count
from cdc.tables.sinks import with_shard
from cdc.types.casts import Cast, cast_for


@dataclass(frozen=True, slots=True)
class _Step:
    """One column of the sink: the index of the source's column, or None, and the cast of its values, or None."""

    source: int | None
    cast: Cast | None


@dataclass(frozen=True, slots=True)
class Coercion:
    """Converts blocks from the columns of one schema to those of another.

    Attributes:
        lost: what to do with a value that does not fit: `fail` or `null`.
        zone: time zone for conversions between wall-clock times and instants.
    """

    lost: str = "fail"
    zone: str = "UTC"

    def __call__(self, block: ChangeBlock, sink: TableSchema, count: Count) -> ChangeBlock:
        """Return the block with the sink's columns. Counts values that are lost or have no column.

        Raises SinkError for a value that does not fit, with `lost` fail or in a key column.
        """
        if block.schema is sink:
            return block
        schema = _with_source_types(sink, block.schema, block.schema.own_types)
        if block.schema.columns == sink.columns:
            return replace(block, schema=schema)
        steps, unfit = _steps(block.schema, sink, self.zone)
        columns = [self._column(block, sink, index, step, count) for index, step in enumerate(steps)]
        for index in unfit:
            values = block.rows.column(index)
            if len(values) > values.null_count:
                name = block.schema.columns[index].name
                count(f"no-column-in-sink {block.table}.{name}", len(values) - values.null_count)
        rows = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(sink))
        return replace(block, schema=schema, rows=rows)

    def _column(self, block: ChangeBlock, sink: TableSchema, index: int, step: _Step, count: Count) -> pa.Array:
        if step.source is None:
            return pa.nulls(len(block), arrow_type(sink.columns[index].type))
        values = block.rows.column(step.source)
        if step.cast is None:
            return values
        try:
            return step.cast(values)
        except (pa.ArrowException, ValueError, ArithmeticError):
            return self._without_lost(block, sink, index, values, step.cast, count)

    def _without_lost(
        self, block: ChangeBlock, sink: TableSchema, index: int, values: pa.Array, cast: Cast, count: Count
    ) -> pa.Array:
        arrays: list[pa.Array] = []
        lost = _by_halves(values, cast, arrow_type(sink.columns[index].type), 0, arrays)
        column = sink.columns[index]
        if self.lost == "fail" or column.name in sink.primary_key:
            raise _does_not_fit(block, sink, index, values, lost[0])
        count(f"does-not-fit-to-null {block.table}.{column.name}", len(lost))
        return pa.concat_arrays(arrays)


def _by_halves(values: pa.Array, cast: Cast, target: pa.DataType, start: int, arrays: list[pa.Array]) -> list[int]:
    """Cast what can be cast, with NULL for the other values; return the indexes of the others, counted from `start`."""
    try:
        arrays.append(cast(values))
        return []
    except (pa.ArrowException, ValueError, ArithmeticError):
        if len(values) == 1:
            arrays.append(pa.nulls(1, target))
            return [start]
        middle = len(values) // 2
        return [
            *_by_halves(values.slice(0, middle), cast, target, start, arrays),
            *_by_halves(values.slice(middle), cast, target, start + middle, arrays),
        ]


def _does_not_fit(block: ChangeBlock, sink: TableSchema, index: int, values: pa.Array, row: int) -> SinkError:
    column = sink.columns[index]
    key = ", ".join(f"{name}={_value_text(block, name, row)}" for name in sink.primary_key)
    source = block.schema.columns[column_index(block.schema, column.name) or 0]
    shown: Any = values[row]
    return SinkError(
        f"{shown.as_py()!r:.80} of {source.type} does not fit the sink's {column.type}"
        + (f" (row with {key})" if key else ""),
        where=" ".join(
            filter(None, (f"{block.table}.{column.name}", block.position_text(block.sequence[row].as_py())))
        ),
        hint="let the column be widened (schema.change.behavior: evolve or lenient), or write "
        "schema.change.lost-values: null to send NULL and count such values",
    )


def _value_text(block: ChangeBlock, name: str, row: int) -> str:
    at = column_index(block.schema, name)
    value: Any = None if at is None else block.rows.column(at)[row]
    return "NULL" if value is None else f"{value.as_py()!r:.80}"


@lru_cache(maxsize=4096)
def _with_source_types(sink: TableSchema, source: TableSchema, own: tuple[tuple[str, str], ...]) -> TableSchema:
    """Return the sink's schema with the source's `own` type of each column that has the same type here."""
    columns = []
    for column in sink.columns:
        at = column_index(source, column.name)
        same = at is not None and source.columns[at].type == column.type
        columns.append(replace(column, source_type=own[at][0] if at is not None and same else ""))
    return replace(sink, columns=tuple(columns))


@lru_cache(maxsize=4096)
def _steps(source: TableSchema, sink: TableSchema, zone: str) -> tuple[tuple[_Step, ...], tuple[int, ...]]:
    """Return the steps for the sink's columns, and the indexes of source columns that the sink lacks."""
    steps, used = [], set[int]()
    for column in sink.columns:
        at = column_index(source, column.name)
        used |= set() if at is None else {at}
        cast: Callable[[pa.Array], pa.Array] | None = None
        if at is not None:
            cast = cast_for(source.columns[at].type, column.type, zone)
        steps.append(_Step(at, cast))
    return tuple(steps), tuple(index for index in range(len(source.columns)) if index not in used)


def with_source(block: ChangeBlock, target: Target) -> ChangeBlock:
    """Add the target's shard column, with the source table's id, to the block; return it unchanged without one.

    The shard column of a merged sink table identifies the source table of each row.
    """
    if target.shard_column is None:
        return block
    name, schema = str(block.table), with_shard(block.schema, target)
    values = pa.repeat(pa.scalar(name), len(block))
    columns, index = list(block.rows.columns), schema.names.index(target.shard_column)
    rows = pa.RecordBatch.from_arrays([*columns[:index], values, *columns[index:]], names=list(schema.names))
    return replace(block, schema=schema, rows=rows)
