"""Derives a table definition from a TABLE_MAP event alone, if the server runs with `binlog_row_metadata=FULL`.

For tables without any other definition: archived logs that begin after the table was created. The event lacks defaults
and comments, but has everything that rows need. Field numbers: MySQL `libs/mysql/binlog/event/rows_event.h`
(`Optional_metadata_field_type`); MariaDB 10.5 and later write the same.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from cdc.errors import CorruptLog
from connectors.mysql.charsets.conversion import to_utf8
from connectors.mysql.rows import table_map as codes
from connectors.mysql.rows.collations import charset_of
from connectors.mysql.rows.definition_check import hidden_columns
from connectors.mysql.rows.table_map import TableMapEvent, parse_table_map
from connectors.mysql.table import GEOMETRIES, MySqlColumn, MySqlTable
from connectors.shared.ddl.charsets import max_bytes

_GEOMETRY_TYPE: Final = 7
_SIMPLE_KEY: Final = 8
_PREFIX_KEY: Final = 9
_SET_LABELS: Final = 5
_ENUM_LABELS: Final = 6
_ENUM_DEFAULT_CHARSET: Final = 10
_ENUM_COLUMN_CHARSET: Final = 11
_DIMENSIONS: Final = 13

_PLAIN: Final = {
    codes.TINY: "tinyint", codes.SHORT: "smallint", codes.INT24: "mediumint", codes.LONG: "int",
    codes.LONGLONG: "bigint", codes.FLOAT: "float", codes.DOUBLE: "double", codes.YEAR: "year", codes.DATE: "date",
    codes.NEWDATE: "date", codes.JSON: "json", codes.TIMESTAMP_OLD: "timestamp", codes.TIME_OLD: "time",
    codes.DATETIME_OLD: "datetime",
}  # fmt: skip
_FRACTIONS: Final = {codes.TIMESTAMP2: "timestamp", codes.TIME2: "time", codes.DATETIME2: "datetime"}
_BLOB_SIZES: Final = {1: "tiny", 2: "", 3: "medium", 4: "long"}


def described(body: bytes, where: str) -> MySqlTable | None:
    """Return the definition in a TABLE_MAP body (after the table id); None when it has no column names.

    Raises CorruptLog when lengths do not add up or a column has an unknown type.
    """
    found = parse_table_map(body, where)
    if not found.names:
        return None
    try:
        columns = tuple(_ColumnWalk(found).columns())
        shown = len(columns)
        while shown and hidden_columns(found, shown - 1):
            shown -= 1
        columns = columns[:shown]
        key = tuple(columns[index].name for index in _key(found) if index < shown)
    except (IndexError, KeyError, ValueError, StopIteration) as error:
        raise CorruptLog(f"the metadata of {found.table} cannot be read: {error!r}", where=where) from error
    return MySqlTable(found.table, columns, key)


class _ColumnWalk:
    """Iterates over the columns; lists of labels, geometries and dimensions have one entry per column of their kind."""

    def __init__(self, found: TableMapEvent) -> None:
        self._found = found
        self._enum_labels = iter(_label_lists(found.optional.get(_ENUM_LABELS, b"")))
        self._set_labels = iter(_label_lists(found.optional.get(_SET_LABELS, b"")))
        self._geometries = iter(codes.packed_numbers(found.optional.get(_GEOMETRY_TYPE, b"")))
        self._dimensions = iter(codes.packed_numbers(found.optional.get(_DIMENSIONS, b"")))
        self._label_collations = iter(_label_collations(found))

    def columns(self) -> list[MySqlColumn]:
        return [self._column(index) for index in range(len(self._found.types))]

    def _column(self, index: int) -> MySqlColumn:
        found = self._found
        name, code, meta, nullable = (
            found.names[index],
            found.types[index],
            found.metadata[index],
            found.nullable[index],
        )
        charset = charset_of(found.collations[index] or 0)
        if code in _PLAIN:
            return MySqlColumn(name, _PLAIN[code], unsigned=bool(found.unsigned[index]), nullable=nullable)
        if code in _FRACTIONS:
            return MySqlColumn(name, _FRACTIONS[code], length=meta, nullable=nullable)
        if code == codes.NEWDECIMAL:
            unsigned = bool(found.unsigned[index])
            return MySqlColumn(name, "decimal", meta >> 8, meta & 0xFF, unsigned=unsigned, nullable=nullable)
        if code == codes.BIT:
            return MySqlColumn(name, "bit", meta, nullable=nullable)
        if code == codes.GEOMETRY:
            return MySqlColumn(name, GEOMETRIES[next(self._geometries, 0)], nullable=nullable)
        if code == codes.VECTOR:
            return MySqlColumn(name, "vector", next(self._dimensions, None), nullable=nullable)
        if code in (codes.ENUM, codes.SET):
            return self._labelled(name, code, nullable)
        return _text(name, code, meta, charset, nullable)

    def _labelled(self, name: str, code: int, nullable: bool) -> MySqlColumn:
        charset = charset_of(next(self._label_collations, 0)) or "utf8mb4"
        raw = next(self._enum_labels if code == codes.ENUM else self._set_labels)
        labels = tuple(to_utf8(pa.array(raw, pa.binary()), charset).to_pylist())
        kind = "enum" if code == codes.ENUM else "set"
        return MySqlColumn(name, kind, charset=charset, labels=labels, nullable=nullable)


def _text(name: str, code: int, meta: int, charset: str | None, nullable: bool) -> MySqlColumn:
    """Return a string or blob column; those of the `binary` character set are bytes."""
    is_bytes = charset == "binary"
    charset = None if is_bytes else charset or "utf8mb4"
    if code in (codes.BLOB, codes.BLOB_COMPRESSED):
        return MySqlColumn(
            name, _BLOB_SIZES[meta] + ("blob" if is_bytes else "text"), charset=charset, nullable=nullable
        )
    length = meta if charset is None else meta // max_bytes(charset)
    if code == codes.STRING:
        return MySqlColumn(name, "binary" if is_bytes else "char", length, charset=charset, nullable=nullable)
    if code in (codes.VARCHAR, codes.VAR_STRING, codes.VARCHAR_COMPRESSED):
        return MySqlColumn(name, "varbinary" if is_bytes else "varchar", length, charset=charset, nullable=nullable)
    raise KeyError(f"column {name} has type code {code}")


def _key(found: TableMapEvent) -> list[int]:
    if _SIMPLE_KEY in found.optional:
        return codes.packed_numbers(found.optional[_SIMPLE_KEY])
    return codes.packed_numbers(found.optional.get(_PREFIX_KEY, b""))[::2]


def _label_lists(field: bytes) -> list[list[bytes]]:
    """Read, per column, a count, then labels with their lengths."""
    reader = codes.ByteReader(field)
    lists = []
    while reader.has_rest():
        lists.append([reader.read(reader.packed()) for _ in range(reader.packed())])
    return lists


def _label_collations(found: TableMapEvent) -> list[int]:
    labelled = sum(code in (codes.ENUM, codes.SET) for code in found.types)
    if _ENUM_COLUMN_CHARSET in found.optional:
        return codes.packed_numbers(found.optional[_ENUM_COLUMN_CHARSET])
    if _ENUM_DEFAULT_CHARSET not in found.optional:
        return []
    default, *pairs = codes.packed_numbers(found.optional[_ENUM_DEFAULT_CHARSET])
    collations = [default] * labelled
    for ordinal, collation in zip(pairs[::2], pairs[1::2], strict=True):
        collations[ordinal] = collation
    return collations
