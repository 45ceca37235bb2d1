"""Converts sqlglot's trees to ours. Node classes that are not listed here are refused, with their position."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot import exp

from cdc.schema import DataType, Kind
from cdc.transform.intervals import interval
from cdc.transform.model_functions import FORMS, NO_IMAGES
from cdc.transform.syntax import Call, Cast, ExpressionError, Literal, Mistake, Name, Node, Span

_BINARY: dict[type[exp.Expression], str] = {
    exp.And: "AND", exp.Or: "OR", exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "DIV", exp.Mod: "%", exp.DPipe: "||",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM", exp.Like: "LIKE",
    exp.SimilarTo: "SIMILAR TO",
}  # fmt: skip
_ALLOWED_ARGS: dict[type[exp.Expression], frozenset[str]] = {
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.DPipe: frozenset({"this", "expression", "safe"}),
    exp.Div: frozenset({"this", "expression", "typed", "safe"}),
}
NO_BRACKETS = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})
"""Functions called without parentheses."""
UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "DOY", "DOW",
                   "DAYOFYEAR", "DAYOFWEEK", "DAYOFMONTH"})  # fmt: skip
_OPERATORS_INSTEAD: dict[type[exp.Expression], str] = {
    exp.RegexpLike: "write REGEXP_LIKE(text, pattern)",
    exp.ILike: "write LOWER(text) LIKE LOWER(pattern)",
}
_FUNCTIONS_INSTEAD = {
    "REGEXP": "write REGEXP_LIKE(text, pattern)",
    "RLIKE": "write REGEXP_LIKE(text, pattern)",
    "NVL": "write COALESCE(value, other)",
    "ISNULL": "write value IS NULL",
    "JSON_EXTRACT": "write JSON_VALUE(json, path) for one value, JSON_QUERY(json, path) for an object or array",
}
"""Replacements for functions of other databases."""
_UNIT_FIRST = frozenset({"TIMESTAMPADD", "TIMESTAMPDIFF", "TIMESTAMP_DIFF"})
_D = exp.DType
_PLAIN: dict[exp.DType, Kind] = {
    _D.BOOLEAN: Kind.BOOLEAN, _D.TINYINT: Kind.TINYINT, _D.SMALLINT: Kind.SMALLINT, _D.INT: Kind.INT,
    _D.BIGINT: Kind.BIGINT, _D.UTINYINT: Kind.TINYINT_UNSIGNED, _D.USMALLINT: Kind.SMALLINT_UNSIGNED,
    _D.UINT: Kind.INT_UNSIGNED, _D.UBIGINT: Kind.BIGINT_UNSIGNED, _D.FLOAT: Kind.FLOAT, _D.DOUBLE: Kind.DOUBLE,
    _D.TEXT: Kind.STRING, _D.JSON: Kind.JSON, _D.DATE: Kind.DATE,
}  # fmt: skip
_WITH_LENGTH: dict[exp.DType, tuple[Kind, Kind, int]] = {
    _D.CHAR: (Kind.CHAR, Kind.STRING, 255),
    _D.VARCHAR: (Kind.VARCHAR, Kind.STRING, 65_535),
    _D.BINARY: (Kind.BINARY, Kind.BYTES, 255),
    _D.VARBINARY: (Kind.VARBINARY, Kind.BYTES, 65_535),
}
_WITH_FRACTION: dict[exp.DType, Kind] = {
    _D.TIME: Kind.TIME, _D.TIMESTAMPNTZ: Kind.TIMESTAMP, _D.DATETIME: Kind.TIMESTAMP,
    _D.TIMESTAMPLTZ: Kind.TIMESTAMP_LTZ,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Arity:
    """The number of arguments that a function takes; `most` is None for no limit."""

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.most is None:
            return f"at least {self.least} argument{'' if self.least == 1 else 's'}"
        count = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return f"{count} argument{'' if count == '1' else 's'}"

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with that many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)


@dataclass(slots=True)
class Converter:
    """Converts expressions; `convert` raises all mistakes of an expression together."""

    functions: Callable[[str], Arity | None]
    known: Collection[str]
    offset: int = 0
    mistakes: list[Mistake] = field(default_factory=list)

    def convert(self, tree: exp.Expression, offset: int) -> Node:
        """Convert a tree; `offset` is added to sqlglot's positions. Raises ExpressionError."""
        self.offset, self.mistakes = offset, []
        node = self._node(tree)
        if self.mistakes:
            raise ExpressionError(*self.mistakes)
        return node

    def _node(self, tree: exp.Expression) -> Node:
        span = self._span(tree)
        operator = _BINARY.get(type(tree))
        if operator is not None:
            return self._binary(operator, tree, span)
        method = _CONVERTERS.get(type(tree))
        if method is None:
            hint = _OPERATORS_INSTEAD.get(type(tree), "docs/functions.md lists what can")
            return self._refuse(span, f"{_word(tree)} cannot be used in a rule", hint)
        return method(self, tree, span)

    def _binary(self, operator: str, tree: exp.Expression, span: Span) -> Node:
        allowed = _ALLOWED_ARGS.get(type(tree), frozenset({"this", "expression"}))
        if any(value and key not in allowed for key, value in tree.args.items()):
            return self._refuse(span, f"this form of {operator} cannot be used in a rule", "write it in simpler terms")
        call = Call(operator, (self._node(tree.this), self._node(tree.expression)), span)
        return Call("NOT", (call,), span) if tree.args.get("negate") else call

    def _refuse(self, span: Span, message: str, hint: str = "") -> Literal:
        self.mistakes.append(Mistake(span, message, hint))
        return Literal(None, span)

    def _span(self, tree: exp.Expression) -> Span:
        found = [node.meta for node in tree.walk() if "start" in node.meta]
        if not found:
            return Span(max(self.offset + 7, 0), max(self.offset + 8, 1))
        return Span(
            min(meta["start"] for meta in found) + self.offset, max(meta["end"] for meta in found) + 1 + self.offset
        )

    def _column(self, tree: exp.Expression, span: Span) -> Node:
        identifier = tree.this
        if not isinstance(identifier, exp.Identifier):
            return self._refuse(span, "`*` can only be an item of its own", "name the columns")
        if tree.args.get("table"):
            text = ".".join(part.name for part in tree.parts)  # type: ignore[attr-defined]
            return self._refuse(
                span, f"`{text}`: a column has no table in front", f"write `{identifier.name}`; back-quote odd names"
            )
        upper = identifier.name.upper()
        if not identifier.quoted and upper in NO_BRACKETS:
            return Call(upper, (), span)
        return Name(identifier.name, span)

    def _literal(self, tree: exp.Expression, span: Span) -> Node:
        text = str(tree.this)
        if tree.args.get("is_string"):
            return Literal(text, span)
        if "e" in text.lower():
            return Literal(float(text), span)
        return Literal(Decimal(text) if "." in text else int(text), span)

    def _hex(self, tree: exp.Expression, span: Span) -> Node:
        try:
            return Literal(bytes.fromhex(str(tree.this)), span)
        except ValueError:
            return self._refuse(span, "a hexadecimal literal needs two digits for each byte", "such as x'0AFF'")

    def _call(self, tree: exp.Expression, span: Span) -> Node:
        name = tree.this if isinstance(tree.this, str) else tree.this.name
        start = self.offset + tree.meta.get("start", tree.this.meta["start"] if not isinstance(tree.this, str) else 0)
        name_span = Span(start, start + len(name))
        args = list(tree.expressions)
        upper = name.upper()
        arity = self.functions(upper)
        if arity is None:
            similar = difflib.get_close_matches(upper, sorted(self.known), n=1, cutoff=0.7)
            hint = f"did you mean {similar[0]}?" if similar else "docs/functions.md lists all functions"
            hint = _FUNCTIONS_INSTEAD.get(upper, hint)
            if upper in FORMS:
                hint = "it asks a model: add to pipeline.model `- name: ...` with `type: openai-compatible`"
            elif upper == NO_IMAGES:
                hint = "no server with OpenAI's protocol makes embeddings of images; write a function in Python"
            return self._refuse(name_span, f"there is no function {name}", hint)
        if upper in NO_BRACKETS and len(args) == 1 and isinstance(args[0], exp.Literal):
            args = []
        if not arity.accepts(len(args)):
            return self._refuse(name_span, f"{upper} takes {arity}, got {len(args)}", "see docs/functions.md")
        converted = [self._unit(args[0]) if upper in _UNIT_FIRST and i == 0 else self._node(arg)
                     for i, arg in enumerate(args)]  # fmt: skip
        return Call(upper, tuple(converted), Span(name_span.start, max(span.end, name_span.end)))

    def _unit(self, tree: exp.Expression) -> Node:
        span = self._span(tree)
        text = tree.name.upper().removesuffix("S") if tree.name else ""
        if text not in UNITS or not isinstance(tree, exp.Column | exp.Var | exp.Literal):
            return self._refuse(
                span, f"`{tree.name or tree.sql()}` is not a unit of time", f"one of {', '.join(sorted(UNITS))}"
            )
        return Literal(text, span)

    def _special(self, name: str, *args: exp.Expression | None, span: Span) -> Node:
        arguments = [arg for arg in args if arg is not None]
        arity = self.functions(name)
        if arity is not None and not arity.accepts(len(arguments)):
            return self._refuse(span, f"{name} takes {arity}, got {len(arguments)}", "see docs/functions.md")
        return Call(name, tuple(self._node(arg) for arg in arguments), span)

    def _trim(self, tree: exp.Expression, span: Span) -> Node:
        side = str(tree.args.get("position") or "BOTH").upper()
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(side, "TRIM")
        if tree.args.get("collation"):
            return self._refuse(span, "COLLATE cannot be used in a rule", "remove it")
        return self._special(name, tree.this, tree.args.get("expression"), span=span)

    def _case(self, tree: exp.Expression, span: Span) -> Node:
        subject = tree.args.get("this")
        args: list[Node] = []
        for branch in tree.args["ifs"]:
            condition = self._node(branch.this)
            if subject is not None:
                condition = Call("=", (self._node(subject), condition), span)
            args += [condition, self._node(branch.args["true"])]
        default = tree.args.get("default")
        return Call("CASE", (*args, self._node(default) if default is not None else Literal(None, span)), span)

    def _cast(self, tree: exp.Expression, span: Span) -> Node:
        target = cast_type(tree.args["to"])
        if isinstance(target, str):
            return self._refuse(span, target, "see docs/functions.md for the types")
        extra = {key for key, value in tree.args.items() if value} - {"this", "to", "safe"}
        if extra:
            return self._refuse(span, "this form of CAST cannot be used in a rule", "write CAST(value AS type)")
        return Cast(self._node(tree.this), target, isinstance(tree, exp.TryCast), span)

    def _is(self, tree: exp.Expression, span: Span) -> Node:
        right = tree.args["expression"]
        if isinstance(right, exp.Null):
            return Call("IS NULL", (self._node(tree.this),), span)
        if isinstance(right, exp.Boolean):
            return Call("IS TRUE" if right.this else "IS FALSE", (self._node(tree.this),), span)
        return self._refuse(span, "IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM", "")

    def _in(self, tree: exp.Expression, span: Span) -> Node:
        if not tree.expressions or any(value for key, value in tree.args.items() if key not in ("this", "expressions")):
            return self._refuse(span, "IN needs a list of values in brackets", "such as a IN (1, 2)")
        return Call("IN", tuple(self._node(each) for each in (tree.this, *tree.expressions)), span)

    def _escape(self, tree: exp.Expression, span: Span) -> Node:
        like = tree.this
        if not isinstance(like, exp.Like | exp.SimilarTo):
            return self._refuse(span, "ESCAPE belongs to LIKE or SIMILAR TO", "")
        name = _BINARY[type(like)]
        call = self._special(name, like.this, like.expression, tree.expression, span=span)
        return Call("NOT", (call,), span) if like.args.get("negate") else call

    def _extract(self, tree: exp.Expression, span: Span) -> Node:
        return Call("EXTRACT", (self._unit(tree.this), self._node(tree.expression)), span)

    def _bracket(self, tree: exp.Expression, span: Span) -> Node:
        if isinstance(tree.this, exp.Column) and tree.this.name.upper() == "MAP":
            return Call("MAP", tuple(self._node(each) for each in tree.expressions), span)
        if len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Slice):
            return self._refuse(span, "brackets take one index or one key", "such as a[1] or m['k']")
        return self._special("[]", tree.this, tree.expressions[0], span=span)

    def _interval(self, tree: exp.Expression, span: Span) -> Node:
        value = interval(tree, span)
        return self._refuse(value.span, value.message, value.hint) if isinstance(value, Mistake) else value

    def _negative(self, tree: exp.Expression, span: Span) -> Node:
        inner = self._node(tree.this)
        if isinstance(inner, Literal) and isinstance(inner.value, int | float | Decimal) and inner.value is not True:
            return Literal(-inner.value, Span(max(inner.span.start - 1, 0), inner.span.end))
        return Call("NEGATIVE", (inner,), span)

    def _array(self, tree: exp.Expression, span: Span) -> Node:
        return Call("ARRAY", tuple(self._node(each) for each in tree.expressions), span)


