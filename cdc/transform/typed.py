"""Typed expression trees, built by the checker and translated to SQL. Conversions are nodes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from cdc.schema import DataType, Kind
from cdc.transform.syntax import ExpressionError, Mistake, Span
from cdc.transform.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    NULL,
    STRING,
    NullType,
    SqlType,
    decimal,
    is_number,
    is_text,
    kind_of,
)

NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Typed:
    """One node with its type.

    Attributes:
        op: `literal`, `column`, `cast`, `try_cast`, an operator or a function.
        type: type of its values.
        args: its operands.
        nullable: whether it can be NULL.
        fails: whether its evaluation can fail.
        value: a literal's value, a column's name, or a constant for the translator.
        span: its position in the text.
    """

    op: str
    type: SqlType
    args: tuple[Typed, ...] = ()
    nullable: bool = True
    fails: bool = False
    value: Any = None
    span: Span = NOWHERE


Rule = Callable[[list[Typed], Span], Typed]


def walk(node: Typed) -> Iterator[Typed]:
    """Yield the node and all its descendants."""
    yield node
    for arg in node.args:
        yield from walk(arg)


def columns(node: Typed) -> list[str]:
    """Return the columns that an expression reads, each once."""
    return list(dict.fromkeys(found.value for found in walk(node) if found.op == "column"))


def call(op: str, kind: SqlType, args: list[Typed], span: Span, **extra: Any) -> Typed:
    """Build a node that is NULL when an operand is, and fails when an operand does, unless `extra` overrides that."""
    extra.setdefault("nullable", any(arg.nullable for arg in args))
    extra["fails"] = extra.get("fails", False) or any(arg.fails for arg in args)
    return Typed(op, kind, tuple(args), span=span, **extra)


def literal(value: object, span: Span) -> Typed:
    """Build a constant of the smallest fitting type: INT, BIGINT, DECIMAL, DOUBLE, STRING, BOOLEAN, BYTES or NULL."""
    kind: SqlType
    if value is None:
        kind = NULL
    elif isinstance(value, bool):
        kind = BOOLEAN
    elif isinstance(value, int):
        kind = INT if -(2**31) <= value < 2**31 else BIGINT if -(2**63) <= value < 2**63 else _decimal(value, span)
    elif isinstance(value, Decimal):
        kind = _decimal(value, span)
    else:
        kind = DOUBLE if isinstance(value, float) else BYTES if isinstance(value, bytes) else STRING
    return Typed("literal", kind, nullable=value is None, value=value, span=span)


def _decimal(value: int | Decimal, span: Span) -> DataType:
    _, numbers, exponent = Decimal(value).as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(numbers), scale, 1)
    if precision > 38:
        raise mistake(span, f"the number has {precision} digits, expressions compute with up to 38", "shorten it")
    return decimal(precision, scale)


def cast(node: Typed, to: SqlType, *, safe: bool = False, span: Span | None = None) -> Typed:
    """Convert a node; the caller has checked that the conversion exists."""
    if node.type == to or isinstance(to, NullType):
        return node
    if isinstance(node.type, NullType) and node.op == "literal":
        return replace(node, type=to)
    fails = not _harmless(node.type, to)
    return Typed(
        "try_cast" if safe else "cast", to, (node,), node.nullable or (safe and fails),
        (fails and not safe) or node.fails, span=span or node.span,
    )  # fmt: skip


_INTEGER_RANK = {Kind.TINYINT: 1, Kind.SMALLINT: 2, Kind.INT: 3, Kind.BIGINT: 4}


def _harmless(source: SqlType, to: SqlType) -> bool:
    """Whether every value can be converted."""
    if isinstance(source, NullType):
        return True
    if is_text(source) and is_text(to):
        return True
    if is_number(source) and (kind_of(to) is Kind.DOUBLE or is_text(to)):
        return True
    from_kind, to_kind = kind_of(source), kind_of(to)
    if from_kind in _INTEGER_RANK and to_kind in _INTEGER_RANK:
        return _INTEGER_RANK[from_kind] <= _INTEGER_RANK[to_kind]
    if to_kind is Kind.DECIMAL and is_number(source) and kind_of(source) not in (Kind.FLOAT, Kind.DOUBLE):
        from cdc.transform.types import digits

        (p1, s1), (p2, s2) = digits(source), digits(to)
        return p1 - s1 <= p2 - s2 and s1 <= s2
    moments = (Kind.DATE, Kind.TIMESTAMP)
    return from_kind in moments and (to_kind in moments or is_text(to))


def mistake(span: Span, message: str, hint: str = "") -> ExpressionError:
    """Return an error about one position in the text."""
    return ExpressionError(Mistake(span, message, hint))
