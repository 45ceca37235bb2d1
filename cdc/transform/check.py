"""Type-checks expressions against a table's columns. Mistakes have a position and a "did you mean"."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cdc.schema import TableSchema
from cdc.transform import operators
from cdc.transform.catalogue import FUNCTIONS, nested
from cdc.transform.conversions import convertible
from cdc.transform.extra_functions import similar_to_regex
from cdc.transform.syntax import Cast, ExpressionError, Interval, Literal, Mistake, Name, Node, Span, names
from cdc.transform.typed import Typed, call, cast, literal, mistake
from cdc.transform.types import BIGINT, BOOLEAN, STRING, IntervalType, NullType, SqlType, is_shown, is_text

METADATA: dict[str, tuple[SqlType, bool]] = {
    "__namespace_name__": (STRING, True),
    "__schema_name__": (STRING, False),
    "__table_name__": (STRING, False),
    "__data_event_type__": (STRING, False),
}
"""Additional columns of every table: type, and whether they can be NULL."""

SOURCE_METADATA: dict[str, tuple[SqlType, bool]] = {
    "op_ts": (BIGINT, False), "sequence": (BIGINT, False), "binlog_file": (STRING, True), "binlog_pos": (BIGINT, True),
    "server_id": (BIGINT, True), "gtid": (STRING, True),
}  # fmt: skip
"""Columns that a source's `metadata.list` can add."""


class Callee(Protocol):
    """A function that rules can call: a built-in one or the user's own."""

    def typed(self, args: list[Typed], span: Span) -> Typed:
        """Return the typed call. Raises ExpressionError for arguments that do not fit."""


@dataclass(frozen=True)
class Scope:
    """The names and functions available to one rule on one table.

    Attributes:
        schema: the source table.
        metadata: names of `metadata.list`.
        aliases: computed columns of the projection, which a filter may use; they shadow source columns.
        own: the user's own functions, by upper-case name; they shadow built-in ones.
    """

    schema: TableSchema
    metadata: tuple[str, ...] = ()
    aliases: Mapping[str, Typed] = field(default_factory=dict)
    own: Mapping[str, Callee] = field(default_factory=dict)

    def find(self, name: Name) -> Typed | None:
        """Resolve a name: an alias, a column (case-insensitively if only one matches), or metadata."""
        for alias, node in self.aliases.items():
            if alias.casefold() == name.name.casefold():
                return node
        fitting = [column for column in self.schema.columns if column.name == name.name] or [
            column for column in self.schema.columns if column.name.casefold() == name.name.casefold()
        ]
        if len(fitting) == 1:
            column = fitting[0]
            return Typed("column", column.type, nullable=column.nullable, value=column.name, span=name.span)
        known = {**METADATA, **{each: SOURCE_METADATA[each] for each in self.metadata if each in SOURCE_METADATA}}
        if name.name in known:
            kind, nullable = known[name.name]
            return Typed("column", kind, nullable=nullable, value=name.name, span=name.span)
        return None

    def unknown(self, name: Name) -> Mistake:
        """Return the mistake of an unknown name."""
        known = [*self.aliases, *self.schema.names, *METADATA, *self.metadata]
        similar = difflib.get_close_matches(name.name.casefold(), [each.casefold() for each in known], n=1, cutoff=0.6)
        if similar:
            hint = f"did you mean {next(each for each in known if each.casefold() == similar[0])}?"
        elif name.name in SOURCE_METADATA:
            hint = f"add it to metadata.list of the source: metadata.list: {name.name}"
        else:
            hint = f"columns are {', '.join(self.schema.names[:12])}{', ...' if len(self.schema.names) > 12 else ''}"
        return Mistake(name.span, f"there is no column {name.name}", hint)


def check(node: Node, scope: Scope) -> Typed:
    """Return the typed tree. Raises ExpressionError with all unknown names, or the first operand that does not fit."""
    unknown = [scope.unknown(name) for name in names(node) if scope.find(name) is None]
    if unknown:
        raise ExpressionError(*unknown)
    return _check(node, scope)


