"""The SQL that expressions are written in, for sqlglot: standard SQL with Flink's and MySQL's quoting and type names.

Calls stay plain calls (`exp.Anonymous`): what a function means is the catalogue's business, not the parser's.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.parsers.spark2 import Spark2Parser
from sqlglot.tokenizer_core import TokenType

_BASE_FUNCTIONS = parser.Parser.FUNCTION_PARSERS


def _position(parse: Any) -> exp.Anonymous:
    """`POSITION(needle IN text [FROM start])`, and with commas."""
    args = [parse._parse_bitwise()]
    if parse._match(TokenType.IN) or parse._match(TokenType.COMMA):
        args.append(parse._parse_bitwise())
    if parse._match(TokenType.FROM) or parse._match(TokenType.COMMA):
        args.append(parse._parse_bitwise())
    return exp.Anonymous(this="POSITION", expressions=args)


class ExpressionDialect(Dialect):
    """sqlglot's base dialect, narrowed. Positions of a tree it makes are offsets into the text."""

    INDEX_OFFSET = 0

    class Tokenizer(tokens.Tokenizer):
        """Backquotes and double quotes name columns; a quote inside text is doubled, a backslash is a backslash."""

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
        """Reads expressions. Nothing is a special function but what has special syntax."""

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
            """CASE as sqlglot has it, and `CASE v WHEN a, b THEN x`: a branch for each of the values."""
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
            """ESCAPE takes any operand: sqlglot's own takes a constant only."""
            if not self._match(TokenType.ESCAPE):
                return this
            return self.expression(exp.Escape(this=this, expression=self._parse_bitwise()))


DIALECT = ExpressionDialect()
