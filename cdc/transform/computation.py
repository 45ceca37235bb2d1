"""What the engine computes of a rule for tables of one schema: the expressions as text and as the engine's SQL."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.transform.engine import Engine, Statement
from cdc.transform.outputs import Output
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
    def what(self) -> str:
        """For messages."""
        return f"column {self.column}" if self.column else "the filter"


@dataclass(frozen=True)
class Computation:
    """Belongs to the engine's thread.

    Attributes:
        rule: what the file says.
        outputs: the resulting columns.
        condition: the filter, None without one.
        expressions, filter: what is computed of them.
        statement: all of it in one, None when nothing is computed.
    """

    rule: Rule
    outputs: tuple[Output, ...]
    condition: Typed | None
    engine: Engine
    expressions: tuple[Expression, ...]
    filter: Expression | None
    statement: Statement | None
