"""Index names, and the fields of documents: convert this tool's types to the server's. Pure.

| type | field | in the document |
|---|---|---|
| integers | long; BIGINT UNSIGNED unsigned_long, or keyword where the server has none | number, or its text |
| DECIMAL | keyword, or double | text with every digit |
| FLOAT, DOUBLE | float, double | number; NaN and Infinity are refused |
| BOOLEAN | boolean | true, false |
| CHAR, VARCHAR, STRING | keyword, text or both | text |
| DATE | date | `2024-05-31` |
| TIMESTAMP | date | `2024-05-31T10:00:00.123456`; searched to the millisecond |
| TIMESTAMP_LTZ | date | the same in UTC with `Z` |
| TIME | keyword | `-838:59:59.000000` |
| JSON | object that is not indexed, flattened, or text | the value |
| BINARY, VARBINARY, BYTES, GEOMETRY | binary | base64 |
| VECTOR | array of floats that is not indexed | numbers |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdc.errors import ChangeRefused
from cdc.schema import Column, DataType, Kind, TableId, TableSchema
from cdc.types.kinds import BLOBS, INTEGERS, TEXTS, TIMESTAMPS

_DATES = "strict_date_optional_time||uuuu-MM-dd||uuuu-MM-dd'T'HH:mm:ss.SSSSSS||uuuu-MM-dd'T'HH:mm:ss.SSSSSSX"
_LONGEST_NAME, _LONGEST_SUFFIX = 255, 64
_SPELLED = frozenset({Kind.DATE, Kind.TIME, *TIMESTAMPS})
"""Kinds whose values documents spell differently from those of every other kind."""
_FORBIDDEN = re.compile(r'[ "*\\<|,>/?#:]')
_NOT_IN_SUFFIXES = re.compile(rf"{_FORBIDDEN.pattern}|[\0-\x1f\x7f]")
_LONG = frozenset(
    {
        Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.TINYINT_UNSIGNED, Kind.SMALLINT_UNSIGNED,
        Kind.INT_UNSIGNED,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class IndexNames:
    """Gives tables the names of their indexes and aliases."""

    prefix: str = ""
    suffix: str = ""

    def alias(self, table: TableId) -> str:
        """The name that readers and the sink use, in lower case. Raises ChangeRefused for a name no index can have."""
        name = f"{self.prefix}{table}{self.suffix}".lower()
        too_long = len(name.encode()) > _LONGEST_NAME - 12
        if _FORBIDDEN.search(name) or name[0] in "-_+" or name in (".", "..") or too_long:
            hint = 'give it another name with a route: lower case, none of " * \\ < | , > / ? # : and no space'
            raise ChangeRefused(f"no index can be called {name!r}", where=str(table), hint=hint)
        return name

    def index(self, alias: str, number: int) -> str:
        """The name of the index with that number behind the alias."""
        return f"{alias}-{number:06}"


@dataclass(frozen=True, slots=True)
class FieldRules:
    """The rules by which columns become fields. The options name columns as `db.table.column`."""

    text_as: str = "keyword"
    text_columns: frozenset[str] = frozenset()
    unindexed: frozenset[str] = frozenset()
    decimal_as: str = "keyword"
    json_as: str = "disabled"
    ignore_above: int = 8191
    ignore_malformed: bool = False
    flattened: str = "flattened"
    routing: frozenset[str] = frozenset()
    sharding: frozenset[tuple[str, str]] = frozenset()
    separator: str = "_"
    unsigned_long: bool = True

    def field(self, table: TableId, column: Column) -> dict[str, Any]:
        """The field of a column."""
        name = f"{table}.{column.name}"
        if name in self.unindexed and column.type.kind is Kind.JSON:
            return {"type": "object", "enabled": False}
        found = self._field(column.type, searchable=name in self.text_columns)
        if name in self.unindexed and found["type"] not in ("object", "binary"):
            found = {key: value for key, value in found.items() if key not in ("ignore_above", "fields")}
            found["index"] = False
            if found["type"] in ("keyword", "long", "double", "float", "boolean", "date", "unsigned_long"):
                found["doc_values"] = False
        return found

    def _field(self, kind: DataType, *, searchable: bool) -> dict[str, Any]:
        malformed = {"ignore_malformed": True} if self.ignore_malformed else {}
        if kind.kind in _LONG:
            return {"type": "long", **malformed}
        if kind.kind is Kind.BIGINT_UNSIGNED:
            return {"type": "unsigned_long", **malformed} if self.unsigned_long else self._keyword()
        if kind.kind is Kind.DECIMAL:
            return {"type": "double", **malformed} if self.decimal_as == "double" else self._keyword()
        if kind.kind in (Kind.FLOAT, Kind.DOUBLE):
            return {"type": kind.kind.value.lower(), **malformed}
        if kind.kind is Kind.BOOLEAN:
            return {"type": "boolean"}
        if kind.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
            return {"type": "date", "format": _DATES, **malformed}
        if kind.kind in BLOBS:
            return {"type": "binary"}
        if kind.kind is Kind.JSON:
            return self._json()
        if kind.kind is Kind.VECTOR:
            return {"type": "float", "index": False, "doc_values": False}
        if kind.kind in TEXTS:
            return self._text("text" if searchable else self.text_as)
        return self._keyword()

    def _keyword(self) -> dict[str, Any]:
        return {"type": "keyword", "ignore_above": self.ignore_above}

    def _text(self, how: str) -> dict[str, Any]:
        if how == "keyword":
            return self._keyword()
        return {"type": "text"} if how == "text" else {**self._keyword(), "fields": {"words": {"type": "text"}}}

    def _json(self) -> dict[str, Any]:
        if self.json_as == "flattened":
            longest = {"ignore_above": self.ignore_above} if self.flattened == "flattened" else {}
            return {"type": self.flattened, **longest}
        return {"type": "object", "enabled": False} if self.json_as == "disabled" else {"type": "text"}

    def fields(self, table: TableId, schema: TableSchema) -> dict[str, Any]:
        """The fields of all columns. Raises ChangeRefused for a name that no field can have."""
        found = {}
        for column in schema.columns:
            check_field(table, column.name)
            found[column.name] = self.field(table, column)
        return found

    def routing_column(self, table: TableId, schema: TableSchema) -> str:
        """The column whose text is the routing of documents; empty for none. Raises ChangeRefused."""
        columns = [name for name in self.routing if name.rpartition(".")[0] == str(table)]
        for name in columns:
            if name.rpartition(".")[2] not in schema.names:
                hint = "name a column that the table has in index.routing-columns, or leave the entry out"
                raise ChangeRefused(f"there is no column {name.rpartition('.')[2]}", where=str(table), hint=hint)
        return columns[0].rpartition(".")[2] if columns else ""

    def sharding_column(self, table: TableId, schema: TableSchema) -> str:
        """The column that has an index for each of its texts; empty for none. Raises ChangeRefused."""
        columns = dict(self.sharding)
        name = columns.get(str(table)) or columns.get(table.table, "")
        if name and name not in schema.names:
            hint = "name a column that the table has in sharding.suffix.key, or leave the entry out"
            raise ChangeRefused(f"there is no column {name}", where=str(table), hint=hint)
        return name


def placing_columns(routing: str, sharding: tuple[str, str]) -> tuple[str, ...]:
    """The columns besides the key that determine where a document is."""
    return tuple(dict.fromkeys(name for name in (routing, sharding[0]) if name))


def shard_suffix(text: str) -> str:
    """The suffix of the shard for a text: lower case, `_` for forbidden characters, a digest for long texts."""
    suffix = _NOT_IN_SUFFIXES.sub("_", text.lower())
    if len(suffix.encode()) <= _LONGEST_SUFFIX:
        return suffix
    return hashlib.sha256(suffix.encode()).hexdigest()[:32]


def check_field(table: TableId, name: str) -> None:
    """Raise ChangeRefused for a column name that has another meaning in a document."""
    if "." in name or not name.strip() or name.startswith("_"):
        reason = f"column {name!r}: a dot makes an object of a field, and names that begin with _ are the server's"
        raise ChangeRefused(reason, where=str(table), hint="give the column another name with a projection")


def same_text(existing: DataType, expected: DataType) -> bool:
    """Whether every value has the same text in both types; ids and routing are made of that text."""
    if existing.kind in INTEGERS or existing.kind in TEXTS:
        return expected.kind in (INTEGERS if existing.kind in INTEGERS else TEXTS)
    padded = existing.kind is Kind.BINARY and existing.length != expected.length
    return existing.kind is expected.kind and (existing.scale or 0) == (expected.scale or 0) and not padded


def same_value(existing: DataType, expected: DataType) -> bool:
    """Whether documents hold every value of both types in the same way, given that the field is the same."""
    if expected.kind is Kind.DECIMAL:
        return same_text(existing, expected)
    return existing.kind is expected.kind or _SPELLED.isdisjoint((existing.kind, expected.kind))


def same_field(existing: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Whether an existing field agrees with the wanted one in everything that cannot be changed.

    A server without unsigned_long has keyword fields instead.
    """
    kinds = existing.get("type", "object"), expected.get("type", "object")
    return kinds[0] == kinds[1] or kinds == ("keyword", "unsigned_long")
