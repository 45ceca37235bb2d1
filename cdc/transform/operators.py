"""Typing rules of operators: comparison, logic, arithmetic, CASE and the like. Each takes operands, returns a node."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from cdc.schema import DataType, Kind
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, cast, literal, mistake
from cdc.transform.types import (
    BOOLEAN,
    DATE,
    DIGITS,
    DOUBLE,
    MOMENTS,
    STRING,
    Array,
    IntervalType,
    Map,
    NullType,
    RowType,
    SqlType,
    common_integer,
    common_number,
    common_real,
    common_type,
    decimal,
    digits,
    is_integer,
    is_number,
    is_shown,
    is_text,
    is_wide,
    kind_of,
)
from cdc.types.kinds import REALS

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
MOST_EXPONENT = 400
"""No type holds numbers beyond this power of ten."""
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def compare(op: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Type a comparison of two values of one type family; numbers of different types are compared by value."""
    left, right = _adapted(left, right.type), _adapted(right, left.type)
    nullable = not op.startswith("IS") and (left.nullable or right.nullable)
    for side in (left, right):
        _comparable(side, op)
    if isinstance(left.type, NullType) or isinstance(right.type, NullType):
        known = left.type if isinstance(right.type, NullType) else right.type
        return call(op, BOOLEAN, [cast(left, known), cast(right, known)], span, nullable=nullable)
    if is_number(left.type) and is_number(right.type):
        both = [left.type, right.type]
        common = DOUBLE if any(kind_of(kind) in REALS for kind in both) else common_number(both)
        if common is None:
            return call(f"wide {op}", BOOLEAN, [left, right], span, nullable=nullable, value=_wide_scale(left, right))
    else:
        found = STRING if is_text(left.type) and is_text(right.type) else common_type([left.type, right.type])
        if not isinstance(found, DataType) or kind_of(found) is None:
            hint = "CAST one of them to the type of the other"
            raise mistake(span, f"{left.type} cannot be compared with {right.type}", hint)
        common = replace(found, length=6) if found.kind in MOMENTS and found.kind is not Kind.DATE else found
        if common.kind is Kind.TIME:
            common = replace(common, length=6)
    return call(op, BOOLEAN, [cast(left, common), cast(right, common)], span, nullable=nullable)


def _wide_scale(left: Typed, right: Typed) -> int:
    return max(digits(left.type)[1], digits(right.type)[1])


def _comparable(node: Typed, op: str) -> None:
    if is_wide(node.type):
        hint = "CAST it to a decimal of at most 38 digits, or to STRING"
        raise mistake(node.span, f"{node.type} has more digits than expressions compute with", hint)
    if isinstance(node.type, Array | Map | RowType | IntervalType) or kind_of(node.type) in (
        Kind.JSON, Kind.GEOMETRY, Kind.VECTOR,
    ):  # fmt: skip
        raise mistake(node.span, f"{node.type} cannot be compared with {op}", "CAST it, or take a part of it")


def _adapted(node: Typed, to: object) -> Typed:
    """Convert a text literal to the type of the other operand; text that cannot be converted is a mistake."""
    if node.op != "literal" or not isinstance(node.value, str) or not isinstance(to, DataType) or is_text(to):
        return node
    text = node.value.strip()
    try:
        if is_number(to):
            number = Decimal(text) if _NUMBER.fullmatch(text) else Decimal("NaN")
            if not number.is_finite() or abs(number.adjusted()) > MOST_EXPONENT:
                raise InvalidOperation
            return literal(int(number) if number == number.to_integral_value() else number, node.span)
        if to.kind is Kind.DATE:
            moment = datetime.datetime.fromisoformat(text)
            midnight = moment.time() == datetime.time() and moment.tzinfo is None
            return cast(node, DATE if midnight and len(text) == 10 else DataType(Kind.TIMESTAMP, 6))
        if to.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
            datetime.datetime.fromisoformat(text)
            return cast(node, replace(to, length=6))
        if to.kind is Kind.TIME:
            datetime.time.fromisoformat(text)
            return cast(node, replace(to, length=6))
    except (ValueError, InvalidOperation) as error:
        raise mistake(
            node.span, f"'{node.value}' is not a value of type {to}", "correct it, or CAST the other side"
        ) from error
    return node


def condition(node: Typed, name: str) -> Typed:
    """Return the node if it is a condition. Raises ExpressionError."""
    if isinstance(node.type, NullType):
        return cast(node, BOOLEAN)
    if node.type != BOOLEAN:
        hint = "write a comparison, such as x <> 0" if is_number(node.type) else "write a comparison"
        raise mistake(node.span, f"{name} needs a condition, got {node.type}", hint)
    return node


