"""Assigns source columns to sink columns, with the Arrow type in which values reach the encoder."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from cdc.block import arrow_type
from cdc.errors import SinkError
from cdc.schema import Column, DataType, Kind, TableSchema
from cdc.types.kinds import BINARIES, INTEGERS, REALS, TEXTS, TIMESTAMPS
from connectors.shared.conversion.target import TargetColumn, TargetKind, TargetTable

WHOLE = {
    TargetKind.TINYINT: 7, TargetKind.SMALLINT: 15, TargetKind.INT: 31, TargetKind.BIGINT: 63, TargetKind.LARGEINT: 127,
}  # fmt: skip
"""Whole-number kinds and their value bits."""

TEXT = frozenset({TargetKind.CHAR, TargetKind.VARCHAR, TargetKind.STRING})
APPROXIMATE = frozenset({TargetKind.FLOAT, TargetKind.DOUBLE})


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The assignment of one column.

    Attributes:
        source: the column of the change blocks.
        target: the column of the sink.
        converted: whether every value is converted to text before the encoder, as the kinds are unrelated.
    """

    source: Column
    target: TargetColumn
    converted: bool

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that reaches the encoder."""
        return pa.string() if self.converted else arrow_type(self.source.type)


def plan_columns(schema: TableSchema, target: TargetTable) -> tuple[ColumnPlan, ...]:
    """Return one plan per source column, in the source's order.

    Raises SinkError for a column missing in the sink's table.
    """
    missing = [name for name in schema.names if not _has(target, name)]
    if missing:
        raise SinkError(
            f"the sink's table has no column {', '.join(missing)}",
            where=str(target.table),
            hint="add it there, or let schema.change.behavior: evolve add it",
        )
    return tuple(
        ColumnPlan(column, found, not _related(column.type, found))
        for column in schema.columns
        for found in (target.column(column.name),)
    )


def _has(target: TargetTable, name: str) -> bool:
    try:
        target.column(name)
    except KeyError:
        return False
    return True


def _related(source: DataType, column: TargetColumn) -> bool:
    """Return whether the sink's column can read the encoder's own text of such a value."""
    kind, target = source.kind, column.kind
    if kind is Kind.GEOMETRY:
        return target is TargetKind.VARBINARY
    if target in TEXT:
        longest = text_bytes(source)
        return longest is None or column.length is None or longest <= column.length
    if target is TargetKind.VARBINARY:
        return kind in TEXTS or kind is Kind.JSON or kind in BINARIES
    if target is TargetKind.JSON:
        return kind is Kind.JSON or kind is Kind.VECTOR or kind in INTEGERS or kind is Kind.BOOLEAN
    if target in WHOLE or target is TargetKind.BOOLEAN:
        return kind in INTEGERS or kind is Kind.BOOLEAN
    if target is TargetKind.DECIMAL:
        return kind in INTEGERS or (kind is Kind.DECIMAL and (source.length or 10) <= 38)
    if target in APPROXIMATE:
        return kind in REALS and not (kind is Kind.DOUBLE and target is TargetKind.FLOAT)
    if target is TargetKind.DATE:
        return kind is Kind.DATE
    return kind in TIMESTAMPS or kind is Kind.DATE


_WIDTHS = {
    Kind.BOOLEAN: 1, Kind.TINYINT: 4, Kind.SMALLINT: 6, Kind.INT: 11, Kind.BIGINT: 20, Kind.TINYINT_UNSIGNED: 3,
    Kind.SMALLINT_UNSIGNED: 5, Kind.INT_UNSIGNED: 10, Kind.BIGINT_UNSIGNED: 20, Kind.FLOAT: 17, Kind.DOUBLE: 24,
    Kind.DATE: 10,
}  # fmt: skip


def text_bytes(source: DataType) -> int | None:
    """Return the maximum text length of a non-string value; None for strings, which are measured."""
    digits = source.length or 0
    if source.kind is Kind.TIME:
        return 11 + digits
    if source.kind in TIMESTAMPS:
        return 20 + digits
    if source.kind is Kind.DECIMAL and (source.length or 10) <= 38:
        return (source.length or 10) + 3
    if source.kind is Kind.VECTOR:
        return (source.length or 16_383) * 18 + 2
    return _WIDTHS.get(source.kind)
