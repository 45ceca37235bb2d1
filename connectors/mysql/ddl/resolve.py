"""Resolves a written column, in a table with a default character set, to the column as stored by the server. Pure.

Checked against `information_schema` of the real servers (tests/fixtures/ddl). Display widths are dropped, except that
of TINYINT(1), as MySQL itself has done since 8.0.19: they say nothing about values.
"""

from __future__ import annotations

from dataclasses import replace

from connectors.mysql.ddl.defaults import decoded, default_text
from connectors.mysql.table import MySqlColumn
from connectors.shared.ddl.charsets import charset_of, max_bytes
from connectors.shared.ddl.dialect import DdlDialect
from connectors.shared.ddl.statements import ColumnDefinition, TypeSpec

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_CLASSES = ("tiny", "", "medium", "long")
_LIMITS = (255, 65535, 16777215)
LOB_BYTES = {
    size + family: most
    for size, most in zip(_CLASSES, (*_LIMITS, 4294967295), strict=True)
    for family in ("text", "blob")
}
"""Maximum bytes of each TEXT or BLOB type."""
_BINARY_TWIN = {"char": "binary", "varchar": "varbinary"}
_LONGEST, _LONGEST_ON_MARIADB = 65535, 65532
"""Maximum bytes of VARCHAR and VARBINARY; longer ones become a LOB in non-strict sessions."""
_COMMENT_CHARS = 1024
"""Characters that a server keeps of a longer column comment, in non-strict sessions."""


def resolve_column(definition: ColumnDefinition, table_charset: str, dialect: DdlDialect) -> MySqlColumn:
    """Return the column as the server stores it, in a table whose default character set is `table_charset`."""
    written = definition.type.charset or (charset_of(definition.collation) if definition.collation else None)
    column = _typed(definition.name, definition.type, written or table_charset, dialect)
    column = replace(
        column,
        nullable=_nullable(definition, dialect),
        comment=definition.comment[:_COMMENT_CHARS],
        generated=definition.generated,
        auto_increment=definition.auto_increment,
    ).shown(visible=dialect.mariadb or not definition.invisible)
    return replace(column, default=default_text(definition.default, column, dialect))


def without_display_width(column: MySqlColumn) -> MySqlColumn:
    """Return the column without the display width that MariaDB and MySQL before 8.0.19 show; TINYINT(1) keeps it."""
    boolean = column.type == "tinyint" and column.length == 1 and not column.unsigned
    return replace(column, length=None) if column.type in (*_INTEGERS, "year") and not boolean else column


def in_charset(column: MySqlColumn, charset: str, dialect: DdlDialect) -> MySqlColumn:
    """Return the column after CONVERT TO CHARACTER SET: text keeps its capacity in characters; its type may widen."""
    if column.charset in (None, "binary"):
        return column
    typed = _typed(column.name, TypeSpec(column.type, column.length, labels=column.labels), charset, dialect)
    if column.type.endswith("text") and charset != "binary":
        chars = LOB_BYTES[column.type] // max_bytes(column.charset or charset)
        typed = replace(typed, type=_lob("text", chars * max_bytes(charset)))
    return replace(column, type=typed.type, length=typed.length, charset=typed.charset)


def _typed(name: str, spec: TypeSpec, charset: str, dialect: DdlDialect) -> MySqlColumn:
    column = MySqlColumn(name, spec.name, spec.length, spec.scale, spec.unsigned)
    kind = spec.name
    if kind in _INTEGERS:
        return without_display_width(column)
    if kind in ("date", "year"):
        return replace(column, length=None, unsigned=False)
    if kind in ("time", "datetime", "timestamp"):
        return replace(column, length=spec.length or None)
    if kind == "decimal":
        return replace(column, length=spec.length or 10, scale=spec.scale or 0)
    if kind in ("bit", "char", "binary"):
        least = 1 if kind == "bit" else 0
        return _text(replace(column, length=1 if spec.length is None else max(spec.length, least)), charset, dialect)
    if kind == "vector":
        return replace(column, length=2048 if spec.length is None else spec.length)
    if kind == "json" and dialect.mariadb:
        return replace(column, type="longtext", charset="utf8mb4")
    if kind in ("enum", "set"):
        column = replace(column, charset=charset)
        return replace(column, labels=tuple(_label(label, column) for label in spec.labels))
    if kind.endswith(("text", "blob")):
        return _sized_lob(column, spec, charset, dialect)
    return _text(column, charset, dialect)


def _label(label: str | bytes, column: MySqlColumn) -> str:
    if isinstance(label, bytes):
        utf8 = column.charset in ("binary", "utf8mb3", "utf8mb4")
        label = label.decode("utf-8", "replace") if utf8 else decoded(label, column)
    return label if column.charset == "binary" else label.rstrip(" ")


def _text(column: MySqlColumn, charset: str, dialect: DdlDialect) -> MySqlColumn:
    """Resolve CHAR and VARCHAR in their character set; `binary` makes them BINARY, and too long ones become a LOB."""
    column = replace(column, charset=charset) if column.type in _BINARY_TWIN else column
    if column.charset == "binary":
        column = replace(column, type=_BINARY_TWIN[column.type], charset=None)
    length, most = column.length or 0, _LONGEST_ON_MARIADB if dialect.mariadb else _LONGEST
    if column.type == "varchar" and length * max_bytes(charset) > most:
        return replace(column, type=_lob("text", length * max_bytes(charset)), length=None)
    if column.type == "varbinary" and length > most:
        return replace(column, type=_lob("blob", length), length=None)
    return column


def _sized_lob(column: MySqlColumn, spec: TypeSpec, charset: str, dialect: DdlDialect) -> MySqlColumn:
    text = spec.name.endswith("text")
    family = "text" if text and charset != "binary" else "blob"
    name = spec.name[:-4] + family
    # TEXT(n) and BLOB(n) mean the smallest class with room for n; MariaDB reads 0 as "not given".
    if spec.length is not None and (spec.length > 0 or not dialect.mariadb):
        name = _lob(family, spec.length * (max_bytes(charset) if text else 1))
    return replace(column, type=name, length=None, charset=charset if family == "text" else None)


def _lob(family: str, size: int) -> str:
    return _CLASSES[sum(size > limit for limit in _LIMITS)] + family


def _nullable(definition: ColumnDefinition, dialect: DdlDialect) -> bool:
    if definition.primary_key:
        return False
    if definition.nullable is None and definition.type.name == "timestamp" and not dialect.explicit_timestamps:
        return definition.generated
    return definition.nullable is not False
