"""DEFAULT clauses of sink columns: what is a constant of the type. Pure.

Every row comes whole from the source, so a default matters only for rows that are there when a column is added.
"""

from __future__ import annotations

import re

from cdc.evolution.table import ActualColumn
from connectors.mysql.sink.types import ServerType
from connectors.shared.sql.text import text_literal

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_BITS = re.compile(r"[bB]'([01]*)'")
_HEX = re.compile(r"0[xX]((?:[0-9A-Fa-f]{2})*)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_SPAN = re.compile(r"-?\d{1,3}:\d\d(?::\d\d(?:\.\d{1,6})?)?")
_NUMERIC = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "year"})
_PLAIN_TEXT = frozenset({"char", "varchar", "enum", "set", "uuid", "inet4", "inet6"})
_NO_DEFAULT = frozenset(
    {"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json", "geometry"}
)


def default_clause(column: ActualColumn[ServerType]) -> str:
    """`DEFAULT 7`, or nothing where the text is no constant of the type or the type takes no default."""
    text = column.default
    name = column.type.name
    if text is None or name in _NO_DEFAULT:
        return ""
    if name == "bit":
        if bits := _BITS.fullmatch(text):
            return f"DEFAULT b'{bits[1]}'"
        return f"DEFAULT {text}" if text.isdigit() else ""
    if name in _NUMERIC:
        return f"DEFAULT {text}" if _NUMBER.fullmatch(text) else ""
    if name in ("binary", "varbinary"):
        value = bytes.fromhex(found[1]) if (found := _HEX.fullmatch(text)) else text.encode()
        return f"DEFAULT x'{value.hex()}'"
    if name in ("date", "datetime", "timestamp"):
        return f"DEFAULT {text_literal(text)}" if _MOMENT.fullmatch(text) and text[:4] != "0000" else ""
    if name == "time":
        return f"DEFAULT {text_literal(text)}" if _SPAN.fullmatch(text) else ""
    return f"DEFAULT {text_literal(text)}" if name in _PLAIN_TEXT else ""
