"""Expressions tried on no row, and their constants by themselves: what only the engine can refuse is found so."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from cdc.errors import SpecError
from cdc.transform.engine import Engine, ExpressionFailed
from cdc.transform.rule import Rule
from cdc.transform.rule_types import Typing
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import ExpressionError, Mistake
from cdc.transform.translate import Translator
from cdc.transform.typed import Typed, columns


def try_constants(checked: Typing, translator: Translator, engine: Engine, schema: pa.Schema) -> None:
    """Evaluate what reads no column. Raises ExpressionFailed."""
    nodes = [*(output.node for output in checked.outputs), *([checked.condition] if checked.condition else [])]
    found = [translator.sql(constant) for node in nodes for constant in _constants(node)]
    if found:
        with engine.prepare(found, None, schema) as statement:
            statement.run(pa.RecordBatch.from_pylist([{}], schema=schema))


def prove_each(rule: Rule, checked: Typing, translator: Translator, engine: Engine, schema: pa.Schema) -> None:
    """Try each expression alone. Raises SpecError for the first that the engine refuses."""
    for output in checked.outputs:
        if not output.passes:
            _proven(output.node, output.sql, text_of(rule), translator, engine, schema)
    if checked.condition is not None and rule.filter is not None:
        text = rule.filter.text
        _proven(checked.condition, text.text.strip(), text, translator, engine, schema)


def text_of(rule: Rule) -> SqlText:
    """The text that mistakes of its columns are told in."""
    return rule.projection.text if rule.projection is not None else rule.masks[0].text


def _proven(
    node: Typed, written: str, text: SqlText, translator: Translator, engine: Engine, schema: pa.Schema
) -> None:
    """Find what only the engine can refuse: a regular expression, a constant. Raises SpecError."""
    try:
        for each in _constants(node):
            with engine.prepare([translator.sql(each)], None, schema) as statement:
                statement.run(pa.RecordBatch.from_pylist([{}], schema=schema))
        with engine.prepare([translator.sql(node)], None, schema) as statement:
            statement.run(pa.RecordBatch.from_pylist([], schema=schema))
    except ExpressionError as error:
        raise SpecError([text.problem(each) for each in error.mistakes]) from error
    except ExpressionFailed as error:
        raise SpecError([text.problem(Mistake(node.span, f"`{written}` cannot be evaluated: {error}"))]) from error


def _constants(node: Typed) -> Iterator[Typed]:
    """The largest parts that read no column and can fail: they fail for every row or for none."""
    if node.fails and not columns(node):
        yield node
        return
    for arg in node.args:
        yield from _constants(arg)