def logic(op: str, args: list[Typed], span: Span) -> Typed:
    """Type AND and OR; chains become one node, so that the translator can guard each operand by the earlier ones."""
    flat: list[Typed] = []
    for arg in args:
        flat += arg.args if arg.op == op else [condition(arg, op)]
    return call(op, BOOLEAN, flat, span)


def is_in(args: list[Typed], span: Span) -> Typed:
    """Type IN: equivalent to comparisons with `=` joined by OR."""
    pairs = [compare("=", args[0], each, span) for each in args[1:]]
    first = pairs[0].args[0]
    if all(pair.op == "=" and pair.args[0] == first for pair in pairs):
        return call("IN", BOOLEAN, [first, *(pair.args[1] for pair in pairs)], span)
    return logic("OR", list(pairs), span) if len(pairs) > 1 else pairs[0]


def arithmetic(op: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Type + - * / % on numbers, and moments with intervals."""
    left, right = _adapted_number(left), _adapted_number(right)
    if any(
        isinstance(side.type, IntervalType) or kind_of(side.type) in (*MOMENTS, Kind.TIME) for side in (left, right)
    ):
        return _moment(op, left, right, span)
    for side in (left, right):
        if not is_number(side.type) and not isinstance(side.type, NullType):
            hint = "CAST it to a decimal of at most 38 digits" if is_wide(side.type) else "CAST it to a number"
            raise mistake(side.span, f"{op} takes numbers, got {side.type}", hint)
    kinds = [side.type for side in (left, right) if not isinstance(side.type, NullType)] or [
        common_integer([decimal(1, 0)])
    ]
    if any(kind_of(kind) in REALS for kind in kinds):
        real = common_real(kinds)
        return call(op, real, [cast(left, real), cast(right, real)], span, fails=True)
    left, right = cast(left, kinds[0]), cast(right, kinds[-1])
    if all(is_integer(kind) for kind in kinds):
        common = common_integer(kinds)
        if common.kind is not Kind.DECIMAL:
            return call(op, common, [cast(left, common), cast(right, common)], span, fails=True)
        if op in ("/", "DIV"):
            return call("DIV", common, [cast(left, common), cast(right, common)], span, fails=True)
    if op == "DIV":
        raise mistake(span, "DIV divides integers", "write / for decimals")
    return _decimals(op, left, right, span)


def _adapted_number(node: Typed) -> Typed:
    if node.op == "literal" and isinstance(node.value, str):
        hint = "CAST it to a number, or write it without quotes"
        raise mistake(node.span, f"arithmetic takes numbers, got the text '{node.value}'", hint)
    return node


def _decimals(op: str, left: Typed, right: Typed, span: Span) -> Typed:
    (p1, s1), (p2, s2) = digits(left.type), digits(right.type)
    if op in ("+", "-"):
        scale = max(s1, s2)
        kind = decimal(min(max(p1 - s1, p2 - s2) + scale + 1, DIGITS), scale)
        if max(p1 - s1, p2 - s2) + scale > DIGITS:
            raise _too_wide(op, left, right, span)
        return call(op, kind, [cast(left, kind), cast(right, kind)], span, fails=True)
    if op == "*":
        if s1 + s2 > DIGITS:
            raise _too_wide(op, left, right, span)
        kind = decimal(min(p1 + p2, DIGITS), s1 + s2)
        return call(op, kind, [left, right], span, fails=True, value=(decimal(kind.length or DIGITS, s1), right.type))
    if op == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
        scale -= max(precision - DIGITS, 0)
        if scale < min(6, max(s1, 6)):
            raise _too_wide(op, left, right, span)
        kind = decimal(min(precision, DIGITS), scale)
        return call(
            op, kind, [cast(left, decimal(p1, s1)), cast(right, decimal(p2, s2))], span, fails=True, value=scale
        )
    common = common_number([left.type, right.type])
    if common is None:
        raise _too_wide(op, left, right, span)
    scale = max(s1, s2)
    kind = decimal(min(min(p1 - s1, p2 - s2) + scale, DIGITS), scale)
    return cast(
        call(op, common, [cast(left, common), cast(right, common)], span, fails=True), max(kind, common, key=digits)
    )


def _too_wide(op: str, left: Typed, right: Typed, span: Span) -> Exception:
    message = f"the result of {left.type} {op} {right.type} needs more than {DIGITS} digits"
    return mistake(span, message, "CAST the operands to fewer digits")


def _moment(op: str, left: Typed, right: Typed, span: Span) -> Typed:
    if isinstance(left.type, IntervalType) and op == "+":
        left, right = right, left
    clock = kind_of(left.type) is Kind.TIME
    if (
        op not in ("+", "-")
        or not isinstance(right.type, IntervalType)
        or kind_of(left.type) not in MOMENTS | {Kind.TIME}
    ):
        hint = "moments take + and - with an INTERVAL; TIMESTAMPDIFF tells how far two are apart"
        raise mistake(span, f"{left.type} {op} {right.type} has no meaning", hint)
    months, days, microseconds = right.value
    if clock and months:
        raise mistake(right.span, "a TIME takes an INTERVAL of days and less", "months have no fixed length")
    sign = 1 if op == "+" else -1
    kind = left.type
    if kind == DATE and microseconds:
        kind = DataType(Kind.TIMESTAMP, 0 if microseconds % 1_000_000 == 0 else 6)
    elif isinstance(kind, DataType) and kind != DATE and microseconds % 1_000_000:
        kind = replace(kind, length=6)
    shift = (sign * months, sign * days, sign * microseconds)
    return call("SHIFT", kind, [cast(left, kind)], span, fails=True, value=shift)


def negative(args: list[Typed], span: Span) -> Typed:
    """Type unary minus as 0 - x, so that the smallest integer fails instead of changing its type."""
    return arithmetic("-", literal(0, span), args[0], span)


def one_of(name: str, args: list[Typed], span: Span) -> tuple[DataType | Array | Map | RowType | NullType, list[Typed]]:
    """Return the common type of values, and each converted to it."""
    known = [arg for arg in args if not isinstance(arg.type, NullType)]
    first = next((arg for arg in known if not (arg.op == "literal" and isinstance(arg.value, str))), None)
    args = [_adapted(arg, first.type) if first is not None and not is_text(first.type) else arg for arg in args]
    kind = common_type([arg.type for arg in args])
    if kind is None or isinstance(kind, IntervalType):
        names = ", ".join(dict.fromkeys(str(arg.type) for arg in known))
        raise mistake(span, f"{name} needs values of one type, got {names}", "CAST them to one type")
    return kind, [cast(arg, kind) for arg in args]


def _alternatives(name: str, args: list[Typed], span: Span) -> tuple[SqlType, list[Typed]]:
    """Return the common type of alternatives, and each converted to it, as Flink CDC does: with one text all are text,
    and FLOAT with integers is FLOAT."""
    kinds = [arg.type for arg in args if not isinstance(arg.type, NullType)]
    if any(map(is_text, kinds)) and not all(map(is_text, kinds)) and all(map(is_shown, kinds)):
        return STRING, [cast(arg, STRING) for arg in args]
    if any(kind_of(kind) is Kind.FLOAT for kind in kinds) and all(map(is_number, kinds)):
        real = common_real(kinds)
        return real, [cast(arg, real) for arg in args]
    return one_of(name, args, span)


def case(args: list[Typed], span: Span) -> Typed:
    """Type CASE: alternating conditions and values, the value of ELSE at the end."""
    conditions = [condition(arg, "WHEN") for arg in args[:-1:2]]
    kind, values = _alternatives("CASE", [*args[1::2], args[-1]], span)
    mixed = [each for pair in zip(conditions, values, strict=False) for each in pair]
    return call("CASE", kind, [*mixed, values[-1]], span, nullable=any(value.nullable for value in values))


def if_(args: list[Typed], span: Span) -> Typed:
    """Type IF(condition, value, otherwise)."""
    return case(args, span)


def coalesce(args: list[Typed], span: Span) -> Typed:
    """Type COALESCE and IFNULL: the first value that is not NULL."""
    kind, values = _alternatives("COALESCE", args, span)
    return call("COALESCE", kind, values, span, nullable=all(value.nullable for value in values))


def nullif(args: list[Typed], span: Span) -> Typed:
    """Type NULLIF(a, b): a, or NULL when they are equal."""
    equal = compare("=", args[0], args[1], span)
    kind = args[0].type
    return call("CASE", kind, [equal, cast(literal(None, span), kind), args[0]], span, nullable=True)


def extreme(op: str) -> Callable[[list[Typed], Span], Typed]:
    """Return the rule of GREATEST and LEAST: NULLs are ignored, NULL when all are."""

    def rule(args: list[Typed], span: Span) -> Typed:
        kind, values = one_of(op, args, span)
        for value in values:
            _comparable(value, op)
        return call(op, kind, values, span, nullable=all(value.nullable for value in values))

    return rule


def is_null(args: list[Typed], span: Span) -> Typed:
    """Type IS NULL, for any type."""
    return call("IS NULL", BOOLEAN, args, span, nullable=False)


def is_truth(op: str) -> Callable[[list[Typed], Span], Typed]:
    """Return the rule of IS TRUE or IS FALSE."""

    def rule(args: list[Typed], span: Span) -> Typed:
        return call(op, BOOLEAN, [condition(args[0], op)], span, nullable=False)

    return rule


def negation(args: list[Typed], span: Span) -> Typed:
    """Type NOT."""
    return call("NOT", BOOLEAN, [condition(args[0], "NOT")], span)
