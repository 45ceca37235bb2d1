"""SQL text of a rule to syntax trees. Every mistake that needs no table schema is found here, with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from cdc.errors import Problem, SpecError
from cdc.transform import split
from cdc.transform.convert import Arity, Converter
from cdc.transform.dialect import DIALECT
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import ExpressionError, Item, Mistake, Name, Node, Span, Star

_SELECT = "SELECT "
_MISSING = re.compile(r"Expect(?:ing|ed) (\S+)")


@dataclass(frozen=True, slots=True)
class Projection:
    """A parsed projection: items in the order of the text. `*` alone is what an empty text means."""

    text: SqlText
    items: tuple[Item | Star, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed filter."""

    text: SqlText
    node: Node


def parse_projection(text: SqlText, functions: Callable[[str], Arity | None], known: Collection[str]) -> Projection:
    r"""Parse a SELECT list: `*` (or `\*`) in any place, columns, `expression AS name`, a comma at the end.

    Args:
        text: the projection and where it stands.
        functions: how many arguments a function takes, by upper-case name; None when there is no such function.
        known: all function names, for "did you mean".

    Raises SpecError with every problem of the text.
    """
    mistakes: list[Mistake] = []
    found: list[Item | Star] = []
    try:
        spans = split.items(text.text)
    except ExpressionError as error:
        raise _spec_error(text, error.mistakes) from error
    for span in spans:
        try:
            found.append(_item(text.text, span, Converter(functions, known)))
        except ExpressionError as error:
            mistakes += error.mistakes
    mistakes += _repeated(found)
    if mistakes:
        raise _spec_error(text, mistakes)
    return Projection(text, tuple(found) or (Star(Span(0, 0)),))


def parse_filter(text: SqlText, functions: Callable[[str], Arity | None], known: Collection[str]) -> Condition:
    """Parse a WHERE condition; arguments as for `parse_projection`. Raises SpecError with every problem of the text."""
    try:
        split.check(text.text)
        tree, offset = _parse(text.text, Span(0, len(text.text)))
        if isinstance(tree, exp.Alias):
            raise ExpressionError(Mistake(Span(0, 1), "a filter is a condition, it has no name", "remove the alias"))
        return Condition(text, Converter(functions, known).convert(tree, offset))
    except ExpressionError as error:
        raise _spec_error(text, error.mistakes) from error


def _item(text: str, span: Span, converter: Converter) -> Item | Star:
    piece = text[span.start : span.end]
    if piece in ("*", r"\*"):
        return Star(span)
    tree, offset = _parse(text, span)
    if isinstance(tree, exp.Alias):
        node = converter.convert(tree.this, offset)
        name = tree.args["alias"]
        if not isinstance(name, exp.Identifier):
            raise ExpressionError(Mistake(span, f"`{piece}` has no name that a column can have", "write `... AS name`"))
        return Item(name.name, node, span)
    node = converter.convert(tree, offset)
    if isinstance(node, Name):
        return Item("", node, span)
    raise ExpressionError(Mistake(span, f"the computed column `{piece}` has no name", f"write `{piece} AS name`"))


def _parse(text: str, span: Span) -> tuple[exp.Expression, int]:
    """The tree of one expression, and what to add to its offsets."""
    piece = text[span.start : span.end]
    if not piece.strip():
        raise ExpressionError(Mistake(span, "the expression is empty", "remove the key, or write an expression"))
    offset = span.start - len(_SELECT)
    try:
        statements = DIALECT.parse(_SELECT + piece)
    except ParseError as error:
        raise ExpressionError(_syntax_mistake(error, piece, span)) from error
    except (TokenError, RecursionError) as error:
        raise ExpressionError(Mistake(span, "not an SQL expression", "check quotes and brackets near here")) from error
    select = statements[0] if len(statements) == 1 else None
    extra = [key for key, value in select.args.items() if value and key != "expressions"] if select else ["expressions"]
    if not isinstance(select, exp.Select) or extra or len(select.expressions) != 1:
        clause = extra[0].strip("_").upper() if extra else "a list"
        raise ExpressionError(
            Mistake(span, f"an expression was expected, found {clause}", "rules hold expressions, not whole statements")
        )
    return select.expressions[0], offset


def _syntax_mistake(error: ParseError, piece: str, span: Span) -> Mistake:
    found = error.errors[0] if error.errors else {}
    token = str(found.get("highlight") or "")
    lines = (_SELECT + piece).split("\n")
    line, column = int(found.get("line") or 1), int(found.get("col") or 1)
    offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - len(token) - len(_SELECT)
    start = span.start + min(max(offset, 0), max(len(piece) - 1, 0))
    missing = _MISSING.match(str(found.get("description") or ""))
    if missing:
        return Mistake(Span(start, start + 1), f"{missing[1]} is missing near `{token}`", "check the syntax near here")
    if not token.strip():
        return Mistake(Span(start, start + 1), "the expression is not complete", "an operand is missing")
    return Mistake(Span(start, start + len(token)), f"`{token}` cannot stand here", "check the syntax near here")


def _repeated(found: Sequence[Item | Star]) -> list[Mistake]:
    """Names that two items have; a computed column may replace a plain one."""
    mistakes, seen = [], set[tuple[str, bool]]()
    for item in found:
        if isinstance(item, Star):
            continue
        name, plain = item.name or (item.node.name if isinstance(item.node, Name) else ""), not item.name
        if (name.casefold(), plain) in seen:
            mistakes.append(Mistake(item.span, f"the column `{name}` is there twice", "give one of them another name"))
        seen.add((name.casefold(), plain))
    stars = [item for item in found if isinstance(item, Star)]
    return [*mistakes, *(Mistake(star.span, "`*` is there twice", "remove one") for star in stars[1:])]


def _spec_error(text: SqlText, mistakes: Sequence[Mistake]) -> SpecError:
    problems: list[Problem] = [text.problem(mistake) for mistake in mistakes]
    return SpecError(sorted(problems, key=lambda problem: (problem.line, problem.column)))
