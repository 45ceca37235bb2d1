"""Translates typed trees to the engine's SQL, with every operand in brackets and an explicit type for every constant.

An unknown node raises an error, so that nothing unintended reaches the engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from cdc.schema import Kind
from cdc.transform.catalogue import FUNCTIONS, nested
from cdc.transform.conversions import DAY_US, cast_sql, engine_type, failing, text_literal
from cdc.transform.typed import Typed
from cdc.transform.types import NullType, digits, kind_of

_SIMPLE = {
    "=": "{0} = {1}", "<>": "{0} <> {1}", "<": "{0} < {1}", "<=": "{0} <= {1}", ">": "{0} > {1}", ">=": "{0} >= {1}",
    "IS DISTINCT FROM": "{0} IS DISTINCT FROM {1}", "IS NOT DISTINCT FROM": "{0} IS NOT DISTINCT FROM {1}",
    "NOT": "NOT {0}", "IS NULL": "{0} IS NULL", "IS TRUE": "{0} IS TRUE", "IS FALSE": "{0} IS FALSE",
    "||": "{0} || {1}",
}  # fmt: skip
_WIDER = {Kind.INT: "BIGINT", Kind.BIGINT: "HUGEINT"}
_OVERFLOW = {"=": "FALSE", "<>": "TRUE", "<": "{sign} < 0", "<=": "{sign} < 0", ">": "{sign} > 0", ">=": "{sign} > 0"}


_OWN = ("own ", "ask ", "asks ")
"""Prefixes of nodes that call a user function or a model."""


def engine_name(op: str) -> str:
    """Return the engine's name of a user function or of a model function."""
    return op.lower().replace(" ", "_")


