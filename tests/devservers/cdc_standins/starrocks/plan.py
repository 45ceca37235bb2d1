"""The plan of a load: which field goes where. Made by the first load of a transaction and kept for its others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cdc_standins.starrocks.errors import analysis
from cdc_standins.starrocks.expressions import (
    Expression,
    Literal,
    Reference,
    operation,
    parse_columns,
    references,
)
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
    """Slots in the order of the fields, outputs in the order of the table; `operation` None: every row is an upsert."""

    table: Table
    slots: tuple[Slot, ...]
    outputs: tuple[Output, ...]
    operation: Expression | None
    partial: bool
    json: bool = False


def make_plan(table: Table, columns: str | None, *, partial: bool, json: bool = False) -> Plan:
    """The plan for a table and a `columns` header. Raises LoadFailure (ANALYSIS_ERROR) where the server would."""
    if partial and not table.primary:
        raise analysis("Only primary key table support partial update")
    items = parse_columns(columns) if columns else [(column.name, None) for column in table.columns]
    if json and not columns and table.primary:
        items.append((OPERATION, None))
    computed = {name.lower(): expression for name, expression in items if expression is not None}
    sources = [name for name, expression in items if expression is None]
    _check(table, sources, computed)
    arguments = {name for expression in computed.values() for name in references(expression)}
    names = [name.lower() for name in sources]
    slots = tuple(_slot(table, name, arguments, computed) for name in sources)
    candidates = (_output(column, names, arguments, computed, partial) for column in table.columns)
    outputs = tuple(output for output in candidates if output is not None)
    op = computed.get(OPERATION) or (Reference(OPERATION) if OPERATION in names else None)
    if isinstance(op, Literal):
        operation(op.text)
    return Plan(table, slots, outputs, op, partial, json)


def _check(table: Table, sources: Sequence[str], computed: dict[str, Expression]) -> None:
    names = [name.lower() for name in sources]
    for name in names:
        if names.count(name) > 1:
            raise analysis(f"Duplicate column: {name}")
    for name, expression in computed.items():
        if name != OPERATION and table.column(name) is None:
            raise analysis(f"Mapping column is not in table. column: {name}")
        for used in references(expression):
            if used not in names:
                raise analysis(f"unknown reference column, column={name}, reference={used}")
    if not table.primary and (OPERATION in names or OPERATION in computed):
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


def _output(
    column: Column, names: Sequence[str], arguments: set[str], computed: dict[str, Expression], partial: bool
) -> Output | None:
    name = column.name.lower()
    if name in computed:
        return Output(column, computed[name], direct=False)
    if name in names:
        return Output(column, Reference(name), direct=name not in arguments)
    if partial:
        if column.key:
            raise analysis(f"key column {column.name} not in partial update columns")
        return None
    if column.default is None and not column.nullable:
        raise analysis(f"Column has no default value. column: {column.name}")
    return Output(column, None, direct=False)
