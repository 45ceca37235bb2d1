"""Function definitions: arguments, result, SQL in the engine, and the text for docs/functions.md.

Arguments are declared as text: `"s TEXT, from INT, [length INT]"`. Brackets mean optional, `...` repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal as Choice

from cdc.schema import DataType, Kind
from cdc.transform.convert import Arity
from cdc.transform.syntax import Span
from cdc.transform.typed import Typed, call, cast, mistake
from cdc.transform.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT,
    JSON,
    MOMENTS,
    STRING,
    TIMESTAMP,
    Array,
    Map,
    NullType,
    SqlType,
    is_integer,
    is_number,
    is_shown,
    is_text,
    kind_of,
)
from cdc.types.kinds import BINARIES

Nullability = Choice["any", "never", "always"]
SqlRule = Callable[[list[str], Typed], str]
"""Returns a call's SQL from its arguments' SQL and the typed call."""
Sql = str | tuple[str, ...] | SqlRule
ResultRule = Callable[[list[Typed], Span], Typed]
"""Returns the typed call from the converted arguments. Raises ExpressionError for arguments that do not fit."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a function."""

    name: str
    accepts: str
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Function:
    """A function of rules.

    Attributes:
        name: upper case.
        group: heading on the page of functions.
        arguments: in the notation described above.
        result: its type, or a function that builds the typed call from the converted arguments.
        sql: the engine's SQL with {0}, {1}, ... for the arguments; one text per number of optional arguments, or a
            function of the arguments' SQL and the typed call.
        meaning: one sentence for the page.
        nulls: "any": NULL when an argument is; "never"; "always": may be NULL when no argument is.
        fails: whether it fails for some values.
        flink: the difference from Flink CDC; empty for none.
        example: (expression, our result, Flink CDC's result) for the page.
        alias_of: the function that this is an alias of.
    """

    name: str
    group: str
    arguments: str
    result: SqlType | ResultRule
    sql: Sql
    meaning: str
    nulls: Nullability = "any"
    fails: bool = False
    flink: str = ""
    example: tuple[str, str, str] | None = None
    alias_of: str = ""

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parsed arguments."""
        return tuple(_parameter(text.strip()) for text in self.arguments.split(",") if text.strip())

    @cached_property
    def arity(self) -> Arity:
        """The number of arguments that it takes."""
        least = sum(not parameter.optional for parameter in self.parameters)
        repeated = any(parameter.repeated for parameter in self.parameters)
        return Arity(least, None if repeated else len(self.parameters))

    def typed(self, args: list[Typed], span: Span) -> Typed:
        """Return the typed call. Raises ExpressionError for arguments that do not fit."""
        if self.parameters:
            last = self.parameters[-1]
            parameters = [self.parameters[min(index, len(self.parameters) - 1)] for index in range(len(args))]
            assert last.repeated or len(args) <= len(self.parameters)
            args = [_fit(self.name, arg, parameter) for arg, parameter in zip(args, parameters, strict=True)]
        if callable(self.result) and not isinstance(self.result, DataType):
            return self.result(args, span)
        nullable = {"never": False, "always": True}.get(self.nulls, any(arg.nullable for arg in args))
        return call(self.name, self.result, args, span, nullable=nullable, fails=self.fails)

    def render(self, args: list[str], node: Typed) -> str:
        """Return the engine's SQL of a call."""
        if callable(self.sql):
            return self.sql(args, node)
        template = self.sql if isinstance(self.sql, str) else self.sql[len(args) - self.arity.least]
        return template.format(*args)

    def as_alias(self, name: str) -> Function:
        """Return the same function under another name."""
        return replace(self, name=name, alias_of=self.name)


def _parameter(text: str) -> Parameter:
    optional = text.startswith("[")
    parts = text.strip("[]").split()
    repeated = parts[-1].endswith("...")
    return Parameter(parts[0], parts[1].removesuffix("..."), optional or False, repeated)


