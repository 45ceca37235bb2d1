"""Handles values on which an expression fails: finds row and expression, or replaces them by NULL and counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from cdc.block import ChangeBlock
from cdc.dead_letters import DeadLetter
from cdc.errors import TransformError
from cdc.schema import TableId
from cdc.transform.computation import Computation, Expression
from cdc.transform.engine import Engine, ExpressionFailed, PreparedStatement

SECRET = "the engine's message is omitted, as it could show a masked value"


@dataclass
class Counts:
    """Counts of values on which an expression failed, by table and column (empty for the filter).

    Attributes:
        values: number of values replaced by NULL.
        left_out: number of rejected rows, each counted for the first expression that failed on it.
        dead_letters: the rejected rows, until they are taken.
    """

    values: Counter[tuple[TableId, str]] = field(default_factory=Counter)
    left_out: Counter[tuple[TableId, str]] = field(default_factory=Counter)
    dead_letters: list[DeadLetter] = field(default_factory=list)


def tolerant(
    compiled: Computation, block: ChangeBlock, batch: pa.RecordBatch, error: ExpressionFailed,
    counts: Counts | None,
) -> pa.Table:  # fmt: skip
    """Return the result of a batch in which some value failed. Raises TransformError unless the rule says `null`."""
    filter_ = compiled.filter
    if compiled.rule.on_error != "null":
        raise _locate_failure(compiled, block, batch, error)
    found = counts if counts is not None else Counts()
    where = f"TRY({filter_.sql})" if filter_ is not None else None
    select = [*(['"__row"'] if filter_ is not None else []), *(f"TRY({each.sql})" for each in compiled.expressions)]
    with compiled.engine.prepare(select, where, batch.schema) as statement:
        result = statement.run(batch)
    for each in compiled.expressions:
        found.values[block.table, each.column] += _failing(compiled.engine, each, where, batch)
    if filter_ is not None:
        found.values[block.table, ""] += _failing(compiled.engine, filter_, None, batch)
    found.values = +found.values
    return result


def _failing(engine: Engine, expression: Expression, where: str | None, batch: pa.RecordBatch) -> int:
    """Return the number of rows on which an expression fails."""
    count = f"count(*) FILTER (WHERE TRY(({expression.sql}) IS NULL) IS NULL)"
    with engine.prepare([count], where, batch.schema) as statement:
        return int(statement.run(batch).column(0)[0].as_py())


def _locate_failure(
    compiled: Computation, block: ChangeBlock, batch: pa.RecordBatch, error: ExpressionFailed
) -> TransformError:
    """Return the error with its row and expression, found by bisecting the batch."""
    filter_ = compiled.filter
    where = filter_.sql if filter_ is not None else None
    attempts = [(each, [each.sql], where) for each in compiled.expressions]
    if filter_ is not None:
        attempts.insert(0, (filter_, ['"__row"'], where))
    for expression, select, condition in attempts:
        with compiled.engine.prepare(select, condition, batch.schema) as statement:
            row, reason = _first_failing_row(statement, batch)
        if row is not None:
            if expression.secret:
                reason = SECRET
            return explain(compiled, block, row, expression.display_name, expression.text, reason)
    return explain(compiled, block, None, "the rule", "", str(error))


def _first_failing_row(statement: PreparedStatement, batch: pa.RecordBatch) -> tuple[int | None, str]:
    """Return the first row that fails and the engine's message; (None, '') when none does."""

    def failure(start: int, count: int) -> str | None:
        try:
            statement.run(batch.slice(start, count))
        except ExpressionFailed as error:
            return str(error)
        return None

    start, count = 0, batch.num_rows
    reason = failure(start, count)
    if reason is None:
        return None, ""
    while count > 1:
        half = count // 2
        first = failure(start, half)
        if first is not None:
            count, reason = half, first
        else:
            start, count = start + half, count - half
    return start, failure(start, 1) or reason


def explain(
    compiled: Computation, block: ChangeBlock, row: int | None, display_name: str, text: str, reason: str
) -> TransformError:
    """Return the error for the user: table, key, column, expression and the next step; never a masked value."""
    masked = {mask.column.casefold() for mask in compiled.rule.masks}
    key = ", ".join(
        f"{name}={'(masked)' if name.casefold() in masked else block.rows.column(name)[row].as_py()}"
        for name in (block.schema.primary_key if row is not None else ())
    )
    where = f"{compiled.rule.name}: table {block.table}, {display_name}"
    at = block.position_text(block.sequence[row].as_py()) if row is not None else ""
    location = f" of the row {key}" if key else f" of the row at {at}" if at else ""
    hint = "guard it with TRY_CAST or CASE, or set on-error: null or dead-letter for the rule"
    return TransformError(f"`{text}`{location}: {reason}", where=where, hint=hint)