_CONVERTERS: dict[type[exp.Expression], Callable[[Converter, exp.Expression, Span], Node]] = {
    exp.Column: Converter._column,
    exp.Literal: Converter._literal,
    exp.HexString: Converter._hex,
    exp.Boolean: lambda self, tree, span: Literal(bool(tree.this), span),
    exp.Null: lambda self, tree, span: Literal(None, span),
    exp.Paren: lambda self, tree, span: self._node(tree.this),
    exp.Not: lambda self, tree, span: Call("NOT", (self._node(tree.this),), span),
    exp.Neg: Converter._negative,
    exp.Anonymous: Converter._call,
    exp.Case: Converter._case,
    exp.Cast: Converter._cast,
    exp.TryCast: Converter._cast,
    exp.Is: Converter._is,
    exp.In: Converter._in,
    exp.Between: lambda self, tree, span: self._special(
        "BETWEEN", tree.this, tree.args["low"], tree.args["high"], span=span
    ),
    exp.Escape: Converter._escape,
    exp.Extract: Converter._extract,
    exp.Trim: Converter._trim,
    exp.Substring: lambda self, tree, span: self._special(
        "SUBSTRING", tree.this, tree.args.get("start"), tree.args.get("length"), span=span
    ),
    exp.Overlay: lambda self, tree, span: self._special(
        "OVERLAY", tree.this, tree.args.get("expression"), tree.args.get("from_"), tree.args.get("for_"), span=span
    ),
    exp.Bracket: Converter._bracket,
    exp.Interval: Converter._interval,
    exp.Array: Converter._array,
}


