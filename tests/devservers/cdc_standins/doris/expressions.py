"""The `columns` header: names of fields in their order, and expressions over them; the `delete` header's predicate.

A few functions that turn text into bytes and back are known; others are refused like ones that the server lacks.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cdc_standins.doris.errors import LoadError, from_front_end
from cdc_standins.sql_text import Parser, Unparsable

Field = bytes | None
Fields = Sequence[Field]


@dataclass(frozen=True, slots=True)
class Expression:
    """A field (`name`), a constant (`constant`), or a function over others."""

    name: str = ""
    constant: Field = None
    function: str = ""
    arguments: tuple[Expression, ...] = ()

    def evaluate(self, fields: Mapping[str, Fields], count: int) -> Fields:
        """Its values for `count` rows; KeyError for an unknown name."""
        if self.name:
            return fields[self.name.lower()]
        if not self.function:
            return [self.constant] * count
        call = _FUNCTIONS[self.function]
        columns = [one.evaluate(fields, count) for one in self.arguments]
        return [None if None in row else call(*row) for row in zip(*columns, strict=True)]

    def names(self) -> set[str]:
        """The fields it reads, in lower case."""
        if self.name:
            return {self.name.lower()}
        return set().union(*(one.names() for one in self.arguments))


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the `columns` header: a field's name, or a column with its expression."""

    name: str
    expression: Expression | None = None


def parse_columns(header: str) -> list[Item]:
    """The items of a `columns` header. Raises LoadError."""
    try:
        parser = Parser(header)
        items = [_item(parser)]
        while parser.take(","):
            items.append(_item(parser))
        parser.end()
    except Unparsable as error:
        raise from_front_end(f"parse columns header failed. columns: {header}, {error}") from error
    return items


def parse_delete(header: str) -> tuple[str, str]:
    """The `delete` header as far as it is known here: `column = constant`."""
    try:
        parser = Parser(header)
        name = parser.name()
        parser.need("=")
        value = parser.next().text
        parser.end()
    except Unparsable as error:
        raise LoadError(
            "INTERNAL_ERROR", f"the stand-in knows only `column = value` in the delete header: {error}"
        ) from error
    return name.lower(), value


def _item(parser: Parser) -> Item:
    name = parser.name()
    return Item(name, _expression(parser) if parser.take("=") else None)


def _expression(parser: Parser) -> Expression:
    token = parser.peek()
    if token.kind in ("string", "number"):
        return Expression(constant=parser.next().text.encode())
    if parser.take("NULL"):
        return Expression(constant=None, function="")
    name = parser.name()
    if token.kind == "name" or not parser.take("("):
        return Expression(name=name)
    arguments = []
    while not parser.sees(")"):
        arguments.append(_expression(parser))
        if not parser.take(","):
            break
    parser.need(")")
    function = name.lower()
    if function not in _FUNCTIONS or len(arguments) != 1:
        types = ", ".join("VARCHAR" for _ in arguments)
        raise from_front_end(f"Can not found function '{function}' which has {len(arguments)} arity ({types})")
    return Expression(function=function, arguments=tuple(arguments))


def _unhex(text: bytes) -> Field:
    try:
        return binascii.unhexlify(text)
    except binascii.Error:
        return b""


def _from_base64(text: bytes) -> Field:
    try:
        return base64.b64decode(text, validate=True) or None
    except binascii.Error:
        return None


_FUNCTIONS: dict[str, Callable[[bytes], Field]] = {
    "unhex": _unhex,
    "to_binary": _unhex,
    "from_base64": _from_base64,
    "to_base64": lambda text: base64.b64encode(text) or None,
    "hex": lambda text: binascii.hexlify(text).upper(),
    "lower": bytes.lower,
    "upper": bytes.upper,
    "trim": lambda text: text.strip(b" "),
}
