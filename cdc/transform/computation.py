"""The expressions of a rule for tables of one schema, as text and as the engine's SQL, and their evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from cdc.transform.engine import Engine, ExpressionFailed, PreparedStatement
from cdc.transform.outputs import OutputColumn
from cdc.transform.rule import Rule
from cdc.transform.typed import Typed


@dataclass(frozen=True, slots=True)
class Expression:
    """A computed column, or the filter.

    Attributes:
        column: name of the resulting column; empty for the filter.
        text: the expression as in the rule.
        sql: the engine's SQL.
        secret: whether it reads a masked column.
    """

    column: str
    text: str
    sql: str
    secret: bool = False

    @property
    def display_name(self) -> str:
        """The name in messages."""
        return f"column {self.column}" if self.column else "the filter"


@dataclass(frozen=True, slots=True)
class BlockCall:
    """A computed column that is just a call of a function on Arrow arrays: called once for a whole block.

    The engine would call it for 2,048 rows at a time and copy every value twice, so it only computes the arguments.

    Attributes:
        call: the function. Raises ValueError.
        arguments: for each argument its SQL, or the number of an input column.
        empty: the result for no rows, for which the function is not called.
    """

    call: Callable[..., pa.Array]
    arguments: tuple[str | int, ...]
    empty: pa.Array

    @property
    def computed(self) -> list[str]:
        """The SQL of the arguments that the engine computes."""
        return [each for each in self.arguments if isinstance(each, str)]

    def answer(self, columns: Iterator[pa.ChunkedArray], read: Callable[[int], pa.Array]) -> pa.Array:
        """Compute the column; `columns` are the next computed columns, `read` returns an input column.

        Raises ValueError.
        """
        arguments = [read(each) if isinstance(each, int) else next(columns) for each in self.arguments]
        return self.call(*arguments) if len(arguments[0]) else self.empty


@dataclass(frozen=True)
class Computation:
    """The evaluation of a rule's expressions. Used only in the engine's thread.

    Attributes:
        rule: the parsed rule.
        outputs: the resulting columns.
        condition: the filter, None without one.
        expressions, filter: the computed columns and the filter, as SQL.
        statement: the statement that computes all of them; None when nothing is computed.
        block_calls: function calls of which the statement computes only the arguments, by number of the expression.
    """

    rule: Rule
    outputs: tuple[OutputColumn, ...]
    condition: Typed | None
    engine: Engine
    expressions: tuple[Expression, ...]
    filter: Expression | None
    statement: PreparedStatement | None
    block_calls: dict[int, BlockCall]

    def run(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the indexes of the rows that pass, if there is a filter, and all their computed columns.

        Raises ExpressionFailed.
        """
        assert self.statement is not None
        if not self.block_calls:
            return self.statement.run(batch)
        computes = self.filter is not None or selected(self.expressions, self.block_calls)
        columns = iter(self.statement.run(batch).columns if computes else ())
        rows = None if self.filter is None else next(columns).combine_chunks()

        def read(number: int) -> pa.Array:
            return batch.column(number) if rows is None else batch.column(number).take(rows)

        made: list[pa.Array] = [] if rows is None else [rows]
        try:
            for number in range(len(self.expressions)):
                call = self.block_calls.get(number)
                made.append(next(columns) if call is None else call.answer(columns, read))
        except ValueError as error:
            raise ExpressionFailed(str(error)) from error
        return pa.table(made, names=[f"r{number}" for number in range(len(made))])


def selected(expressions: tuple[Expression, ...], whole: dict[int, BlockCall]) -> list[str]:
    """Return the expressions that a statement selects; for functions called on whole blocks, their arguments."""
    return [
        sql
        for number, each in enumerate(expressions)
        for sql in (whole[number].computed if number in whole else (each.sql,))
    ]
