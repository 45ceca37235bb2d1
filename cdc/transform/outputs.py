"""The resulting columns of a rule, passed through or computed, and the resulting schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cdc.errors import SpecError
from cdc.schema import Column, DataType, Kind, TableSchema
from cdc.transform.check import Scope, check
from cdc.transform.rule import Mask, Rule, masked_mistake, missing_key
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import ExpressionError, Item, Mistake, Name, Span, Star
from cdc.transform.typed import NOWHERE, Typed, cast, columns, literal, mistake
from cdc.transform.types import JSON, Array, IntervalType, Map, NullType, RowType


@dataclass(frozen=True)
class OutputColumn:
    """One column of the result.

    Attributes:
        column: the column in the resulting schema.
        node: its expression; a bare `column` node is passed through at no cost.
        sql: the expression as written.
        source: the source column, for one from `*`; empty for an item of the projection.
    """

    column: Column
    node: Typed
    sql: str = ""
    source: str = ""

    @property
    def star(self) -> bool:
        """Whether it comes from `*`."""
        return bool(self.source)

    @property
    def passes(self) -> bool:
        """Whether the values are those of a column, unchanged."""
        return self.node.op == "column"


def outputs(rule: Rule, scope: Scope) -> list[OutputColumn]:
    """Return the resulting columns in order. Raises SpecError with every problem."""
    masked = _masks(rule, scope)
    if rule.projection is None:
        return [_source(column, masked, rule) for column in scope.schema.columns]
    text = rule.projection.text
    found: list[OutputColumn] = []
    mistakes: list[Mistake] = []
    for item in rule.projection.items:
        if isinstance(item, Star):
            present = {output.column.name.casefold() for output in found}
            found += [
                _source(column, masked, rule)
                for column in scope.schema.columns
                if column.name.casefold() not in present
            ]
            continue
        try:
            _append_or_replace(found, _item(item, scope, masked, rule, text))
        except ExpressionError as error:
            mistakes += error.mistakes
    if mistakes:
        raise SpecError([text.problem(each) for each in mistakes])
    return found


def _append_or_replace(found: list[OutputColumn], output: OutputColumn) -> None:
    """Append the column, or replace the one with its name in place."""
    for number, each in enumerate(found):
        if each.column.name.casefold() == output.column.name.casefold():
            found[number] = output
            return
    found.append(output)


def _source(column: Column, masked: dict[str, Typed], rule: Rule) -> OutputColumn:
    plain = Typed("column", column.type, nullable=column.nullable, value=column.name)
    node = masked.get(column.name)
    if node is None:
        return OutputColumn(column, plain, column.name, column.name)
    return OutputColumn(_hidden(column, node), node, _mask_text(rule, column.name), column.name)


def _mask_text(rule: Rule, column: str) -> str:
    """Return a mask written as a call: `MASK(email, 4)`."""
    mask = next(each for each in rule.masks if each.column.casefold() == column.casefold())
    return f"{mask.function}({column}{'' if mask.number is None else f', {mask.number}'})"


def _hidden(column: Column, node: Typed) -> Column:
    """Return a masked column: text without the source's default, which could show a value."""
    assert isinstance(node.type, DataType)
    return replace(column, type=node.type, nullable=node.nullable, default=None)


def _item(item: Item, scope: Scope, masked: dict[str, Typed], rule: Rule, text: SqlText) -> OutputColumn:
    node = check(item.node, scope)
    sql = text.text[item.span.start : item.span.end]
    if node.op == "column" and node.value in masked:
        sql = _mask_text(rule, str(node.value))
    node = _with_masks(node, masked)
    if isinstance(item.node, Name) and node.op == "column" and node.value in scope.schema.names:
        column = scope.schema.column(node.value)
        return OutputColumn(replace(column, name=item.name or column.name), node, sql)
    name = item.name or (
        str(node.value) if node.op == "column" else item.node.name if isinstance(item.node, Name) else ""
    )
    kind = _column_type(node, name)
    if kind is JSON and node.type != JSON:
        node = cast(node, JSON)
    nullable = node.nullable or (rule.on_error == "null" and node.fails)
    return OutputColumn(Column(name, kind, nullable), node, sql)


def _column_type(node: Typed, name: str) -> DataType:
    if isinstance(node.type, Array | Map | RowType):
        return JSON
    if isinstance(node.type, NullType):
        raise mistake(node.span, f"the column {name} has no type", "write CAST(NULL AS type)")
    if isinstance(node.type, IntervalType):
        raise mistake(node.span, "a column cannot be an INTERVAL", "add it to a moment")
    if node.type.kind is Kind.DECIMAL and (node.type.length or 10) > 38 and node.op != "column":
        raise mistake(node.span, f"{node.type} has more digits than expressions compute with", "CAST it")
    return node.type


def _masks(rule: Rule, scope: Scope) -> dict[str, Typed]:
    """Return the replacement of each masked column, by its name in the table."""
    found = {}
    for mask in rule.masks:
        try:
            found.update(_masked(mask, scope))
        except ExpressionError as error:
            raise SpecError([mask.text.problem(each) for each in error.mistakes]) from error
    return found


def _masked(mask: Mask, scope: Scope) -> dict[str, Typed]:
    from cdc.transform.catalogue import FUNCTIONS

    name = Name(mask.column, Span(0, 1))
    column = scope.find(name)
    if column is None or column.value not in scope.schema.names:
        raise ExpressionError(scope.unknown(name))
    args = [column, *([literal(mask.number, NOWHERE)] if mask.number is not None else [])]
    return {str(column.value): FUNCTIONS[mask.function].typed(args, Span(0, 1))}


def _with_masks(node: Typed, masked: dict[str, Typed]) -> Typed:
    """Replace masked columns by their masks; an expression that computes with one is a mistake."""
    used = [column for column in columns(node) if column in masked]
    if not used:
        return node
    if node.op == "column":
        return masked[node.value]
    raise ExpressionError(masked_mistake(used[0], node.span))


def resulting_schema(rule: Rule, source: TableSchema, found: Sequence[OutputColumn]) -> TableSchema:
    """Return the schema of the rule's rows, with its key. Raises SpecError when a key column is missing."""
    by_name = {output.column.name.casefold(): output.column.name for output in found}
    if rule.primary_keys:
        keys = tuple(_find_column(by_name, key, rule.keys_text) for key in rule.primary_keys)
    else:
        keys = tuple(_carried(key, found, by_name, rule) for key in source.primary_key)
    for key in rule.partition_keys:
        _find_column(by_name, key, rule.partition_text)
    columns = tuple(
        replace(output.column, nullable=False) if output.column.name in keys else output.column for output in found
    )
    return TableSchema(columns, keys, source.comment)


def _find_column(by_name: dict[str, str], key: str, text: SqlText | None) -> str:
    if key.casefold() not in by_name:
        where = text or SqlText(key)
        raise SpecError([missing_key(where, key, by_name.values())])
    return by_name[key.casefold()]


def _carried(key: str, found: Sequence[OutputColumn], by_name: dict[str, str], rule: Rule) -> str:
    """Return the resulting name of a source key column: the same, or renamed."""
    if key.casefold() in by_name:
        return by_name[key.casefold()]
    for output in found:
        if output.passes and output.node.value == key:
            return output.column.name
    where = rule.projection.text if rule.projection is not None else SqlText(key)
    message = f"the projection leaves out {key}, which is part of the table's primary key"
    hint = "add it, or name other columns with primary-keys"
    raise SpecError([where.problem(Mistake(Span(0, 1), message, hint))])
