"""Checks a rule against a table's schema: the types of its columns and its filter, before anything is prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdc.errors import Problem, SpecError
from cdc.schema import TableSchema
from cdc.transform.check import Scope, check
from cdc.transform.model_use import refuse_deciding
from cdc.transform.operators import condition
from cdc.transform.outputs import OutputColumn, outputs, resulting_schema
from cdc.transform.rule import Rule
from cdc.transform.syntax import ExpressionError
from cdc.transform.typed import Typed

MOST_TYPED = 2_000
"""Maximum number of schemas for which a rule caches its types: more than the usual number of tables."""


@dataclass(frozen=True)
class Typing:
    """A rule checked against a table's schema.

    Attributes:
        schema: the resulting schema.
        outputs: its columns.
        condition: the filter, None without one.
    """

    schema: TableSchema
    outputs: tuple[OutputColumn, ...]
    condition: Typed | None


def typing_of(rule: Rule, schema: TableSchema) -> Typing:
    """Check a rule against a table's schema, without an engine. Raises SpecError with every problem of the rule.

    The rule caches the result, as driver and tasks need it repeatedly.
    """
    key = schema, schema.own_types
    found: Typing | None = rule.typed.get(key)
    if found is None:
        found = rule.typed[key] = _typing_of(rule, schema)
        if len(rule.typed) > MOST_TYPED:
            rule.typed.popitem(last=False)
    return found


def _typing_of(rule: Rule, schema: TableSchema) -> Typing:
    functions = {name: function.callee for name, function in rule.own.items()}
    problems: list[Problem] = []
    columns: list[OutputColumn] = []
    condition: Typed | None = None
    try:
        columns = outputs(rule, Scope(schema, rule.metadata, own=functions))
    except SpecError as error:
        problems += error.problems
    try:
        condition = _filter(rule, schema, columns, functions)
    except SpecError as error:
        problems += error.problems if columns else ()
    if problems:
        raise SpecError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    result = resulting_schema(rule, schema, columns)
    refuse_deciding(rule, result, columns, condition)
    return Typing(result, tuple(columns), condition)


def _filter(
    rule: Rule, schema: TableSchema, columns: Sequence[OutputColumn], own: Mapping[str, object]
) -> Typed | None:
    """Type the filter, which may use source columns and computed columns by their names."""
    if rule.filter is None:
        return None
    masked = {mask.column.casefold() for mask in rule.masks}
    aliases = {
        output.column.name: output.node
        for output in columns
        if output.column.name.casefold() not in masked
        and not (output.passes and output.column.name == output.node.value)
    }
    scope = Scope(schema, rule.metadata, aliases, own)  # type: ignore[arg-type]
    try:
        return condition(check(rule.filter.node, scope), "a filter")
    except ExpressionError as error:
        raise SpecError([rule.filter.text.problem(each) for each in error.mistakes]) from error
