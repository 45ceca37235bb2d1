"""The syntax tree of an expression: a few node classes, each with its position in the text. Operators are calls too.

`a + 1` is `Call("+", (Name("a"), Literal(1)))`, `CASE` is `Call("CASE", (condition, value, ..., otherwise))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from cdc.schema import DataType


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets into the text, `end` exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake in an expression, without file and line yet."""

    span: Span
    message: str
    hint: str = ""


class ExpressionError(Exception):
    """An invalid expression; has each mistake once. Never leaves `cdc.transform`."""

    def __init__(self, *mistakes: Mistake) -> None:
        self.mistakes = tuple(dict.fromkeys(mistakes))  # a branch of CASE is converted for each of its values
        super().__init__("; ".join(mistake.message for mistake in self.mistakes))


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int, Decimal (with a point), float (with an exponent), str, bool, bytes or None."""

    value: int | Decimal | float | str | bool | bytes | None
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A column, a metadata column or an alias of the projection."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function. `name` is upper case for built-in ones."""

    name: str
    args: tuple[Node, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(arg AS type)`; with `safe`, `TRY_CAST`."""

    arg: Node
    type: DataType
    safe: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Interval:
    """A constant interval: months, or days and microseconds. A day is a calendar day, unlike 24 hours."""

    months: int
    days: int
    microseconds: int
    span: Span


Node = Literal | Name | Call | Cast | Interval


@dataclass(frozen=True, slots=True)
class Star:
    """`*` in a projection: every source column."""

    span: Span


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a projection: an expression and the name its column gets."""

    name: str
    node: Node
    span: Span


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of a node."""
    if isinstance(node, Call):
        return node.args
    return (node.arg,) if isinstance(node, Cast) else ()


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and all its descendants, in the order of the text."""
    yield node
    for child in children(node):
        yield from walk(child)


def names(node: Node) -> Iterator[Name]:
    """Yield the names in an expression, with repeats."""
    return (found for found in walk(node) if isinstance(found, Name))
