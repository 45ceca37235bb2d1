"""Expressions of a `columns` header: parsed once per load, evaluated over columns of fields.

Only functions that turn text into bytes and back are known; another one is refused like one that the server lacks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc_standins.sql_text import Parser, Unparsable
from cdc_standins.starrocks.errors import LoadFailure, analysis

Field = bytes | None


@dataclass(frozen=True, slots=True)
class Reference:
    """A source column, by its name in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant, as text; None is NULL."""

    text: Field


@dataclass(frozen=True, slots=True)
class Call:
    """A function over expressions."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Reference | Literal | Call


def parse_columns(header: str) -> list[tuple[str, Expression | None]]:
    """The items of a `columns` header: (name, None) for a source column, (name, expression) for a computed one."""
    try:
        parser = Parser(header)
        items = [_item(parser)]
        while parser.take(","):
            items.append(_item(parser))
        parser.end()
    except Unparsable as error:
        raise analysis(f"parse columns header failed: {error}") from error
    return items


def references(expression: Expression | None) -> Iterator[str]:
    """The names of source columns in an expression."""
    if isinstance(expression, Reference):
        yield expression.name
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from references(argument)


def evaluate(expression: Expression, columns: Mapping[str, Sequence[Field]], rows: int) -> Sequence[Field]:
    """The values of an expression, one per row."""
    if isinstance(expression, Reference):
        return columns[expression.name]
    if isinstance(expression, Literal):
        return [expression.text] * rows
    arguments = [evaluate(argument, columns, rows) for argument in expression.arguments]
    function = _FUNCTIONS[expression.function][1]
    return [None if None in row else function(*row) for row in zip(*arguments, strict=True)]


def _item(parser: Parser) -> tuple[str, Expression | None]:
    name = parser.name()
    return name, _expression(parser) if parser.take("=") else None


def _expression(parser: Parser) -> Expression:
    token = parser.peek()
    if token.kind in ("string", "number"):
        return Literal(parser.next().text.encode())
    if parser.take("-"):
        return Literal(f"-{parser.integer()}".encode())
    if parser.take("NULL"):
        return Literal(None)
    name = parser.name()
    return _call(parser, name) if parser.take("(") else Reference(name.lower())


def _call(parser: Parser, name: str) -> Call:
    arguments: list[Expression] = []
    while not parser.take(")"):
        if arguments:
            parser.need(",")
        arguments.append(_expression(parser))
    function = name.lower()
    counts, _ = _FUNCTIONS.get(function, ((), None))
    if len(arguments) not in counts:
        types = ", ".join("varchar" for _ in arguments)
        raise analysis(f"No matching function with signature: {function}({types}).")
    return Call(function, tuple(arguments))


def _unhex(text: bytes) -> Field:
    try:
        return binascii.unhexlify(text)
    except binascii.Error:
        return b""  # odd length or a sign that is no digit: an empty string, not NULL


def _from_base64(text: bytes) -> Field:
    if not text:
        return None  # an empty string becomes NULL
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None


def _to_binary(text: bytes, form: bytes = b"hex") -> Field:
    if form.lower() == b"utf8":
        return text
    return _from_base64(text) if form.lower() == b"encode64" else _unhex(text)


def _decode_hex(text: bytes) -> Field:
    try:
        return binascii.unhexlify(text)
    except binascii.Error:
        return None


_FUNCTIONS: dict[str, tuple[tuple[int, ...], Callable[..., Field]]] = {
    "hex": ((1,), lambda text: binascii.hexlify(text).upper()),
    "unhex": ((1,), _unhex),
    "hex_decode_binary": ((1,), _decode_hex),
    "to_base64": ((1,), lambda text: base64.b64encode(text) or None),
    "from_base64": ((1,), _from_base64),
    "base64_decode_binary": ((1,), _from_base64),
    "to_binary": ((1, 2), _to_binary),
    "lower": ((1,), bytes.lower),
    "upper": ((1,), bytes.upper),
}


def operation(text: Field) -> int:
    """The number of a `__op` that is written as a word. Raises LoadFailure."""
    known = {b"upsert": 0, b"delete": 1, b"0": 0, b"1": 1}
    if text is None or text.lower() not in known:
        written = "NULL" if text is None else text.decode(errors="replace")
        raise LoadFailure("ANALYSIS_ERROR", f"load op type string not supported: {written}", aborts=True)
    return known[text.lower()]
