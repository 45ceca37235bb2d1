"""A MySQL table as the server defines it: everything needed to decode its rows, and the schema that a sink gets.

Definitions come from three places that must agree: `information_schema`, DDL in the log, and TABLE_MAP metadata.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from cdc.schema import Column, DataType, Kind, TableId, TableSchema

SYSTEM_DATABASES = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
"""Databases of the server itself; their tables are never captured."""

FIX_GENERATED = "exclude the table with tables.exclude, or make the columns plain ones that a trigger fills"
"""Hint for tables whose rows MariaDB logs without generated columns."""

FIX_TRANSACTION_IDS = "declare the columns of its versions as TIMESTAMP(6)"
"""Hint for tables whose changes MariaDB logs as statements."""


@dataclass(frozen=True, slots=True)
class MySqlColumn:
    """One column as MySQL defines it.

    Attributes:
        name: column name as written.
        type: base type in lower case, synonyms resolved: tinyint smallint mediumint int bigint decimal float double bit
            year date time datetime timestamp char varchar binary varbinary tinytext text mediumtext longtext tinyblob
            blob mediumblob longblob enum set json geometry (and point linestring polygon multipoint multilinestring
            multipolygon geometrycollection) vector; MariaDB also: uuid inet4 inet6.
        length: characters (char, varchar), bytes (binary, varbinary), bits (bit), display width (integers, year),
            precision (decimal, float(p,s)), fractional digits (time, datetime, timestamp), dimensions (vector).
        scale: digits after the point (decimal, float(p,s)).
        unsigned: UNSIGNED or ZEROFILL.
        charset: character set of text, enum and set columns, lower case (`utf8mb4`); None for others.
        labels: members of enum and set.
        nullable, default, comment: as in `cdc.schema.Column`.
        generated: a virtual or stored generated column.
        auto_increment: the server numbers rows that have no value, or 0.
        generated_key: MySQL's generated invisible primary key, which stays the first column.
    """

    name: str
    type: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    charset: str | None = None
    labels: tuple[str, ...] = ()
    nullable: bool = True
    default: str | None = None
    comment: str = ""
    generated: bool = False
    auto_increment: bool = False
    generated_key: bool = False

    def shown(self, *, visible: bool) -> MySqlColumn:
        """Return the column as VISIBLE or INVISIBLE, which only matters for a generated key."""
        key = self.name == "my_row_id" and self.type == "bigint" and self.unsigned and self.auto_increment
        return replace(self, generated_key=key and not visible)


@dataclass(frozen=True, slots=True)
class MySqlTable:
    """One table as MySQL defines it; `charset` is the default of new text columns."""

    id: TableId
    columns: tuple[MySqlColumn, ...]
    primary_key: tuple[str, ...] = ()
    charset: str = "utf8mb4"
    comment: str = ""


_INTEGERS = {
    "tinyint": (Kind.TINYINT, Kind.TINYINT_UNSIGNED),
    "smallint": (Kind.SMALLINT, Kind.SMALLINT_UNSIGNED),
    "mediumint": (Kind.INT, Kind.INT_UNSIGNED),
    "int": (Kind.INT, Kind.INT_UNSIGNED),
    "bigint": (Kind.BIGINT, Kind.BIGINT_UNSIGNED),
}
GEOMETRIES = (
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
)  # fmt: skip
"""Spatial types, in the order of their numbers in TABLE_MAP."""
_TEMPORAL = {"time": Kind.TIME, "datetime": Kind.TIMESTAMP, "timestamp": Kind.TIMESTAMP_LTZ}
_SIZED = {"char": Kind.CHAR, "varchar": Kind.VARCHAR, "binary": Kind.BINARY, "varbinary": Kind.VARBINARY}
_PLAIN = {
    "float": Kind.FLOAT, "double": Kind.DOUBLE, "year": Kind.INT, "date": Kind.DATE, "json": Kind.JSON,
    "tinytext": Kind.STRING, "text": Kind.STRING, "mediumtext": Kind.STRING, "longtext": Kind.STRING,
    "tinyblob": Kind.BYTES, "blob": Kind.BYTES, "mediumblob": Kind.BYTES, "longblob": Kind.BYTES,
    "enum": Kind.STRING, "set": Kind.STRING, "uuid": Kind.STRING, "inet4": Kind.STRING, "inet6": Kind.STRING,
    **dict.fromkeys(GEOMETRIES, Kind.GEOMETRY),
}  # fmt: skip


def data_type(column: MySqlColumn, *, tinyint1_as_boolean: bool = False) -> DataType:
    """Return the type that a sink sees. Raises ValueError for an unknown type.

    Every mapping is lossless: BIT(1) is BOOLEAN, BIT(n) is BINARY((n+7)/8) big-endian, SET is its text `a,b`.
    TINYINT(1) is TINYINT unless `tinyint1_as_boolean`.
    """
    kind = column.type
    if kind == "tinyint" and column.length == 1 and not column.unsigned and tinyint1_as_boolean:
        return DataType(Kind.BOOLEAN)
    if kind in _INTEGERS:
        return DataType(_INTEGERS[kind][column.unsigned])
    if kind == "decimal":
        return DataType(Kind.DECIMAL, 10 if column.length is None else column.length, column.scale or 0)
    if kind in _TEMPORAL:
        return DataType(_TEMPORAL[kind], column.length or 0)
    if kind in _SIZED:
        return DataType(_SIZED[kind], 1 if column.length is None else column.length)
    if kind == "bit":
        bits = column.length or 1
        return DataType(Kind.BOOLEAN) if bits == 1 else DataType(Kind.BINARY, (bits + 7) // 8)
    if kind == "vector":
        return DataType(Kind.VECTOR, column.length or 2048)
    if kind in _PLAIN:
        return DataType(_PLAIN[kind])
    raise ValueError(f"column {column.name}: MySQL type {kind!r} is not known")


def table_schema(table: MySqlTable, *, tinyint1_as_boolean: bool = False) -> TableSchema:
    """Return the schema that a sink gets for this table. Raises ValueError as `data_type`."""
    columns = tuple(
        Column(
            column.name,
            data_type(column, tinyint1_as_boolean=tinyint1_as_boolean),
            nullable=column.nullable and column.name not in table.primary_key,
            default=column.default,
            comment=column.comment,
            source_type=spelled(column),
            charset=column.charset or "",
        )
        for column in table.columns
    )
    return TableSchema(columns, table.primary_key, table.comment)


def spelled(column: MySqlColumn) -> str:
    """Format the column's type like `SHOW CREATE TABLE`, without character set: `decimal(10,2) unsigned`, `char(0)`."""
    text = column.type
    if column.labels:
        quoted = (f"'{_escaped(label)}'" for label in column.labels)
        text += f"({','.join(quoted)})"
    elif column.scale is not None and column.length is not None:
        text += f"({column.length},{column.scale})"
    elif column.type != "year" and (column.length or (column.length == 0 and column.type in _SIZED)):
        text += f"({column.length})"
    return text + (" unsigned" if column.unsigned else "")