def _word(tree: exp.Expression) -> str:
    names = {"Subquery": "a subquery", "Select": "a subquery", "Window": "a window function", "Placeholder": "`?`",
             "Star": "`*`", "Distinct": "DISTINCT", "Tuple": "a list in brackets", "ILike": "ILIKE",
             "RegexpLike": "the operator REGEXP, or RLIKE,"}  # fmt: skip
    return names.get(type(tree).__name__, f"`{tree.sql(dialect='')}`")


def cast_type(tree: exp.DataType) -> DataType | str:
    """Return the type, or why it is refused. Defaults: TIMESTAMP(6), TIME(0), DECIMAL(10, 0); CHAR is STRING."""
    kind = tree.this
    numbers = [param.this.name for param in tree.expressions if isinstance(param, exp.DataTypeParam)]
    if len(numbers) != len(tree.expressions) or not all(number.isdigit() for number in numbers):
        return f"the type {tree.sql()} cannot be cast to"
    lengths = [int(number) for number in numbers]
    if kind in _PLAIN and not lengths:
        return DataType(_PLAIN[kind])
    if kind is _D.DECIMAL and len(lengths) <= 2:
        return _decimal(*(lengths or [10]))
    if kind in _WITH_LENGTH and len(lengths) <= 1:
        return _text(kind, lengths)
    if kind in _WITH_FRACTION and len(lengths) <= 1:
        return _time(kind, lengths)
    return f"the type {tree.sql()} cannot be cast to"


def _decimal(precision: int, scale: int = 0) -> DataType | str:
    if not 1 <= precision <= 38 or scale > precision:
        return f"DECIMAL({precision}, {scale}): 1 to 38 digits, and no more decimals than digits"
    return DataType(Kind.DECIMAL, precision, scale)


def _text(kind: exp.DType, lengths: list[int]) -> DataType | str:
    with_length, without, most = _WITH_LENGTH[kind]
    if not lengths:
        return DataType(without)
    if not 1 <= lengths[0] <= most:
        return f"{with_length}({lengths[0]}): a length from 1 to {most}"
    return DataType(with_length, lengths[0])


def _time(kind: exp.DType, lengths: list[int]) -> DataType | str:
    target = _WITH_FRACTION[kind]
    digits = lengths[0] if lengths else 0 if target is Kind.TIME else 6
    return DataType(target, digits) if digits <= 6 else f"{target}({digits}): at most 6 digits"