_CONVERTED: dict[str, SqlType] = {
    "TEXT": STRING,
    "SHOWN": STRING,
    "INT": BIGINT,
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "BYTES": BYTES,
}
_OF_NULL: dict[str, SqlType] = {"MOMENT": TIMESTAMP, "CLOCK": TIMESTAMP, "DATA": STRING, "JSON": JSON, "NUMBER": INT}
_ACCEPTED: dict[str, Callable[[SqlType], bool]] = {
    "TEXT": is_text,
    "CONSTANT": is_text,
    "INT": is_integer,
    "NUMBER": is_number,
    "DOUBLE": is_number,
    "BOOLEAN": lambda kind: kind == BOOLEAN,
    "BYTES": lambda kind: kind_of(kind) in BINARIES,
    "JSON": lambda kind: is_text(kind) or kind_of(kind) is Kind.JSON,
    "MOMENT": lambda kind: kind_of(kind) in MOMENTS,
    "CLOCK": lambda kind: kind_of(kind) in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ, Kind.DATE, Kind.TIME),
    "ARRAY": lambda kind: isinstance(kind, Array) or kind_of(kind) is Kind.VECTOR,
    "COLLECTION": lambda kind: isinstance(kind, Array | Map) or kind_of(kind) is Kind.VECTOR,
    "UNIT": is_text,
    "DATA": lambda kind: is_text(kind) or kind_of(kind) in BINARIES,
    "SHOWN": is_shown,
    "ANY": lambda kind: True,
}
_WORDS = {
    "TEXT": "text", "CONSTANT": "a text constant", "INT": "an integer", "NUMBER": "a number", "DOUBLE": "a number",
    "BOOLEAN": "a condition", "BYTES": "bytes", "JSON": "JSON", "MOMENT": "a date or timestamp",
    "DATA": "text or bytes", "CLOCK": "a date, time or timestamp",
    "SHOWN": "what has a text form", "UNIT": "a unit of time", "ARRAY": "an array", "COLLECTION": "an array or a map",
}  # fmt: skip


def _fit(name: str, arg: Typed, parameter: Parameter) -> Typed:
    accepts = parameter.accepts
    if accepts == "CONSTANT" and (arg.op != "literal" or not isinstance(arg.value, str)):
        raise mistake(arg.span, f"{name} takes a text constant as {parameter.name}", "write it in quotes")
    if isinstance(arg.type, NullType):
        return cast(arg, _CONVERTED.get(accepts, _OF_NULL.get(accepts, arg.type)))
    if accepts == "MOMENT" and arg.op == "literal" and isinstance(arg.value, str):
        raise mistake(
            arg.span, f"{name} takes {_WORDS[accepts]} as {parameter.name}, got text", "write TIMESTAMP '...'"
        )
    if not _ACCEPTED[accepts](arg.type):
        hint = f"CAST({parameter.name} AS STRING) makes it text" if accepts in ("TEXT", "SHOWN") else "CAST it"
        raise mistake(arg.span, f"{name} takes {_WORDS[accepts]} as {parameter.name}, got {arg.type}", hint)
    if accepts in ("TEXT", "SHOWN") and is_text(arg.type):
        return arg
    target = _CONVERTED.get(accepts)
    if target is None or (accepts == "BYTES"):
        return arg
    return cast(arg, target)


def same_as_first(name: str) -> Callable[[list[Typed], Span], Typed]:
    """Return a result rule: the result has the first argument's type."""

    def rule(args: list[Typed], span: Span) -> Typed:
        return call(name, args[0].type, args, span, fails=True)

    return rule


def wall(sql: str, node: Typed) -> str:
    """Return the SQL of a moment as a TIMESTAMP in the session's zone; a TIME unchanged."""
    return sql if kind_of(node.type) is Kind.TIME else f"CAST({sql} AS TIMESTAMP)"


def constant(node: Typed) -> str:
    """Return the value of a CONSTANT argument."""
    assert isinstance(node.value, str)
    return node.value


def aliases(functions: Sequence[Function], names: dict[str, str]) -> tuple[Function, ...]:
    """Return aliases of functions, given the names by alias."""
    known = {function.name: function for function in functions}
    return tuple(known[name].as_alias(alias) for alias, name in names.items())