class Translator:
    """Translates trees for one input table.

    Args:
        columns: engine name of each column, by its name in the tree.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = columns

    def sql(self, node: Typed) -> str:
        """Return the SQL of a node; it has the engine's type for the node's type, and may be used anywhere."""
        if node.op == "literal":
            return _literal(node)
        if node.op == "column":
            return self.columns[node.value]
        args = [self.sql(arg) for arg in node.args]
        if node.op in ("cast", "try_cast"):
            return f"({cast_sql(args[0], node.args[0].type, node.type, safe=node.op == 'try_cast')})"
        if node.op in _SIMPLE:
            return f"({_SIMPLE[node.op].format(*args)})"
        special = _SPECIAL.get(node.op)
        if special is not None:
            return f"({special(args, node)})"
        if node.op.startswith("wide "):
            return f"({_wide(args, node)})"
        if node.op.startswith(_OWN):
            return f"CAST({engine_name(node.op)}({', '.join(args)}) AS {engine_type(node.type)})"
        return f"CAST({FUNCTIONS[node.op].render(args, node)} AS {engine_type(node.type)})"


def _literal(node: Typed) -> str:
    value, kind = node.value, node.type
    if value is None:
        return "NULL" if isinstance(kind, NullType) else f"CAST(NULL AS {engine_type(kind)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, float):
        text = {math.inf: "inf", -math.inf: "-inf"}.get(value, repr(value))
        return f"CAST('{text}' AS DOUBLE)"
    if isinstance(value, int | Decimal):
        return f"CAST('{value:f}' AS {engine_type(kind)})" if isinstance(value, Decimal) else _integer_sql(value, kind)
    return f"CAST({text_literal(value)} AS VARCHAR)"


def _integer_sql(value: int, kind: object) -> str:
    return f"CAST('{value}' AS {engine_type(kind)})"  # type: ignore[arg-type]


def _guarded(args: list[str], node: Typed, stop: str) -> str:
    """Translate AND and OR so that an operand that can fail is evaluated only if the earlier ones do not decide."""
    joined = f" {node.op} ".join(args)
    last = max((number for number, arg in enumerate(node.args) if arg.fails), default=0)
    if last == 0:
        return joined
    guards = " ".join(f"WHEN {arg} IS {stop} THEN {stop}" for arg in args[:last])
    return f"CASE {guards} ELSE ({joined}) END"


def _coalesce(args: list[str], node: Typed) -> str:
    if not any(arg.fails for arg in node.args[1:]):
        return f"coalesce({', '.join(args)})"
    cases = " ".join(f"WHEN {arg} IS NOT NULL THEN {arg}" for arg in args[:-1])
    return f"CASE {cases} ELSE {args[-1]} END"


def _case(args: list[str], node: Typed) -> str:
    pairs = zip(args[:-1:2], args[1::2], strict=True)
    return "CASE " + " ".join(f"WHEN {when} THEN {then}" for when, then in pairs) + f" ELSE {args[-1]} END"


def _arithmetic(args: list[str], node: Typed) -> str:
    left, right = args
    result = engine_type(node.type)
    if node.op == "%" and kind_of(node.type) in _WIDER:  # the smallest integer % -1 is 0, not an overflow
        return f"CAST(CAST({left} AS {_WIDER[node.type.kind]}) % {right} AS {result})"  # type: ignore[union-attr]
    if kind_of(node.type) is not Kind.DECIMAL:
        op = "//" if node.op in ("/", "DIV") and kind_of(node.type) not in (Kind.FLOAT, Kind.DOUBLE) else node.op
        return f"CAST({left} {op} {right} AS {result})"
    if node.op == "*":
        wide, _ = node.value
        return f"CAST(CAST({left} AS {engine_type(wide)}) * {right} AS {result})"
    if node.op == "/":
        return f"CAST(decimal_division({left}, {right}, {node.value}) AS {result})"
    if node.op == "DIV":
        return f"CAST(CAST({left} AS HUGEINT) // CAST({right} AS HUGEINT) AS {result})"
    return f"CAST({left} {node.op} {right} AS {result})"


def _shift(args: list[str], node: Typed) -> str:
    months, days, microseconds = node.value
    if kind_of(node.type) is Kind.TIME:
        return f"cdc_time({args[0]} + ({days * DAY_US + microseconds}))"
    steps = [
        f"{name}({number})"
        for name, number in (("to_months", months), ("to_days", days), ("to_microseconds", microseconds))
        if number
    ]
    return f"CAST({' + '.join([args[0], *steps])} AS {engine_type(node.type)})"


def _wide(args: list[str], node: Typed) -> str:
    """Compare two decimals whose common type has more than 38 digits: values that do not fit are larger than others."""
    op, scale = node.op.removeprefix("wide "), int(node.value)
    left, right = args
    target = f"DECIMAL(38, {scale})"
    flipped = digits(node.args[0].type)[1] == scale
    big, small = (right, left) if flipped else (left, right)
    distinct = op.startswith("IS")
    plain = {"IS DISTINCT FROM": "<>", "IS NOT DISTINCT FROM": "="}.get(op, op)
    sign = f"(-(sign({big})))" if flipped else f"sign({big})"
    cast = f"TRY_CAST({big} AS {target})"
    compared = f"CAST({small} AS {target}) {plain} {cast}" if flipped else f"{cast} {plain} CAST({small} AS {target})"
    known = f"coalesce({compared}, {_OVERFLOW[plain].format(sign=sign)})"
    if distinct:
        both = "TRUE" if plain == "=" else "FALSE"
        one = "FALSE" if plain == "=" else "TRUE"
        return (
            f"CASE WHEN {left} IS NULL AND {right} IS NULL THEN {both} "
            f"WHEN {left} IS NULL OR {right} IS NULL THEN {one} ELSE {known} END"
        )
    return f"CASE WHEN {left} IS NULL OR {right} IS NULL THEN NULL ELSE {known} END"


def _like(args: list[str], node: Typed) -> str:
    if len(args) < 3:
        return f"{args[0]} LIKE {args[1]}"
    if node.value:
        return f"{args[0]} LIKE {args[1]} ESCAPE {args[2]}"
    escape = f"CASE WHEN length({args[2]}) = 1 THEN {args[2]} WHEN {args[2]} IS NOT NULL THEN {_ONE_ESCAPE} END"
    return f"like_escape({args[0]}, {args[1]}, {escape})"


_ONE_ESCAPE = failing("ESCAPE takes one character")


def _similar(args: list[str], node: Typed) -> str:
    if node.value is not None:
        return f"regexp_full_match({args[0]}, {text_literal(node.value)})"
    escape = args[2] if len(args) > 2 else "''"
    return f"regexp_full_match({args[0]}, cdc_similar({args[1]}, {escape}))"


_SPECIAL = {
    "AND": lambda args, node: _guarded(args, node, "FALSE"),
    "OR": lambda args, node: _guarded(args, node, "TRUE"),
    "IN": lambda args, node: f"{args[0]} IN ({', '.join(args[1:])})",
    "LIKE": _like,
    "SIMILAR TO": _similar,
    "COALESCE": _coalesce,
    "CASE": _case,
    "SHIFT": _shift,
    "[]": nested.index_sql,
    **dict.fromkeys(("+", "-", "*", "/", "DIV", "%"), _arithmetic),
}
