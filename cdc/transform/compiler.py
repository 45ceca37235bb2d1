"""Compiles rules to `CompiledRule`: one prepared statement in the engine's SQL for all rows of a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from cdc.errors import SpecError
from cdc.schema import TableSchema
from cdc.transform import inputs
from cdc.transform.compiled import CompiledRule
from cdc.transform.computation import BlockCall, Expression, selected
from cdc.transform.engine import Engine, ExpressionFailed
from cdc.transform.limits import bounded
from cdc.transform.outputs import OutputColumn
from cdc.transform.rule import Rule
from cdc.transform.rule_types import Typing, typing_of
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import ExpressionError, Mistake
from cdc.transform.translate import Translator
from cdc.transform.typed import Typed, columns
from cdc.transform.user_types import arrow_of


def compile_rule(rule: Rule, schema: TableSchema, engine: Engine, *, prove: bool = True) -> CompiledRule:
    """Check a rule against a table's schema and prepare it. Raises SpecError with every problem of the rule.

    With `prove`, the rule is also run on no rows and its constants are evaluated, to find errors that only the engine
    detects.
    """
    checked = typing_of(rule, schema)
    outputs, result, condition = checked.outputs, checked.schema, checked.condition
    computed = [output for output in outputs if not output.passes]
    used = dict.fromkeys(
        name
        for node in [*(output.node for output in computed), *([condition] if condition else [])]
        for name in columns(node)
    )
    names = (*(name for name in used if name != "__row"), "__row")
    translator = Translator(inputs.engine_names(names))
    arrow = inputs.engine_schema(schema, names)
    expressions = tuple(
        Expression(output.column.name, output.sql, _sql(rule, output, translator), _secret(rule, output.node))
        for output in computed
    )
    array_calls = _array_calls(rule, computed, translator, names)
    condition_ = None if condition is None else _condition(rule, condition, translator)
    statement = None
    if expressions or condition_ is not None:
        select = [*(['"__row"'] if condition_ is not None else []), *selected(expressions, array_calls)]
        try:
            statement = engine.shared(select or ["NULL"], condition_.sql if condition_ is not None else None, arrow)
            if prove:
                statement.run(pa.RecordBatch.from_pylist([], schema=arrow))
                try_constants(checked, translator, engine, arrow)
        except ExpressionFailed:
            prove_each(rule, checked, translator, engine, arrow)
            raise
    partition = tuple(next(n for n in result.names if n.casefold() == key.casefold()) for key in rule.partition_keys)
    return CompiledRule(
        rule, outputs, condition, engine, expressions, condition_, statement, array_calls, schema, result, partition,
        rule.table_options, names, arrow,
    )  # fmt: skip


def _sql(rule: Rule, output: OutputColumn, translator: Translator) -> str:
    try:
        return bounded(translator.sql(output.node), output.node)
    except ExpressionError as error:
        raise SpecError([text_of(rule).problem(each) for each in error.mistakes]) from error


def _array_calls(
    rule: Rule, computed: Sequence[OutputColumn], translator: Translator, names: Sequence[str]
) -> dict[int, BlockCall]:
    """Return the computed columns that are calls of array functions with columns in their arguments, by number."""
    found = {}
    for number, output in enumerate(computed):
        function = rule.own.get(output.node.op.removeprefix("own ")) if output.node.op.startswith("own ") else None
        if function is not None and function.on_block is not None and columns(output.node):
            empty = pa.array([], arrow_of(output.node.type))
            arguments = tuple(
                names.index(arg.value) if arg.op == "column" else translator.sql(arg) for arg in output.node.args
            )
            found[number] = BlockCall(function.on_block, arguments, empty)
    return found


def _condition(rule: Rule, node: Typed, translator: Translator) -> Expression:
    assert rule.filter is not None
    text = rule.filter.text
    try:
        return Expression("", text.text.strip(), translator.sql(node), _secret(rule, node))
    except ExpressionError as error:
        raise SpecError([text.problem(each) for each in error.mistakes]) from error


def _secret(rule: Rule, node: Typed) -> bool:
    masked = {mask.column.casefold() for mask in rule.masks}
    return any(column.casefold() in masked for column in columns(node))


def try_constants(checked: Typing, translator: Translator, engine: Engine, schema: pa.Schema) -> None:
    """Evaluate the parts that read no column. Raises ExpressionFailed."""
    nodes = [*(output.node for output in checked.outputs), *([checked.condition] if checked.condition else [])]
    found = [translator.sql(constant) for node in nodes for constant in _constants(node)]
    if found:
        with engine.prepare(found, None, schema) as statement:
            statement.run(pa.RecordBatch.from_pylist([{}], schema=schema))


def prove_each(rule: Rule, checked: Typing, translator: Translator, engine: Engine, schema: pa.Schema) -> None:
    """Run each expression separately. Raises SpecError for the first that the engine refuses."""
    for output in checked.outputs:
        if not output.passes:
            _proven(output.node, output.sql, text_of(rule), translator, engine, schema)
    if checked.condition is not None and rule.filter is not None:
        text = rule.filter.text
        _proven(checked.condition, text.text.strip(), text, translator, engine, schema)


def text_of(rule: Rule) -> SqlText:
    """Return the text to which mistakes of its columns refer."""
    return rule.projection.text if rule.projection is not None else rule.masks[0].text


def _proven(
    node: Typed, written: str, text: SqlText, translator: Translator, engine: Engine, schema: pa.Schema
) -> None:
    """Find errors that only the engine detects, in regular expressions and constants. Raises SpecError."""
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
    """Yield the largest parts that can fail and read no column: they fail for all rows or for none."""
    if node.fails and not columns(node):
        yield node
        return
    for arg in node.args:
        yield from _constants(arg)
