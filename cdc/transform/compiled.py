"""A rule compiled for one table schema: kept for the life of the schema, applied to one block after the other."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cdc.block import ChangeBlock, arrow_schema, arrow_type
from cdc.errors import Problem, SpecError
from cdc.schema import DataType, Kind, TableSchema
from cdc.transform import inputs
from cdc.transform.check import Scope, check
from cdc.transform.computation import Computation, Expression, Whole, selected
from cdc.transform.engine import Engine, ExpressionFailed
from cdc.transform.failures import Counts, explain, tolerant
from cdc.transform.images import passed_kinds
from cdc.transform.left_out import without_failing
from cdc.transform.limits import in_range
from cdc.transform.model_use import refuse_deciding
from cdc.transform.operators import condition
from cdc.transform.outputs import OutputColumn, outputs, resulting_schema
from cdc.transform.rule import Rule
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import ExpressionError, Mistake
from cdc.transform.translate import Translator
from cdc.transform.typed import Typed, columns
from cdc.transform.types import kind_of
from cdc.transform.user_types import arrow_of
from cdc.types.kinds import REALS

MOST_TYPED = 2_000
"""Schemas that a rule keeps its types for: more than tables usually are."""


@dataclass(frozen=True)
class CompiledRule(Computation):
    """A rule for tables of one schema. Belongs to the engine's thread.

    Attributes:
        source: schema of the blocks it takes.
        schema: schema of the blocks it gives, with the key of `primary-keys`.
        partition_keys, table_options: for creating the sink table.
    """

    source: TableSchema
    schema: TableSchema
    partition_keys: tuple[str, ...]
    table_options: Mapping[str, str]
    _names: tuple[str, ...]
    _input: pa.Schema

    def apply(self, block: ChangeBlock, now: datetime.datetime, counts: Counts | None = None) -> ChangeBlock:
        """The block as the rule makes it, perhaps with fewer rows.

        Args:
            block: rows of `source`'s schema; its table is the source's.
            now: the batch's moment, zone-aware; a replay hands in the same.
            counts: gets the number of values that failed, where the rule says `null`, and the rows, for `dead-letter`.

        Raises TransformError with table, key, column and expression when a value makes an expression fail and the
        rule says `fail`.
        """
        if len(block) == 0 or (self.statement is None and not self.rule.soft_delete and self._same_columns):
            return self._made(block, None, [], now)
        rows, computed = self._evaluated(block, now, counts)
        return self._made(block, rows, computed, now)

    def close(self) -> None:
        """Let its statement go; it is not used any more."""
        if self.statement is not None:
            self.statement.close()

    def _hidden(self, block: ChangeBlock, name: str, now: datetime.datetime) -> pa.Array:
        return inputs.hidden(block, name, now, namespaces=self.rule.namespaces)

    @property
    def _same_columns(self) -> bool:
        return all(output.passes for output in self.outputs)

    def _evaluated(
        self, block: ChangeBlock, now: datetime.datetime, counts: Counts | None
    ) -> tuple[np.ndarray | None, list[pa.Array]]:
        """Numbers of the rows that pass (None for all), and the computed columns of those rows."""
        if self.statement is None:
            return None, []
        kept: np.ndarray | None = None
        try:
            batch = inputs.engine_batch(block, self._names, self._input, now, namespaces=self.rule.namespaces)
            table = self.run(batch)
        except inputs.BadText as error:
            raise explain(
                self, block, error.row, f"column {error.column}", error.column, "the value is not UTF-8 text"
            ) from error
        except ExpressionFailed as error:
            if self.rule.on_error == "dead-letter":
                table, kept = without_failing(self, block, batch, error, counts)
            else:
                table = tolerant(self, block, batch, error, counts)
        arrays = [table.column(number).combine_chunks() for number in range(table.num_columns)]
        if self.filter is None:
            return kept, arrays
        rows = arrays[0].to_numpy(zero_copy_only=False)
        return (None if len(rows) == len(block) else rows), arrays[1:]

    def _made(
        self, block: ChangeBlock, rows: np.ndarray | None, computed: list[pa.Array], now: datetime.datetime
    ) -> ChangeBlock:
        indices = None if rows is None else pa.array(rows, pa.int32())

        def passed(array: pa.Array) -> pa.Array:
            return array if indices is None else array.take(indices)

        known = {column.name: number for number, column in enumerate(self.source.columns)}
        made: list[pa.Array] = []
        waiting = iter(computed)
        for output in self.outputs:
            if output.passes:
                name = output.node.value
                clear = block.rows.column(known[name]) if name in known else self._hidden(block, name, now)
                made.append(passed(clear))
            else:
                empty = pa.array([], arrow_type(output.column.type))
                made.append(_column(next(waiting), output.column.type) if computed else empty)
        return replace(
            block,
            schema=self.schema,
            rows=pa.RecordBatch.from_arrays(made, schema=arrow_schema(self.schema)),
            kinds=passed_kinds(block, rows, soft_delete=self.rule.soft_delete),
            sequence=passed(block.sequence),
            row=passed(block.row),
            timestamps_ms=passed(block.timestamps_ms),
        )


@dataclass(frozen=True)
class Typing:
    """A rule checked against a table's schema, before anything is prepared.

    Attributes:
        schema: the resulting schema.
        outputs: its columns.
        condition: the filter, None without one.
    """

    schema: TableSchema
    outputs: tuple[OutputColumn, ...]
    condition: Typed | None


def typing_of(rule: Rule, schema: TableSchema) -> Typing:
    """Check a rule against a table's schema. Needs no engine. Raises SpecError with every problem of the rule.

    The rule keeps what is found: driver and tasks ask for it again and again.
    """
    found: Typing | None = rule.typed.get(schema)
    if found is None:
        found = rule.typed[schema] = _typing_of(rule, schema)
        if len(rule.typed) > MOST_TYPED:
            rule.typed.popitem(last=False)
    return found


def _typing_of(rule: Rule, schema: TableSchema) -> Typing:
    own = {name: function.callee for name, function in rule.own.items()}
    problems: list[Problem] = []
    made: list[OutputColumn] = []
    wanted: Typed | None = None
    try:
        made = outputs(rule, Scope(schema, rule.metadata, own=own))
    except SpecError as error:
        problems += error.problems
    try:
        wanted = _filter(rule, schema, made, own)
    except SpecError as error:
        problems += error.problems if made else ()
    if problems:
        raise SpecError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
    result = resulting_schema(rule, schema, made)
    refuse_deciding(rule, result, made, wanted)
    return Typing(result, tuple(made), wanted)


def compile_rule(rule: Rule, schema: TableSchema, engine: Engine, *, prove: bool = True) -> CompiledRule:
    """Check a rule against a table's schema and prepare it. Raises SpecError with every problem of the rule.

    With `prove`, it is also tried on no row, and its constants by themselves: what only the engine can refuse is then
    found here.
    """
    checked = typing_of(rule, schema)
    made, result, wanted = checked.outputs, checked.schema, checked.condition
    computed = [output for output in made if not output.passes]
    used = dict.fromkeys(
        name
        for node in [*(output.node for output in computed), *([wanted] if wanted else [])]
        for name in columns(node)
    )
    names = (*(name for name in used if name != "__row"), "__row")
    translator = Translator(inputs.engine_names(names))
    arrow = inputs.engine_schema(schema, names)
    expressions = tuple(
        Expression(output.column.name, output.sql, _sql(rule, output, translator), _secret(rule, output.node))
        for output in computed
    )
    whole = _whole(rule, computed, translator, names)
    condition_ = None if wanted is None else _condition(rule, wanted, translator)
    statement = None
    if expressions or condition_ is not None:
        select = [*(['"__row"'] if condition_ is not None else []), *selected(expressions, whole)]
        try:
            statement = engine.shared(select or ["NULL"], condition_.sql if condition_ is not None else None, arrow)
            if prove:
                statement.run(pa.RecordBatch.from_pylist([], schema=arrow))
                _try_constants(checked, translator, engine, arrow)
        except ExpressionFailed:
            _prove(rule, checked, translator, engine, arrow)
            raise
    partition = tuple(next(n for n in result.names if n.casefold() == key.casefold()) for key in rule.partition_keys)
    return CompiledRule(
        rule, made, wanted, engine, expressions, condition_, statement, whole, schema, result, partition,
        rule.table_options, names, arrow,
    )  # fmt: skip


def _filter(rule: Rule, schema: TableSchema, made: Sequence[OutputColumn], own: Mapping[str, object]) -> Typed | None:
    """The filter over source columns, and over computed columns by their names."""
    if rule.filter is None:
        return None
    masked = {mask.column.casefold() for mask in rule.masks}
    aliases = {
        output.column.name: output.node
        for output in made
        if output.column.name.casefold() not in masked
        and not (output.passes and output.column.name == output.node.value)
    }
    scope = Scope(schema, rule.metadata, aliases, own)  # type: ignore[arg-type]
    try:
        return condition(check(rule.filter.node, scope), "a filter")
    except ExpressionError as error:
        raise SpecError([rule.filter.text.problem(each) for each in error.mistakes]) from error


def _text(rule: Rule) -> SqlText:
    return rule.projection.text if rule.projection is not None else rule.masks[0].text


def _sql(rule: Rule, output: OutputColumn, translator: Translator) -> str:
    try:
        sql = translator.sql(output.node)
        return sql if _chosen(output.node) else in_range(sql, output.node.type)
    except ExpressionError as error:
        raise SpecError([_text(rule).problem(each) for each in error.mistakes]) from error


def _chosen(node: Typed) -> bool:
    """Whether a value is one of the row's or the rule's own, and computed of nothing: what was there may stay."""
    if node.op == "CASE":
        return all(map(_chosen, (*node.args[1::2], node.args[-1])))
    if node.op in ("COALESCE", "GREATEST", "LEAST"):
        return all(map(_chosen, node.args))
    widened = node.op == "cast" and kind_of(node.args[0].type) in REALS and kind_of(node.type) is Kind.DOUBLE
    return node.op in ("literal", "column") or (widened and _chosen(node.args[0]))


def _whole(
    rule: Rule, computed: Sequence[OutputColumn], translator: Translator, names: Sequence[str]
) -> dict[int, Whole]:
    """Computed columns that are calls of functions on arrays, by their number; not those without any column in them."""
    found = {}
    for number, output in enumerate(computed):
        own = rule.own.get(output.node.op.removeprefix("own ")) if output.node.op.startswith("own ") else None
        if own is not None and own.whole is not None and columns(output.node):
            empty = pa.array([], arrow_of(output.node.type))
            arguments = tuple(
                names.index(arg.value) if arg.op == "column" else translator.sql(arg) for arg in output.node.args
            )
            found[number] = Whole(own.whole, arguments, empty)
    return found


def _condition(rule: Rule, node: Typed, translator: Translator) -> Expression:
    assert rule.filter is not None
    text = rule.filter.text
    try:
        return Expression("", text.text.strip(), translator.sql(node), _secret(rule, node))
    except ExpressionError as error:
        raise SpecError([text.problem(each) for each in error.mistakes]) from error


def _try_constants(checked: Typing, translator: Translator, engine: Engine, schema: pa.Schema) -> None:
    """Evaluate what reads no column. Raises ExpressionFailed."""
    nodes = [*(output.node for output in checked.outputs), *([checked.condition] if checked.condition else [])]
    found = [translator.sql(constant) for node in nodes for constant in _constants(node)]
    if found:
        with engine.prepare(found, None, schema) as statement:
            statement.run(pa.RecordBatch.from_pylist([{}], schema=schema))


def _prove(rule: Rule, checked: Typing, translator: Translator, engine: Engine, schema: pa.Schema) -> None:
    """Try each expression alone. Raises SpecError for the first that the engine refuses."""
    for output in checked.outputs:
        if not output.passes:
            _proven(output.node, output.sql, _text(rule), translator, engine, schema)
    if checked.condition is not None and rule.filter is not None:
        text = rule.filter.text
        _proven(checked.condition, text.text.strip(), text, translator, engine, schema)


def _secret(rule: Rule, node: Typed) -> bool:
    masked = {mask.column.casefold() for mask in rule.masks}
    return any(column.casefold() in masked for column in columns(node))


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


def _column(array: pa.Array, kind: DataType) -> pa.Array:
    """A computed column as blocks have it."""
    wanted = arrow_type(kind)
    if array.type == wanted:
        return array
    if kind.kind is Kind.TIME:
        return array.view(wanted)
    return array.cast(wanted)