def _escaped(label: str) -> str:
    """Escape a label as both servers do, whatever the sql_mode; `parse_column_type` reads it back."""
    for letter, escape in (("\\", "\\\\"), ("'", "''"), ("\0", "\\0"), ("\n", "\\n"), ("\r", "\\r")):
        label = label.replace(letter, escape)
    return label


BEYOND_UTF8MB3 = re.compile("[\U00010000-\U0010ffff]")
_WITH_LETTERS_BEYOND = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "gb18030"})


def doubtful_labels(table: MySqlTable) -> tuple[str, ...]:
    """Return ENUM and SET columns with a `?` in a label, which may stand for a character beyond U+FFFF."""
    return tuple(
        column.name
        for column in table.columns
        if column.charset in _WITH_LETTERS_BEYOND and any("?" in label for label in column.labels)
    )


def difference(known: MySqlTable, found: MySqlTable | None) -> str:
    """Return the reason why rows of the two tables decode differently, empty if they do not.

    Ignores comments and defaults.
    """
    if found is None:
        return "the table is gone"
    if found.primary_key != known.primary_key:
        return f"the key is {found.primary_key}, it was {known.primary_key}"
    mine, theirs = ([_shape(table, index) for index in range(len(table.columns))] for table in (known, found))
    for old, new in zip(mine, theirs, strict=False):
        if old != new:
            return f"a column is {new}, it was {old}"
    return "" if len(mine) == len(theirs) else f"the table has {len(theirs)} columns, it had {len(mine)}"


def _shape(table: MySqlTable, index: int) -> tuple[Any, ...]:
    column = table.columns[index]
    as_boolean = data_type(column, tinyint1_as_boolean=True)
    # A server shows characters beyond U+FFFF as `?` in definitions; its log has them as they are.
    labels = tuple(BEYOND_UTF8MB3.sub("?", label) for label in column.labels)
    charset = None if column.charset == "binary" else column.charset  # older states have None for binary labels
    return column.name, column.type, str(data_type(column)), str(as_boolean), charset, labels
