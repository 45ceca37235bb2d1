"""The `columns` header of a load: names of fields in their order, and expressions over them.

Only functions that turn hex digits into bytes are known; another one is refused like one that the server lacks.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdc_standins.load_text import Field, Fields
from cdc_standins.sql_text import Parser


class NoFunctionError(Exception):
    """A function, by its name and its number of arguments, that is not known."""

    def __init__(self, name: str, arguments: int) -> None:
        super().__init__(name)
        self.name, self.arguments = name, arguments


@dataclass(frozen=True, slots=True)
class Expression:
    """A field (`name`, in lower case), a constant, or a function over others."""

    name: str = ""
    constant: Field = None
    function: str = ""
    arguments: tuple[Expression, ...] = ()

    def evaluate(self, fields: Mapping[str, Fields], count: int) -> Fields:
        """Its values for `count` rows."""
        if self.name:
            return fields[self.name]
        if not self.function:
            return [self.constant] * count
        call = _FUNCTIONS[self.function, len(self.arguments)]
        columns = [one.evaluate(fields, count) for one in self.arguments]
        return [None if None in row else call(*row) for row in zip(*columns, strict=True)]

    def names(self) -> set[str]:
        """The fields it reads."""
        return {self.name} if self.name else set().union(*(one.names() for one in self.arguments))


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the header: a field's name, or a column with its expression."""

    name: str
    expression: Expression | None = None


def parse_columns(header: str) -> list[Item]:
    """The items of a header. Raises Unparsable and NoFunctionError."""
    parser = Parser(header)
    items = [_item(parser)]
    while parser.take(","):
        items.append(_item(parser))
    parser.end()
    return items


def _item(parser: Parser) -> Item:
    name = parser.name()
    return Item(name, _expression(parser) if parser.take("=") else None)


def _expression(parser: Parser) -> Expression:
    if parser.peek().kind == "string":
        return Expression(constant=parser.next().text.encode())
    name = parser.name()
    if not parser.take("("):
        return Expression(name=name.lower())
    arguments: list[Expression] = []
    while not parser.take(")"):
        if arguments:
            parser.need(",")
        arguments.append(_expression(parser))
    function = name.lower()
    if (function, len(arguments)) not in _FUNCTIONS:
        raise NoFunctionError(function, len(arguments))
    return Expression(function=function, arguments=tuple(arguments))


def _unhex(text: bytes, form: bytes = b"hex") -> Field:
    """Odd length or a sign that is no digit: an empty string, not NULL."""
    try:
        return binascii.unhexlify(text) if form == b"hex" else b""
    except binascii.Error:
        return b""


_FUNCTIONS: dict[tuple[str, int], Callable[..., Field]] = {
    ("unhex", 1): _unhex, ("to_binary", 1): _unhex, ("to_binary", 2): _unhex
}  # fmt: skip
