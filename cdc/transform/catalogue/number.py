"""Numeric functions, and functions that choose between values."""

from __future__ import annotations

from cdc.schema import DataType, Kind
from cdc.transform import operators
from cdc.transform.catalogue.function import Function, ResultRule, SqlRule, aliases, same_as_first
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, mistake
from cdc.transform.types import DOUBLE, INT, STRING, decimal, digits, is_integer, kind_of

_G, _C = "Numbers", "Choices"
_MATHS = "Flink CDC has no such function."


def _integral_rule(name: str) -> ResultRule:
    def rule(args: list[Typed], span: Span) -> Typed:
        kind = args[0].type
        if kind_of(kind) is Kind.DECIMAL:
            precision, scale = digits(kind)
            kind = decimal(min(max(precision - scale, 0) + 1, 38), 0)
        return call(name, kind, args, span, fails=True)

    return rule


def _round(args: list[Typed], span: Span) -> Typed:
    kind = args[0].type
    places = 0 if len(args) == 1 else args[1].args[0].value if args[1].op == "cast" else args[1].value
    if len(args) == 2 and not isinstance(places, int):
        raise mistake(args[1].span, "ROUND takes a constant number of decimals", "write it as a number")
    assert isinstance(places, int)
    if kind_of(kind) is Kind.DECIMAL:
        precision, scale = digits(kind)
        result_scale = min(max(places, 0), scale)
        kind = decimal(min(precision - scale + result_scale + (places < scale), 38), result_scale)
    return call("ROUND", kind, args[:1], span, fails=True, value=places)


def _round_sql(args: list[str], node: Typed) -> str:
    return f"round({args[0]}, {min(max(node.value, -40), 40)})"


def _whole_sql(function: str) -> SqlRule:
    def render(args: list[str], node: Typed) -> str:
        return args[0] if is_integer(node.args[0].type) else f"{function}({args[0]})"

    return render


def _mod(args: list[Typed], span: Span) -> Typed:
    return operators.arithmetic("%", args[0], args[1], span)


def _uuid(args: list[Typed], span: Span) -> Typed:
    hidden = [Typed("column", kind, nullable=False, value=name, span=span) for name, kind in (
        ("__source_table", STRING), ("__sequence", DataType(Kind.BIGINT)), ("__image", INT))]  # fmt: skip
    return Typed("UUID", DataType(Kind.CHAR, 36), tuple(hidden), nullable=False, value=span.start, span=span)


def _uuid_sql(args: list[str], node: Typed) -> str:
    digest = f"md5({args[0]} || '/' || {args[1]} || '/' || {args[2]} || '/{node.value}')"
    return (
        f"(substr({digest}, 1, 8) || '-' || substr({digest}, 9, 4) || '-3' || substr({digest}, 14, 3) || '-a' || "
        f"substr({digest}, 18, 3) || '-' || substr({digest}, 21, 12))"
    )


_NUMBERS: tuple[Function, ...] = (
    Function("ABS", _G, "x NUMBER", same_as_first("ABS"), "abs({0})", "The value without its sign.", fails=True),
    Function("CEIL", _G, "x NUMBER", _integral_rule("CEIL"), _whole_sql("ceil"), "The next whole number up."),
    Function("FLOOR", _G, "x NUMBER", _integral_rule("FLOOR"), _whole_sql("floor"), "The next whole number down."),
    Function("ROUND", _G, "x NUMBER, [decimals INT]", _round, _round_sql,
             "Rounded to that many decimals (a constant), halves away from zero.",
             flink="A FLOAT or DOUBLE is rounded as the decimal number that it is written as.",
             example=("ROUND(CAST('1.005' AS DOUBLE), 2)", "1.0", "1.01")),
    Function("MOD", _G, "x NUMBER, y NUMBER", _mod, "", "The remainder of a division; it has the sign of x."),
    Function("SIGN", _G, "x NUMBER", INT, "sign({0})", "-1, 0 or 1.", flink=_MATHS,
             example=("SIGN(-5)", "-1", "an error")),
    Function("POWER", _G, "x DOUBLE, y DOUBLE", DOUBLE, "power({0}, {1})", "x to the power of y.", fails=True,
             flink=_MATHS, example=("POWER(2, 3)", "8.0", "an error")),
    Function("SQRT", _G, "x DOUBLE", DOUBLE, "sqrt({0})", "The square root.", fails=True, flink=_MATHS,
             example=("SQRT(9)", "3.0", "an error")),
    Function("UUID", _G, "", _uuid, _uuid_sql, "A UUID for each row image; a replay gives the same one.",
             flink="Flink CDC draws a new one on every replay.", example=("CHAR_LENGTH(UUID())", "36", "36")),
)  # fmt: skip
_CHOICES: tuple[Function, ...] = (
    Function("IF", _C, "condition BOOLEAN, value ANY, otherwise ANY", operators.if_, "",
             "One of two values; an unknown condition takes the second."),
    Function("COALESCE", _C, "value ANY...", operators.coalesce, "", "The first that is not NULL."),
    Function("NULLIF", _C, "a ANY, b ANY", operators.nullif, "", "NULL when both are equal, else a."),
    Function("GREATEST", _C, "value ANY...", operators.extreme("GREATEST"),
             lambda args, node: f"greatest({', '.join(args)})", "The largest; NULLs are left out.", flink=_MATHS,
             example=("GREATEST(1, NULL, 3)", "3", "an error")),
    Function("LEAST", _C, "value ANY...", operators.extreme("LEAST"), lambda args, node: f"least({', '.join(args)})",
             "The smallest; NULLs are left out.", flink=_MATHS, example=("LEAST(1, NULL, 3)", "1", "an error")),
)  # fmt: skip
FUNCTIONS: tuple[Function, ...] = (
    *_NUMBERS,
    *_CHOICES,
    *aliases([*_NUMBERS, *_CHOICES], {"CEILING": "CEIL", "POW": "POWER", "IFNULL": "COALESCE"}),
)
