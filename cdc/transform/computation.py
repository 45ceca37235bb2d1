"""The engine's work for a rule and tables of one schema: the expressions as text and as the engine's SQL."""

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
    """One computed column, or the filter (then `column` is empty).

    Attributes:
        column: name of the resulting column.
        text: as the rule has it.
        sql: the engine's.
        secret: it reads a masked column.
    """

    column: str
    text: str
    sql: str
    secret: bool = False

    @property
    def display_name(self) -> str:
        """The computation's name, for messages."""
        return f"column {self.column}" if self.column else "the filter"


@dataclass(frozen=True, slots=True)
class Whole:
    """A computed column that is nothing but a call of a function on Arrow arrays: called for a whole block at once.

    The engine would call it for 2,048 rows at a time and copy every value twice. It computes the arguments only.

    Attributes:
        call: the function. Raises ValueError.
        arguments: SQL of each argument, or the number of an input column that it is.
        empty: its answer for no row, for which it is not called.
    """

    call: Callable[..., pa.Array]
    arguments: tuple[str | int, ...]
    empty: pa.Array

    @property
    def computed(self) -> list[str]:
        """SQL of the arguments that the engine computes."""
        return [each for each in self.arguments if isinstance(each, str)]

    def answer(self, columns: Iterator[pa.ChunkedArray], read: Callable[[int], pa.Array]) -> pa.Array:
        """The computed column; `columns` are the next computed ones, `read` gives an input column.

        Raises ValueError.
        """
        given = [read(each) if isinstance(each, int) else next(columns) for each in self.arguments]
        return self.call(*given) if len(given[0]) else self.empty


@dataclass(frozen=True)
class Computation:
    """Belongs to the engine's thread.

    Attributes:
        rule: what the file says.
        outputs: the resulting columns.
        condition: the filter, None without one.
        expressions, filter: what is computed of them.
        statement: all of it in one, None when nothing is computed.
        whole: calls that the statement has the arguments of, by the number of their expression.
    """

    rule: Rule
    outputs: tuple[OutputColumn, ...]
    condition: Typed | None
    engine: Engine
    expressions: tuple[Expression, ...]
    filter: Expression | None
    statement: PreparedStatement | None
    whole: dict[int, Whole]

    def run(self, batch: pa.RecordBatch) -> pa.Table:
        """The numbers of the rows that pass, where there is a filter, and all computed columns of them.

        Raises ExpressionFailed.
        """
        assert self.statement is not None
        if not self.whole:
            return self.statement.run(batch)
        computes = self.filter is not None or selected(self.expressions, self.whole)
        columns = iter(self.statement.run(batch).columns if computes else ())
        rows = None if self.filter is None else next(columns).combine_chunks()

        def read(number: int) -> pa.Array:
            return batch.column(number) if rows is None else batch.column(number).take(rows)

        made: list[pa.Array] = [] if rows is None else [rows]
        try:
            for number in range(len(self.expressions)):
                call = self.whole.get(number)
                made.append(next(columns) if call is None else call.answer(columns, read))
        except ValueError as error:
            raise ExpressionFailed(str(error)) from error
        return pa.table(made, names=[f"r{number}" for number in range(len(made))])


def selected(expressions: tuple[Expression, ...], whole: dict[int, Whole]) -> list[str]:
    """The expressions that a statement selects: of functions that are called as a whole, their arguments."""
    return [
        sql
        for number, each in enumerate(expressions)
        for sql in (whole[number].computed if number in whole else (each.sql,))
    ]
