"""The types of columns in MySQL's spelling: the source's own, or a type that holds the same values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cdc.schema import Column, DataType, Kind

_SPELLED: dict[Kind, str] = {
    Kind.BOOLEAN: "bit(1)", Kind.STRING: "longtext", Kind.BYTES: "longblob", Kind.TIMESTAMP: "datetime",
    Kind.TIMESTAMP_LTZ: "timestamp",
}  # fmt: skip
_TYPE = re.compile(r"\s*([a-z0-9_]+)\s*(?:\((.*)\))?(.*)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"'((?:[^']|'')*)'")


def mysql_type(column: Column) -> str:
    """The column's type in MySQL's spelling, such as `enum('a','b')`, `decimal(10,2) unsigned`, `datetime(3)`."""
    return column.source_type or _spelled(column.type)


def _spelled(found: DataType) -> str:
    name = _SPELLED.get(found.kind, found.kind.value.lower())
    if found.kind is Kind.DECIMAL:
        return f"{name}({found.length or 10},{found.scale or 0})"
    return f"{name}({found.length})" if found.length else name


@dataclass(frozen=True, slots=True)
class MySqlType:
    """The parts of a MySQL type.

    Attributes:
        name: the name in lower case, such as `int`. unsigned: whether the type is UNSIGNED.
        numbers: the numbers in parentheses, such as precision and scale; empty for ENUM and SET.
        labels: the labels of ENUM and SET.
    """

    name: str
    unsigned: bool = False
    numbers: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()


def parts_of(column: Column) -> MySqlType:
    """The parts of a column's type."""
    match = _TYPE.fullmatch(mysql_type(column))
    if match is None:
        return MySqlType(column.type.kind.value.lower())
    name, arguments, attributes = match[1].lower(), match[2] or "", match[3]
    unsigned = "unsigned" in attributes.lower()
    if name in ("enum", "set"):
        return MySqlType(name, unsigned, labels=tuple(text.replace("''", "'") for text in _LABEL.findall(arguments)))
    numbers = tuple(int(text) for text in arguments.split(",") if text.strip().isdigit())
    return MySqlType(name, unsigned, numbers)
