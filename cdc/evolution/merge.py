"""One schema that holds the rows of several tables: the widest type of each column. Pure.

| types | together |
|---|---|
| the same | the same |
| integers | the narrowest integer that holds both; DECIMAL(20, 0) where only that does |
| integer and DECIMAL(p, s) | DECIMAL with room for the integer's digits |
| DECIMAL and DECIMAL | the more digits before and behind the point; STRING beyond 65 digits |
| integer of 16 bits or fewer and FLOAT | FLOAT |
| other integer and FLOAT, integer and DOUBLE, FLOAT and DOUBLE | DOUBLE |
| DECIMAL and FLOAT or DOUBLE | STRING |
| CHAR, VARCHAR | VARCHAR of the longer (CHAR where both are) |
| BINARY, VARBINARY | VARBINARY of the longer |
| text and STRING, bytes and BYTES | STRING, BYTES |
| TIME, TIMESTAMP, TIMESTAMP_LTZ with other digits | the more digits |
| TIMESTAMP and TIMESTAMP_LTZ | TIMESTAMP_LTZ |
| DATE and TIMESTAMP or TIMESTAMP_LTZ | that, with 6 digits |
| VECTOR of other dimensions | VECTOR |
| anything else | STRING |

It makes no difference which of the two comes first. A column that one of the tables lacks, or that is nullable in one,
is nullable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc.evolution.certain import BYTES, RANGES, REALS, TEXTS
from cdc.schema import Column, DataType, Kind, TableId, TableSchema

STRING = DataType(Kind.STRING)
_MOST_DIGITS = 65
_SMALL = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED})
_MOMENTS = (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
_NAMED = 3


def common_type(left: DataType, right: DataType) -> DataType:
    """The narrowest type that holds the values of both."""
    if left == right:
        return left
    kinds = {left.kind, right.kind}
    if kinds <= RANGES.keys():
        return _integer(left.kind, right.kind)
    if kinds <= {*RANGES, Kind.DECIMAL}:
        return _decimal(_as_decimal(left), _as_decimal(right))
    if kinds <= {*RANGES, *REALS}:
        small = Kind.DOUBLE not in kinds and kinds <= {*_SMALL, Kind.FLOAT}
        return DataType(Kind.FLOAT if small else Kind.DOUBLE)
    if kinds <= TEXTS:
        return _longer(left, right, Kind.CHAR, Kind.VARCHAR, Kind.STRING)
    if kinds <= BYTES:
        return _longer(left, right, Kind.VARBINARY, Kind.VARBINARY, Kind.BYTES)
    if kinds <= {*BYTES, Kind.GEOMETRY}:
        return DataType(Kind.BYTES)
    return _temporal(left, right)


def _integer(left: Kind, right: Kind) -> DataType:
    low = min(RANGES[left][0], RANGES[right][0])
    high = max(RANGES[left][1], RANGES[right][1])
    holding = [kind for kind, (least, most) in RANGES.items() if least <= low and high <= most]
    if not holding:
        return DataType(Kind.DECIMAL, 20, 0)
    return DataType(min(holding, key=lambda kind: RANGES[kind][1] - RANGES[kind][0]))


def _as_decimal(data_type: DataType) -> DataType:
    if data_type.kind is Kind.DECIMAL:
        return DataType(Kind.DECIMAL, data_type.length or 10, data_type.scale or 0)
    low, high = RANGES[data_type.kind]
    return DataType(Kind.DECIMAL, len(str(max(high, -low))), 0)


def _decimal(left: DataType, right: DataType) -> DataType:
    scale = max(left.scale or 0, right.scale or 0)
    whole = max((each.length or 10) - (each.scale or 0) for each in (left, right))
    return DataType(Kind.DECIMAL, whole + scale, scale) if whole + scale <= _MOST_DIGITS else STRING


def _longer(left: DataType, right: DataType, fixed: Kind, varying: Kind, unlimited: Kind) -> DataType:
    if unlimited in (left.kind, right.kind) or left.length is None or right.length is None:
        return DataType(unlimited)
    kind = fixed if left.kind is right.kind is fixed else varying
    return DataType(kind, max(left.length, right.length))


def _temporal(left: DataType, right: DataType) -> DataType:
    kinds = {left.kind, right.kind}
    digits = max(left.length or 0, right.length or 0)
    if kinds == {Kind.TIME}:
        return DataType(Kind.TIME, digits)
    if kinds <= {*_MOMENTS}:
        return DataType(_MOMENTS[Kind.TIMESTAMP_LTZ in kinds], digits)
    if Kind.DATE in kinds and kinds <= {Kind.DATE, *_MOMENTS}:
        return DataType(_MOMENTS[Kind.TIMESTAMP_LTZ in kinds], 6)
    return DataType(Kind.VECTOR) if kinds == {Kind.VECTOR} else STRING


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


def merged(sink: TableSchema, source: TableSchema) -> TableSchema:
    """The schema that holds the rows of both: the sink's columns in their order, then those that only the source has.

    Names are compared whatever their case; the sink's spelling stays, and so do its key, comment and defaults.
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
    return replace(sink, type=common_type(sink.type, source.type), nullable=sink.nullable or source.nullable)


def same_key(left: TableSchema, right: TableSchema) -> bool:
    """Whether two tables tell rows apart by the same columns, whatever their order and case."""
    return {name.casefold() for name in left.primary_key} == {name.casefold() for name in right.primary_key}


@dataclass(frozen=True, slots=True)
class Merge:
    """Several tables as one.

    Attributes:
        schema: of the one table.
        why: column name -> why its type is what it is, for columns that are not the same in all tables.
    """

    schema: TableSchema
    why: Mapping[str, str] = field(default_factory=dict)


def merge_all(tables: Mapping[TableId, TableSchema]) -> Merge:
    """The schema of one table for the rows of all of these, in their order; at least one."""
    first, *others = tables.values()
    schema = first
    for other in dict.fromkeys(others):
        schema = merged(schema, other)
    why = {column.name: text for column in schema.columns if (text := _why(column, tables))}
    return Merge(schema, why)


def _why(column: Column, tables: Mapping[TableId, TableSchema]) -> str:
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
        parts.append(" and ".join(f"{data_type} in {_listed(having)}" for data_type, having in types.items()))
    if missing:
        parts.append(f"NULL for {_listed(missing)}, which lacks it" if len(missing) == 1 else
                     f"NULL for {_listed(missing)}, which lack it")  # fmt: skip
    return "; ".join(parts)


def _listed(tables: list[TableId]) -> str:
    names = ", ".join(map(str, tables[:_NAMED]))
    return names if len(tables) <= _NAMED else f"{names} and {len(tables) - _NAMED} more"
