"""The plan of a load: which field goes where. Made by the first load of a transaction and kept for its others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_standins.expressions import Expression, Item
from cdc_standins.starrocks.errors import analysis
from cdc_standins.starrocks.headers import read_columns
from cdc_standins.starrocks.schema import Column, Table
from cdc_standins.starrocks.types import ColumnType

OPERATION = "__op"
_TINYINT = ColumnType("TINYINT")
_VARCHAR = ColumnType("VARCHAR")


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of the source. `type` without length: any text up to the longest VARCHAR; `used` says it is read."""

    name: str
    type: ColumnType
    used: bool


@dataclass(frozen=True, slots=True)
class Output:
    """A column that the load writes. `direct`: the field is read as the column's type; `source` None: its default."""

    column: Column
    source: Expression | None
    direct: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Slots in the order of the fields, outputs in that of the table; without `operation` every row is an upsert."""

    table: Table
    slots: tuple[Slot, ...]
    outputs: tuple[Output, ...]
    operation: bool


def plan_pipeline(table: Table, columns: str | None) -> Plan:
    """The plan for a table and a `columns` header. Raises LoadFailure (ANALYSIS_ERROR) where the server would."""
    items = read_columns(columns) if columns else [Item(column.name) for column in table.columns]
    computed = {item.name.lower(): item.expression for item in items if item.expression is not None}
    sources = [item.name for item in items if item.expression is None]
    _check(table, sources, computed)
    arguments = set().union(*(expression.names() for expression in computed.values()))
    names = [name.lower() for name in sources]
    slots = tuple(_slot(table, name, arguments, computed) for name in sources)
    outputs = tuple(_output(column, names, arguments, computed) for column in table.columns)
    return Plan(table, slots, outputs, OPERATION in names)


def _check(table: Table, sources: Sequence[str], computed: dict[str, Expression]) -> None:
    names = [name.lower() for name in sources]
    for name in names:
        if names.count(name) > 1:
            raise analysis(f"Duplicate column: {name}")
    for name, expression in computed.items():
        if table.column(name) is None:
            raise analysis(f"Mapping column is not in table. column: {name}")
        for used in sorted(expression.names()):
            if used not in names:
                raise analysis(f"unknown reference column, column={name}, reference={used}")
    if not table.primary and OPERATION in names:
        raise analysis("Only primary key table support __op column")


def _slot(table: Table, name: str, arguments: set[str], computed: dict[str, Expression]) -> Slot:
    lower = name.lower()
    column = table.column(name)
    if lower in arguments:
        return Slot(lower, _VARCHAR, used=True)
    if lower == OPERATION:
        return Slot(lower, _TINYINT, used=True)
    if column is not None and lower not in computed:
        return Slot(lower, column.type, used=True)
    return Slot(lower, _VARCHAR, used=False)


def _output(column: Column, names: Sequence[str], arguments: set[str], computed: dict[str, Expression]) -> Output:
    name = column.name.lower()
    if name in computed:
        return Output(column, computed[name], direct=False)
    if name in names:
        return Output(column, Expression(name=name), direct=name not in arguments)
    if column.default is None and not column.nullable:
        raise analysis(f"Column has no default value. column: {column.name}")
    return Output(column, None, direct=False)
