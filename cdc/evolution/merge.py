"""One schema that holds the rows of several tables: the widest type of each column. Pure.

A column that one of the tables lacks, or that is nullable in one,
is nullable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc.errors import first_of
from cdc.schema import Column, DataType, TableId, TableSchema
from cdc.types.common import common_type

_NAMED = 3


def column_index(schema: TableSchema, name: str) -> int | None:
    """Where a column is in a schema, whatever the case of its name; None when it is not."""
    if name in schema.names:
        return schema.names.index(name)
    folded = name.casefold()
    return next((index for index, there in enumerate(schema.names) if there.casefold() == folded), None)


def find(schema: TableSchema, name: str) -> Column | None:
    """The column of that name, whatever its case; None when there is none."""
    at = column_index(schema, name)
    return None if at is None else schema.columns[at]


def merge_schemas(sink: TableSchema, source: TableSchema) -> TableSchema:
    """The schema that holds the rows of both: the sink's columns in their order, then those that only the source has.

    Names are compared whatever their case; the sink's spelling stays, and so do its key, comment and defaults. A column
    keeps the source's own type where both have the same: another ENUM would not hold the labels of the first.
    """
    columns = [_wider(column, find(source, column.name)) for column in sink.columns]
    columns += [replace(column, nullable=True) for column in source.columns if column_index(sink, column.name) is None]
    return replace(sink, columns=tuple(columns))


def without_defaults(new: TableSchema, there: TableSchema, added: str = "") -> TableSchema:
    """The merged schema without defaults for columns that were not there, but for the one that was `added`.

    The sink would give them to rows of other tables, which have no value there.
    """
    kept = {added.casefold(), *(name.casefold() for name in there.names)}
    columns = (column if column.name.casefold() in kept else replace(column, default=None) for column in new.columns)
    return replace(new, columns=tuple(columns))


def _wider(sink: Column, source: Column | None) -> Column:
    if source is None:
        return replace(sink, nullable=True)
    own = {} if sink.source_type == source.source_type else {"source_type": ""}
    wider = common_type(sink.type, source.type)
    return replace(sink, type=wider, nullable=sink.nullable or source.nullable, **own)


def same_key(left: TableSchema, right: TableSchema) -> bool:
    """Whether two tables tell rows apart by the same columns, whatever their order and case."""
    return {name.casefold() for name in left.primary_key} == {name.casefold() for name in right.primary_key}


def missing_columns(table: TableSchema, wanted: TableSchema) -> tuple[str, ...]:
    """The columns of `wanted` that a table lacks, whatever the case of names."""
    there = {name.casefold() for name in table.names}
    return tuple(name for name in wanted.names if name.casefold() not in there)


def fits_exactly(rows: TableSchema, sink: TableSchema) -> bool:
    """Whether rows have the key of a table, a column for each that takes no NULL, and no column that it lacks.

    Their order does not count: a column that is moved in the source stays where it is in the sink. Nor do columns of
    the sink's table that take NULL: a behavior of before may have kept them (`lenient`).
    """
    if sink is rows:
        return True
    left_out = missing_columns(rows, sink)
    required = any(not column.nullable and column.name in left_out for column in sink.columns)
    return same_key(sink, rows) and not required and not missing_columns(sink, rows)


@dataclass(frozen=True, slots=True)
class TableMerge:
    """Several tables as one.

    Attributes:
        schema: of the one table.
        why: column name -> why its type is what it is, for columns that are not the same in all tables.
    """

    schema: TableSchema
    why: Mapping[str, str] = field(default_factory=dict)


def merge_all(tables: Mapping[TableId, TableSchema]) -> TableMerge:
    """The schema of one table for the rows of all of these, in their order; at least one."""
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
