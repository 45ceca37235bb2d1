"""Merges the schemas of several tables into one with the widest type of each column. Pure.

A column that is missing or nullable in one of the tables is nullable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc.errors import first_of
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.types.common import common_type

_NAMED = 3


def column_index(schema: TableSchema, name: str) -> int | None:
    """Return the index of a column by case-insensitive name; None when it is missing."""
    if name in schema.names:
        return schema.names.index(name)
    folded = name.casefold()
    return next((index for index, existing in enumerate(schema.names) if existing.casefold() == folded), None)


def find(schema: TableSchema, name: str) -> Column | None:
    """Return a column by case-insensitive name; None when it is missing."""
    at = column_index(schema, name)
    return None if at is None else schema.columns[at]


def merge_schemas(sink: TableSchema, source: TableSchema) -> TableSchema:
    """Return the schema that holds the rows of both: the sink's columns in their order, then those only in the source.

    Names are case-insensitive; the sink's spelling, key, comment and defaults stay. A column keeps the source's own
    type only where both have the same: a different ENUM would not hold the labels of the first.
    """
    columns = [_wider(column, find(source, column.name)) for column in sink.columns]
    columns += [replace(column, nullable=True) for column in source.columns if column_index(sink, column.name) is None]
    return replace(sink, columns=tuple(columns))


def without_defaults(new: TableSchema, existing: TableSchema, added: str = "") -> TableSchema:
    """Return the merged schema without the defaults of new columns, except the one that was `added`.

    The sink would write these defaults to rows of other tables, which have no value there.
    """
    names = {added.casefold(), *(name.casefold() for name in existing.names)}
    columns = (column if column.name.casefold() in names else replace(column, default=None) for column in new.columns)
    return replace(new, columns=tuple(columns))


def _wider(sink: Column, source: Column | None) -> Column:
    if source is None:
        return replace(sink, nullable=True)
    own = {} if sink.source_type == source.source_type else {"source_type": ""}
    wider = common_type(sink.type, source.type)
    return replace(sink, type=wider, nullable=sink.nullable or source.nullable, **own)


def same_key(left: TableSchema, right: TableSchema) -> bool:
    """Whether two tables have the same key columns, ignoring order and case."""
    return {name.casefold() for name in left.primary_key} == {name.casefold() for name in right.primary_key}


def missing_columns(table: TableSchema, wanted: TableSchema) -> tuple[str, ...]:
    """Return the columns of `wanted` that a table lacks, by case-insensitive name."""
    existing = {name.casefold() for name in table.names}
    return tuple(name for name in wanted.names if name.casefold() not in existing)


def fits_exactly(rows: TableSchema, sink: TableSchema) -> bool:
    """Whether rows have a table's key and all its NOT NULL columns, and no column that it lacks.

    Column order does not matter: a column that is moved in the source stays in place in the sink. Nor do missing
    nullable columns of the sink's table: an earlier behavior may have kept them (`lenient`).
    """
    if sink is rows:
        return True
    left_out = missing_columns(rows, sink)
    required = any(not column.nullable and column.name in left_out for column in sink.columns)
    return same_key(sink, rows) and not required and not missing_columns(sink, rows)


@dataclass(frozen=True, slots=True)
class TableMerge:
    """The merged schema of several tables.

    Attributes:
        schema: the merged schema.
        why: the reason for a column's type, by name, for columns that differ between tables.
    """

    schema: TableSchema
    why: Mapping[str, str] = field(default_factory=dict)


def merge_all(tables: Mapping[TableId, TableSchema]) -> TableMerge:
    """Merge the schemas of at least one table, in order, into one that holds the rows of all."""
    first, *others = tables.values()
    schema = first
    for other in dict.fromkeys(others):
        schema = merge_schemas(schema, other)
    why = {column.name: text for column in schema.columns if (text := _difference_text(column, tables))}
    return TableMerge(schema, why)


def _difference_text(column: Column, tables: Mapping[TableId, TableSchema]) -> str:
    types: dict[DataType, list[TableId]] = {}
    missing: list[TableId] = []
    for table, schema in tables.items():
        found = find(schema, column.name)
        if found is None:
            missing.append(table)
        else:
            types.setdefault(found.type, []).append(table)
    parts = []
    if len(types) > 1:
        parts.append(" and ".join(f"{data_type} in {first_of(having, _NAMED)}" for data_type, having in types.items()))
    if missing:
        parts.append(f"NULL for {first_of(missing, _NAMED)}, which lacks it" if len(missing) == 1 else
                     f"NULL for {first_of(missing, _NAMED)}, which lack it")  # fmt: skip
    return "; ".join(parts)
