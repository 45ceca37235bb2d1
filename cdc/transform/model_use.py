"""Checks where rules use a model: not for anything that decides which rows the sink has.

A model's answers are not repeatable. So they are refused in a filter, in a key, in a table without a key and with
`on-error: dead-letter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cdc.errors import SpecError
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import Mistake, Span
from cdc.transform.typed import Typed, walk

if TYPE_CHECKING:
    from cdc.schema import TableSchema
    from cdc.transform.outputs import OutputColumn
    from cdc.transform.rule import Rule


def uses_model(node: Typed) -> bool:
    """Whether an expression queries a model."""
    return any(each.op.startswith(("ask ", "asks ")) for each in walk(node))


def refuse_deciding(rule: Rule, schema: TableSchema, outputs: Sequence[OutputColumn], condition: Typed | None) -> None:
    """Refuse models where another answer to the same text would leave rows in the sink that the source does not have.

    `schema` is the resulting schema. Raises SpecError.
    """
    problems = [
        text.problem(Mistake(span, message, hint))
        for text, span, message, hint in _deciding(rule, schema, outputs, condition)
    ]
    if problems:
        raise SpecError(problems)


def _deciding(
    rule: Rule, schema: TableSchema, outputs: Sequence[OutputColumn], condition: Typed | None
) -> Iterator[tuple[SqlText, Span, str, str]]:
    start, hint = Span(0, 1), "a model may answer differently next time; put the answer into a column outside the key"
    if condition is not None and rule.filter is not None and uses_model(condition):
        yield rule.filter.text, start, "a filter cannot use a model", hint
    found = [output for output in outputs if uses_model(output.node)]
    if not found or rule.projection is None:
        return
    text, span = rule.projection.text, found[0].node.span
    if not schema.primary_key:
        yield text, span, "a model cannot be used for a table without a key", "name its key with primary-keys"
    deciding = {*schema.primary_key, *(key.casefold() for key in rule.partition_keys)}
    for output in found:
        if output.column.name in deciding or output.column.name.casefold() in deciding:
            yield text, output.node.span, f"the key column {output.column.name} cannot use a model", hint
    if rule.on_error == "dead-letter":
        message = "a rule with on-error: dead-letter cannot use a model"
        yield text, span, message, "on-error: null makes a text that the model refuses NULL, and counts it"
