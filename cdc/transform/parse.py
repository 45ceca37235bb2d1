"""Parses the SQL of a rule to syntax trees. Finds all mistakes that do not depend on a schema, with their position.

Includes the sqlglot dialect of expressions: standard SQL with Flink's and MySQL's quoting and type names.

Calls stay plain calls (`exp.Anonymous`): the catalogue defines functions, not the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark2 import Spark2Parser
from sqlglot.tokenizer_core import TokenType

from cdc.errors import Problem, SpecError
from cdc.transform.convert import Arity, Converter
from cdc.transform.sqltext import SqlText
from cdc.transform.syntax import ExpressionError, Item, Mistake, Name, Node, Span, Star

_SELECT = "SELECT "
_MISSING = re.compile(r"Expect(?:ing|ed) (\S+)")
_CLOSES = {")": "(", "]": "["}
_WORD = re.compile(r"[^\W\d]\w*")
_BASE_FUNCTIONS = parser.Parser.FUNCTION_PARSERS


@dataclass(frozen=True, slots=True)
class Projection:
    """A parsed projection: items in the order of the text. An empty text means `*`."""

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
        text: the projection and its position in the file.
        functions: returns a function's number of arguments, by upper-case name; None for an unknown function.
        known: all function names, for "did you mean".

    Raises SpecError with every problem of the text.
    """
    mistakes: list[Mistake] = []
    found: list[Item | Star] = []
    try:
        spans = items(text.text)
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
        check(text.text)
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
    """Return the tree of one expression, and the number to add to its offsets."""
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
    """Return mistakes for duplicate names; a computed column may replace a plain one."""
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


def items(text: str) -> list[Span]:
    """Split the text at top-level commas, trim blanks and allow one comma at the end. Raises ExpressionError."""
    spans: list[Span] = []
    mistakes: list[Mistake] = []
    start = 0
    for offset in [*_commas(text), len(text)]:
        span = _trimmed(text, start, offset)
        if span.start < span.end:
            spans.append(span)
        elif offset < len(text):
            mistakes.append(Mistake(Span(offset, offset + 1), "nothing stands before this comma", "remove it"))
        start = offset + 1
    if mistakes:
        raise ExpressionError(*mistakes)
    return spans


def check(text: str) -> None:
    """Raise ExpressionError for unclosed quotes and brackets, and for `;`."""
    for _ in _commas(text):
        pass


def _trimmed(text: str, start: int, end: int) -> Span:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return Span(start, end)


def _commas(text: str) -> Iterator[int]:
    opened: list[tuple[str, int]] = []
    position, cases = 0, 0
    commas: list[int] = []  # commas between CASE and END; they count where END is missing, for better messages
    while position < len(text):
        char = text[position]
        if not opened and (match := _WORD.match(text, position)):
            name, position = match[0].upper(), match.end()
            cases = cases + 1 if name == "CASE" else max(cases - 1, 0) if name == "END" else cases
            commas = commas if cases else []
            continue
        if char in "'\"`":
            position = _quoted(text, position)
            continue
        if text.startswith(("--", "/*"), position):
            position = _comment(text, position)
            continue
        if char in "([":
            opened.append((char, position))
        elif char in _CLOSES:
            if not opened or opened[-1][0] != _CLOSES[char]:
                raise _error(position, f"`{char}` closes nothing", "remove it, or open it before")
            opened.pop()
        elif char == ";":
            raise _error(position, "`;` cannot stand in an expression", "remove it")
        elif char == "," and not opened and cases:
            commas.append(position)
        elif char == "," and not opened:
            yield position
        position += 1
    if opened:
        char, position = opened[-1]
        raise _error(position, f"`{char}` is never closed", f"add `{')' if char == '(' else ']'}`")
    yield from commas


def _quoted(text: str, start: int) -> int:
    """Return the offset after the closing quote; a doubled quote is part of the text."""
    quote, position = text[start], start + 1
    while True:
        end = text.find(quote, position)
        if end < 0:
            raise _error(start, f"the quote {quote} is never closed", f"add {quote} at the end")
        if not text.startswith(quote, end + 1):
            return end + 1
        position = end + 2


def _comment(text: str, start: int) -> int:
    end_mark = "\n" if text.startswith("--", start) else "*/"
    end = text.find(end_mark, start + 2)
    if end < 0 and end_mark == "*/":
        raise _error(start, "the comment is never closed", "add */")
    return len(text) if end < 0 else end + len(end_mark)


def _error(offset: int, message: str, hint: str) -> ExpressionError:
    return ExpressionError(Mistake(Span(offset, offset + 1), message, hint))


def _position(parse: Any) -> exp.Anonymous:
    """Parse `POSITION(needle IN text [FROM start])`, also with commas."""
    args = [parse._parse_bitwise()]
    if parse._match(TokenType.IN) or parse._match(TokenType.COMMA):
        args.append(parse._parse_bitwise())
    if parse._match(TokenType.FROM) or parse._match(TokenType.COMMA):
        args.append(parse._parse_bitwise())
    return exp.Anonymous(this="POSITION", expressions=args)


class ExpressionDialect(Dialect):
    """A restriction of sqlglot's base dialect. Positions in its trees are offsets into the text."""

    INDEX_OFFSET = 0

    class Tokenizer(tokens.Tokenizer):
        """Backquotes and double quotes name columns; quotes in text are doubled, backslashes are not special."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
        QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **tokens.Tokenizer.KEYWORDS,
            "BYTES": TokenType.VARBINARY,
            "STRING": TokenType.TEXT,
            "TIMESTAMP": TokenType.TIMESTAMPNTZ,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        }

    class Parser(parser.Parser):
        """Parses expressions. Only functions with special syntax are treated specially."""

        IS_PREDICATE_PRECEDENCE = Spark2Parser.IS_PREDICATE_PRECEDENCE
        IS_PREDICATE_TOKENS = Spark2Parser.IS_PREDICATE_TOKENS
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            "CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"],
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            **{name: _BASE_FUNCTIONS[name] for name in ("CAST", "EXTRACT", "OVERLAY", "SUBSTRING", "TRIM", "TRY_CAST")},
            "POSITION": _position,
        }

        def _parse_case(self) -> exp.Expression | None:
            """Parse CASE as sqlglot does, and `CASE v WHEN a, b THEN x` with a branch for each of the values."""
            subject, ifs = self._parse_disjunction(), []
            while self._match(TokenType.WHEN):
                values = [self._parse_disjunction()]
                while subject and self._match(TokenType.COMMA):
                    values.append(self._parse_disjunction())
                self._match(TokenType.THEN)
                then = self._parse_disjunction()
                ifs += [self.expression(exp.If(this=value, true=then and then.copy())) for value in values]
            default = self._parse_disjunction() if self._match(TokenType.ELSE) else None
            if not self._match(TokenType.END):
                self.raise_error("Expected END after CASE", self._prev)
            return self.expression(exp.Case(this=subject, ifs=ifs, default=default))

        def _parse_escape(self, this: Any) -> Any:
            """Parse ESCAPE with any operand; sqlglot accepts constants only."""
            if not self._match(TokenType.ESCAPE):
                return this
            return self.expression(exp.Escape(this=this, expression=self._parse_bitwise()))


DIALECT = ExpressionDialect()
