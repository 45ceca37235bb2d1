"""Bounds as SQL: comparisons of split columns that let the server use the index and its own order.

A composite key compares column by column. A plain `(a, b) > (x, y)` makes the server read the whole index, so it is
written out: `a > x OR (a = x AND b > y)`, which the range optimizer treats as two ranges. Values are inlined in the
text: as digits, as hex, or checked against the form of their type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cdc.errors import SourceError
from connectors.mysql.snapshot.chunk import Bound, Chunk
from connectors.mysql.table import MySqlColumn, MySqlTable
from connectors.shared.sql.text import quoted

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
BINARY = frozenset({"binary", "varbinary"})
TEXT = frozenset({"char", "varchar"})
TIMES = frozenset({"date", "time", "datetime", "timestamp"})
_OTHERS = frozenset({"decimal", "uuid", "inet4", "inet6"})
_SPLITTABLE = INTEGERS | BINARY | TEXT | TIMES | _OTHERS

_FORMS: Mapping[str, re.Pattern[str]] = {
    "decimal": re.compile(r"-?\d+(\.\d+)?"),
    **dict.fromkeys(TIMES, re.compile(r"[-0-9:. ]+")),
    **dict.fromkeys(("uuid", "inet4", "inet6"), re.compile(r"[0-9A-Fa-f:.\-]+")),
}
_CASTS: Mapping[str, str] = {
    "date": "DATE", "time": "TIME(6)", "datetime": "DATETIME(6)", "timestamp": "DATETIME(6)", "uuid": "UUID",
    "inet4": "INET4", "inet6": "INET6",
}  # fmt: skip
_NAME = re.compile(r"[0-9A-Za-z_]+")

Collations = Sequence[str | None]


def splittable(column: MySqlColumn) -> bool:
    """Return whether a table can be split by this column.

    ENUM and SET cannot: they sort by number and compare as text. TINYINT(1) may be read as BOOLEAN.
    """
    return column.type in _SPLITTABLE and (column.type, column.length) != ("tinyint", 1)


def condition(chunk: Chunk, table: MySqlTable) -> str:
    """Return the WHERE condition of a chunk; `TRUE` when the chunk is the whole table.

    `table` is the table as it was when the chunk was planned. Raises SourceError as `split_columns` and `literal`.
    """
    columns = split_columns(chunk.columns, table)
    parts: list[str] = []
    if chunk.lower is not None:
        parts.append(after(columns, chunk.collations, chunk.lower))
    if chunk.upper is not None:
        parts.append(upto(columns, chunk.collations, chunk.upper))
    if not parts:
        return "TRUE"
    text = " AND ".join(f"({part})" for part in parts)
    if chunk.lower is None and columns[0].nullable:
        text = f"({text} OR {quoted(columns[0].name)} IS NULL)"
    return text


def split_columns(names: Sequence[str], table: MySqlTable) -> tuple[MySqlColumn, ...]:
    """Return the definitions of split columns. Raises SourceError when the table lacks one."""
    known = {column.name: column for column in table.columns}
    for name in names:
        if name not in known:
            raise SourceError(f"the split column {name} is gone", where=str(table.id), hint="run `cdc resync` on it")
    return tuple(known[name] for name in names)


def names_of(columns: Sequence[MySqlColumn]) -> str:
    """Return the columns' names as an SQL list."""
    return ", ".join(quoted(column.name) for column in columns)


def after(columns: Sequence[MySqlColumn], collations: Collations, bound: Bound) -> str:
    """`columns > bound`."""
    return _compared(columns, collations, bound, ">", ">")


def upto(columns: Sequence[MySqlColumn], collations: Collations, bound: Bound) -> str:
    """`columns <= bound`."""
    return _compared(columns, collations, bound, "<", "<=")


def _compared(columns: Sequence[MySqlColumn], collations: Collations, bound: Bound, strict: str, last: str) -> str:
    names = [quoted(column.name) for column in columns]
    literals = literals_of(columns, collations, bound)
    text = lexicographic(names, literals, strict, last)
    if len(columns) == 1:
        return text
    return f"{names[0]} {strict}= {literals[0]} AND ({text})"  # redundant, but always usable as a range


def lexicographic(left: Sequence[str], right: Sequence[str], strict: str, last: str) -> str:
    """Compare left with right column by column: `strict` is the operator before the last column, `last` for it."""
    alternatives = []
    for place, (mine, other) in enumerate(zip(left, right, strict=True)):
        terms = [f"{a} = {b}" for a, b in zip(left[:place], right[:place], strict=True)]
        terms.append(f"{mine} {last if place == len(left) - 1 else strict} {other}")
        alternatives.append(terms[0] if len(terms) == 1 else f"({' AND '.join(terms)})")
    return " OR ".join(alternatives)


def literals_of(
    columns: Sequence[MySqlColumn], collations: Collations, values: Sequence[Any], *, typed: bool = False
) -> list[str]:
    """Return a `literal` for each column."""
    return [
        literal(column, collation, value, typed=typed)
        for column, collation, value in zip(columns, collations, values, strict=True)
    ]


def literal(column: MySqlColumn, collation: str | None, value: Any, *, typed: bool = False) -> str:
    """Format a value as SQL so that comparing it with the column matches the order of the column's index.

    `typed` casts it to the column's type, for comparisons without a column. Raises SourceError for a value that the
    type cannot have.
    """
    if column.type in INTEGERS:
        return str(int(value))
    if column.type in BINARY:
        return f"X'{bytes(value).hex()}'"
    if column.type in TEXT:
        return _text(column.charset or "utf8mb4", collation, str(value))
    form = _FORMS.get(column.type)
    if form is None or form.fullmatch(str(value)) is None:
        raise SourceError(f"{value!r} is not a value of a {column.type} column", where=column.name)
    if column.type == "decimal":
        return str(value)
    return f"CAST('{value}' AS {_CASTS[column.type]})" if typed else f"'{value}'"


def _text(charset: str, collation: str | None, value: str) -> str:
    """Format text in the column's character set and collation, whatever the connection's are."""
    if not all(_NAME.fullmatch(name) for name in (charset, collation or charset)):
        raise SourceError(f"{charset} with {collation} is no character set with its collation")
    raw = f"_utf8mb4 X'{value.encode('utf-8', 'surrogatepass').hex()}'"
    converted = raw if charset == "utf8mb4" else f"CONVERT({raw} USING {charset})"
    return converted if collation is None else f"{converted} COLLATE {collation}"
