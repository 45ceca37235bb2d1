"""Parses the text of a column type as shown by `information_schema.COLUMNS.COLUMN_TYPE`. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHAPE = re.compile(r"([a-z0-9_]+(?: precision)?)\s*(?:\((.*)\))?\s*([^()]*)", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'\s*(?:,|$)\s*", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPED = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}
_SYNONYMS = {
    "integer": "int",
    "geomcollection": "geometrycollection",
    "numeric": "decimal",
    "double precision": "double",
}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A parsed column type; attributes as in `MySqlColumn`."""

    type: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    labels: tuple[str, ...] = ()


def parse_column_type(text: str) -> ColumnType:
    r"""Parse `decimal(10,2) unsigned`, `enum('a','b''c')`, `datetime(6)`. Raises ValueError with the text.

    In labels a backslash begins an escape (`\\` is one backslash) and `''` is a quote: both servers write them so,
    whatever sql_mode the table was created with.
    """
    match = _SHAPE.fullmatch(text if "'" in text else _COMMENT.sub("", text).strip())
    if match is None:
        raise ValueError(f"column type {text!r} is not understood")
    name, inner, rest = match[1].lower(), match[2], match[3].lower().split()
    name = _SYNONYMS.get(name, name)
    unsigned = "unsigned" in rest or "zerofill" in rest
    if name in ("enum", "set"):
        return ColumnType(name, labels=_labels(inner or "", text))
    numbers = [int(part) for part in (inner or "").split(",") if part.strip().isdigit()]
    length, scale = (numbers[0] if numbers else None), (numbers[1] if len(numbers) > 1 else None)
    return ColumnType(name, length, scale, unsigned)


def _labels(inner: str, text: str) -> tuple[str, ...]:
    labels: list[str] = []
    at = 0
    while at < len(inner):
        match = _LABEL.match(inner, at)
        if match is None and inner[:1] == inner[-1:] == "'":
            return tuple(inner[1:-1].split("','"))  # OceanBase shows quotes in labels as they are
        if match is None:
            raise ValueError(f"column type {text!r} is not understood at {inner[at : at + 20]!r}")
        labels.append(unescape(match[1]))
        at = match.end()
    return tuple(labels)


def unescape(text: str) -> str:
    """Return the text of an SQL literal; `text` is the part between the quotes."""
    return _ESCAPE.sub(lambda match: "'" if match[1] is None else _ESCAPED.get(match[1], match[1]), text)
