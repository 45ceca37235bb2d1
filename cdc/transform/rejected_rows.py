"""Rejects rows on which an expression fails and writes them to dead letters: `on-error: dead-letter`.

Such a row is treated as rejected by the filter: an update to it becomes a delete in the sink, an update from it an
insert. So the sink has exactly the rows that could be computed, in whatever order the others came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.block import ChangeBlock, RowKind
from cdc.dead_letters import DeadLetter, Rejected, cell
from cdc.transform.catalogue.mask import MASKS
from cdc.transform.computation import Computation, Expression
from cdc.transform.engine import Engine, ExpressionFailed
from cdc.transform.failures import SECRET, Counts, explain
from cdc.transform.typed import Typed, columns

HIDDEN = "(masked)"
_MOST_EXPLAINED = 100
"""Maximum number of rows per block and expression with a message of their own; others get that of the first row."""


def without_failing(
    compiled: Computation, block: ChangeBlock, batch: pa.RecordBatch, error: ExpressionFailed,
    counts: Counts | None,
) -> tuple[pa.Table, npt.NDArray[np.int64]]:  # fmt: skip
    """Return the result for rows on which no expression fails, and their indexes; `counts` gets the others' letters.

    Raises TransformError when the failure is not due to a row.
    """
    failing = _failing(compiled, batch)
    if not failing:
        raise explain(compiled, block, None, "the rule", "", str(error)) from error
    found = counts if counts is not None else Counts()
    for dead_letter, column in _dead_letters(compiled, block, failing):
        found.dead_letters.append(dead_letter)
        found.left_out[block.table, column] += 1
    passed = np.setdiff1d(np.arange(batch.num_rows, dtype=np.int64), np.fromiter(failing, np.int64))
    try:
        return compiled.run(batch.take(pa.array(passed))), passed
    except ExpressionFailed as again:
        raise explain(compiled, block, None, "the rule", "", str(again)) from again


_Failing = dict[int, list[tuple[Expression, str]]]
"""By row: the expressions that fail on it, with the engine's message."""


def _failing(compiled: Computation, batch: pa.RecordBatch) -> _Failing:
    found: defaultdict[int, list[tuple[Expression, str]]] = defaultdict(list)
    filter_ = compiled.filter
    for each in (*((filter_,) if filter_ is not None else ()), *compiled.expressions):
        fails = f"TRY(({each.sql}) IS NULL) IS NULL"
        passes = "" if filter_ is None or each is filter_ else f" AND TRY({filter_.sql})"
        with compiled.engine.prepare(['"__row"'], f"{fails}{passes}", batch.schema) as statement:
            rows = statement.run(batch).column(0).to_pylist()
        for row, reason in zip(rows, _reasons(compiled.engine, each, batch, rows), strict=True):
            found[row].append((each, reason))
    return dict(sorted(found.items()))


def _reasons(engine: Engine, expression: Expression, batch: pa.RecordBatch, rows: list[int]) -> Iterator[str]:
    """Yield the engine's message for each row; `SECRET` where it could show a masked value."""
    first = SECRET
    with engine.prepare([expression.sql], None, batch.schema) as statement:
        for number, row in enumerate(rows):
            if expression.secret or number >= _MOST_EXPLAINED:
                yield first
                continue
            reason = "it fails only together with other rows"
            try:
                statement.run(batch.slice(row, 1))
            except ExpressionFailed as error:
                reason = str(error)
            first = reason if number == 0 else first
            yield reason


def _dead_letters(compiled: Computation, block: ChangeBlock, failing: _Failing) -> Iterator[tuple[DeadLetter, str]]:
    """Yield a letter for each new or changed row, and the column (empty for the filter) that it is counted for."""
    hidden = _hidden(compiled)
    passing = [output.node.value for output in compiled.outputs if output.passes]
    nodes = {output.column.name: output.node for output in compiled.outputs}
    types = {output.column.name: str(output.column.type) for output in compiled.outputs}
    for row, failures in failing.items():
        if block.kinds[row].as_py() not in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            continue
        read = {name for each, _ in failures for name in _read(compiled, nodes, each)}
        names = [name for name in block.schema.names if name in read or name in passing]
        values = {
            name: HIDDEN if name.casefold() in hidden else cell(block.rows, name, row)
            for name in dict.fromkeys((*block.schema.primary_key, *names))
        }
        yield DeadLetter(
            table=str(block.table),
            position=block.position_text(block.sequence[row].as_py()),
            operation="upsert",
            key={name: values[name] for name in block.schema.primary_key},
            rejected=tuple(
                Rejected(each.column or "(filter)", types.get(each.column, "BOOLEAN"), reason, each.text)
                for each, reason in failures
            ),
            row={name: values[name] for name in names},
        ), failures[0][0].column  # fmt: skip


def _read(compiled: Computation, nodes: dict[str, Typed], expression: Expression) -> Iterator[str]:
    """Yield the source columns that an expression reads."""
    node = nodes[expression.column] if expression.column else compiled.condition
    yield from () if node is None else columns(node)


def _hidden(compiled: Computation) -> set[str]:
    """Return the source columns whose values must not be shown: those in `mask`, and those in masking functions."""
    names = {mask.column.casefold() for mask in compiled.rule.masks}
    nodes = [output.node for output in compiled.outputs if not output.passes]
    while nodes:
        node = nodes.pop()
        if node.op in MASKS:
            names |= {name.casefold() for name in columns(node)}
        nodes += node.args
    return names