def _check(node: Node, scope: Scope) -> Typed:
    if isinstance(node, Literal):
        return literal(node.value, node.span)
    if isinstance(node, Name):
        found = scope.find(node)
        assert found is not None
        return found
    if isinstance(node, Interval):
        value = (node.months, node.days, node.microseconds)
        return Typed("literal", IntervalType(), nullable=False, value=value, span=node.span)
    if isinstance(node, Cast):
        return _cast(node, _check(node.arg, scope))
    args = [_check(arg, scope) for arg in node.args]
    lost = next((arg for arg in args if isinstance(arg.type, IntervalType)), None)
    if lost is not None and node.name not in _ARITHMETIC:
        hint = "such as t + INTERVAL '1' DAY"
        raise mistake(lost.span, "an INTERVAL can only be added to a date or time, or taken from one", hint)
    rule = _OPERATORS.get(node.name)
    if rule is not None:
        return rule(args, node.span)
    function = scope.own.get(node.name) or FUNCTIONS.get(node.name)
    if function is None:
        raise mistake(node.span, f"there is no function {node.name}", "docs/functions.md lists all functions")
    return function.typed(args, node.span)


def _cast(node: Cast, arg: Typed) -> Typed:
    if not convertible(arg.type, node.type):
        hint = "docs/functions.md has the table of conversions"
        raise mistake(node.span, f"{arg.type} cannot be cast to {node.type}", hint)
    return cast(arg, node.type, safe=node.safe, span=node.span)


def _like(args: list[Typed], span: Span) -> Typed:
    texts = [_text("LIKE", arg) for arg in args]
    return call("LIKE", BOOLEAN, texts, span, value=_escape(args), fails=_unknown(args[2:]))


def _similar(args: list[Typed], span: Span) -> Typed:
    texts, pattern, escape = [_text("SIMILAR TO", arg) for arg in args], args[1], _escape(args)
    if _unknown(args[1:]) or not isinstance(pattern.value, str):
        return call("SIMILAR TO", BOOLEAN, texts, span, fails=True)
    try:
        regex = similar_to_regex(pattern.value, escape)
    except ValueError as error:
        raise mistake(pattern.span, f"the pattern of SIMILAR TO {error}", "") from error
    return call("SIMILAR TO", BOOLEAN, texts[:1], span, value=regex)


def _unknown(args: list[Typed]) -> bool:
    """Whether one of these depends on the row."""
    return any(arg.op != "literal" for arg in args)


def _text(name: str, arg: Typed, does: str = "compares") -> Typed:
    if is_text(arg.type):
        return arg
    if not (is_shown(arg.type) or isinstance(arg.type, NullType)):
        raise mistake(arg.span, f"{name} {does} text, got {arg.type}", "CAST(... AS STRING) makes it text")
    return cast(arg, STRING)


def _escape(args: list[Typed]) -> str | None:
    """Return the constant escape character; None without one, for a column and for NULL."""
    if len(args) < 3 or args[2].op != "literal" or args[2].value is None:
        return None
    escape = args[2]
    if not isinstance(escape.value, str) or len(escape.value) != 1:
        raise mistake(escape.span, "ESCAPE takes one character", "such as ESCAPE '!'")
    return escape.value


def _join(args: list[Typed], span: Span) -> Typed:
    return call("||", STRING, [_text("||", arg, "joins") for arg in args], span)


def _between(args: list[Typed], span: Span) -> Typed:
    low = operators.compare(">=", args[0], args[1], span)
    return operators.logic("AND", [low, operators.compare("<=", args[0], args[2], span)], span)


def _comparison(op: str) -> Callable[[list[Typed], Span], Typed]:
    return lambda args, span: operators.compare(op, args[0], args[1], span)


def _arithmetic(op: str) -> Callable[[list[Typed], Span], Typed]:
    return lambda args, span: operators.arithmetic(op, args[0], args[1], span)


_ARITHMETIC = ("+", "-", "*", "/", "DIV", "%")
_OPERATORS: dict[str, Callable[[list[Typed], Span], Typed]] = {
    **{op: _comparison(op) for op in operators.COMPARISONS},
    **{op: _arithmetic(op) for op in _ARITHMETIC},
    "AND": lambda args, span: operators.logic("AND", args, span),
    "OR": lambda args, span: operators.logic("OR", args, span),
    "NOT": operators.negation,
    "IS NULL": operators.is_null,
    "IS TRUE": operators.is_truth("IS TRUE"),
    "IS FALSE": operators.is_truth("IS FALSE"),
    "IN": operators.is_in,
    "BETWEEN": _between,
    "LIKE": _like,
    "SIMILAR TO": _similar,
    "||": _join,
    "CASE": operators.case,
    "NEGATIVE": operators.negative,
    "[]": nested.index,
}
